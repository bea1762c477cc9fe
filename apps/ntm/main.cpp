// ntm: trains Neural Turing Machines on the tasks of their paper and tests them; see --help.
#include "tern/apps/ntm/program.h"

int main(int argc, char** argv) {
  tern::apps::ntm::NtmFlags flags;
  return tern::apps::run_program(
      "ntm", [&] { return tern::apps::ntm::ntm_program(flags, argc, argv); }, argc, argv);
}

// ntm: trains Neural Turing Machines on the tasks of their paper and tests them; see --help.
#include "tern/apps/ntm/program.h"

int main(int argc, char** argv) {
  return tern::apps::run_program("ntm", tern::apps::ntm::ntm_program, argc, argv);
}

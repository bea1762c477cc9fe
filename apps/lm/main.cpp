// lm: trains language models, generates text with them, and scores texts; see --help.
#include "tern/apps/lm/program.h"

int main(int argc, char** argv) {
  tern::apps::lm::LmFlags flags;
  return tern::apps::run_program(
      "lm", [&] { return tern::apps::lm::lm_program(flags, argc, argv); }, argc, argv);
}

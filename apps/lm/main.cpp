// lm: trains language models, generates text with them, and scores texts; see --help.
#include "tern/apps/lm/program.h"

int main(int argc, char** argv) {
  return tern::apps::run_program("lm", tern::apps::lm::lm_program, argc, argv);
}

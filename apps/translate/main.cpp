// translate: trains translation models, translates, scores and shows attention; see --help.
#include "tern/apps/translate/program.h"

int main(int argc, char** argv) {
  return tern::apps::run_program("translate", tern::apps::translate::translate_program, argc, argv);
}

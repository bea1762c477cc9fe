// translate: trains translation models, translates, scores and shows attention; see --help.
#include "tern/apps/translate/program.h"

int main(int argc, char** argv) {
  tern::apps::translate::TranslateFlags flags;
  return tern::apps::run_program(
      "translate", [&] { return tern::apps::translate::translate_program(flags, argc, argv); },
      argc, argv);
}

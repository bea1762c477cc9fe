// tern: compares runs of the training programs; see --help.
#include "tern/apps/tern/comparison.h"

int main(int argc, char** argv) {
  tern::apps::program::ReportFlags flags;
  return tern::apps::run_program(
      "tern", [&] { return tern::apps::program::tern_program(flags); }, argc, argv);
}

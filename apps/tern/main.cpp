// tern: looks at runs of the training programs; see --help.
#include "tern/apps/common/app.h"
#include "tern/apps/tern/comparison.h"
#include "tern/apps/tern/options.h"
#include "tern/apps/tern/runs.h"
#include "tern/train/progress.h"

int main(int argc, char** argv) {
  using namespace tern::apps::program;
  return tern::apps::run_app("tern", [&] {
    ReportOptions options;
    if (!parse_options(argc, argv, options)) return 0;
    write_comparison(options.out, load_runs(options.runs));
    tern::train::say("report " + options.out);
    return 0;
  });
}

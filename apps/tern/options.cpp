#include "tern/apps/tern/options.h"

#include <CLI/CLI.hpp>

#include "tern/apps/common/flags.h"
#include "tern/core/base/error.h"

namespace tern::apps::program {
namespace {

constexpr const char* kAbout =
    "Looks at runs that the training programs have left. `tern report A B C` sets them side by "
    "side on one page.";

}  // namespace

bool parse_options(int argc, char** argv, ReportOptions& o) {
  CLI::App app(kAbout, "tern");
  app.get_formatter()->column_width(36);
  app.require_subcommand(1);
  CLI::App* report = app.add_subcommand(
      "report",
      "writes a page that compares runs: their curves over each other, the settings that differ, "
      "and what they reached");
  report->option_defaults()->always_capture_default();
  report->add_option("runs", o.runs, "folders of runs, of any of the training programs")
      ->type_name("DIR")
      ->required()
      ->always_capture_default(false);
  report->add_option("--out", o.out, "the page; one of its own from before is replaced")
      ->type_name("FILE");
  if (!parse_flags(app, argc, argv)) return false;
  check(!o.out.empty(), "--out: the name of the page is empty");
  return true;
}

}  // namespace tern::apps::program

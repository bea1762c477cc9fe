// Checks the files that every training program writes besides weights and log: a report that says
// how the run was made, and event files.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "tern/apps/common/pages/html.h"
#include "tern/apps/common/training/run_record.h"
#include "tern/tests/train/event_reader.h"

namespace tern::test {

/// Checks a run with --tensorboard that was started with this command line. The tag of an image
/// begins with `picture`; `chosen` says whether a metric selects the best epoch.
inline void check_run_files(const std::string& folder, const std::string& command,
                            const std::string& picture, bool chosen = true) {
  const std::string page = read_file(folder + "/report.html");
  for (const std::string& part :
       {"<code>" + apps::escape_html(command) + "</code>", std::string(" UTC, tern "),
        std::string("Learning rate</b>"), std::string("Norm of the gradient (before --clip)"),
        std::string(">step</text>"), std::string("log scale</label>"),
        std::string("<summary>Every epoch</summary>"),
        std::string("<summary>All settings</summary>"), std::string("<td>--seed</td>"),
        std::string("<td>--keep</td>"), std::string("<p class=\"answer\">"),
        std::string(" weights</p>\n<p class=\"state\">Finished: "),
        std::string("prefers-color-scheme")})
    CHECK_MESSAGE(contains(page, part), part);
  CHECK_FALSE(contains(page, "epoch_end."));  // the name of a setting in files
  for (const char* outside : {"<script src", "src=\"http", "href=\"http"})
    CHECK_FALSE(contains(page, outside));
  // Long tables come last.
  CHECK(page.find("<summary>Every epoch") > page.rfind("</svg>"));

  const auto record = apps::load_run_record({folder});
  REQUIRE(record.has_value());
  CHECK(record->starts.at(0).command == command);
  CHECK(record->best.metric.empty() == !chosen);
  CHECK(record->weights > 0);
  CHECK(record->resume.find("--resume " + folder) != std::string::npos);

  const std::vector<Event> events = shown_events(folder);
  auto has = [&](const std::string& begin) {
    return std::any_of(events.begin(), events.end(),
                       [&](const Event& e) { return e.tag.starts_with(begin); });
  };
  for (const char* tag :
       {"step/loss", "step/lr", "step/grad_norm", "epoch/train_loss", "weights/", "gradients/"})
    CHECK_MESSAGE(has(tag), tag);
  CHECK_MESSAGE(has(picture), picture);
}

}  // namespace tern::test

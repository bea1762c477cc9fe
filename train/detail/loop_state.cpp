// LoopState to JSON and back, including files of earlier versions; and new lines of the log.
#include "tern/train/detail/loop_state.h"

#include <nlohmann/json.hpp>

#include "tern/core/base/error.h"
#include "tern/core/io/json_value.h"
#include "tern/train/detail/json_number.h"

namespace tern::training {
namespace {

using nlohmann::json;

json to_json(const EpochRecord& r) {
  json metrics = json::array();
  for (const auto& [name, value] : r.metrics) metrics.push_back({name, number(value)});
  json j = {{"epoch", r.epoch},   {"metrics", metrics},           {"speed", number(r.speed)},
            {"lr", number(r.lr)}, {"seconds", number(r.seconds)}, {"steps", r.steps}};
  if (!r.ended.empty()) j["ended"] = r.ended;
  return j;
}

EpochRecord record(const JsonValue& j) {
  EpochRecord r{.epoch = j.at("epoch").integer(),
                .metrics = {},
                .speed = number(j.at("speed")),
                .lr = number(j.at("lr")),
                .seconds = number(j.at("seconds")),
                .steps = j.get("steps", int64_t{0}),
                .ended = j.get("ended", "")};
  for (const JsonValue& m : j.at("metrics").elements())
    r.metrics.emplace_back(m.at(0).text(), number(m.at(1)));
  return r;
}

json to_json(const StepLog& log) {
  const StepLog::Sums s = log.sums();
  json records = json::array();
  for (const StepRecord& r : log.records())
    records.push_back({r.step, number(r.loss), number(r.lr), number(r.grad_norm)});
  return {{"sums", {number(s.loss), number(s.grad_norm), s.count}}, {"records", records}};
}

StepLog step_log(const JsonValue& j) {
  std::vector<StepRecord> records;
  for (const JsonValue& r : j.at("records").elements())
    records.push_back({r.at(0).integer(), number(r.at(1)), number(r.at(2)), number(r.at(3))});
  const JsonValue sums = j.at("sums");
  return StepLog(std::move(records),
                 {number(sums.at(0)), number(sums.at(1)), sums.at(2).integer()});
}

}  // namespace

void append_steps(const RunFolder& folder, const StepLog& steps, size_t& logged) {
  std::string lines;
  for (; logged < steps.records().size(); ++logged) {
    if (!lines.empty()) lines += '\n';
    lines += log_line(steps.records()[logged]);
  }
  if (!lines.empty()) folder.append_log(lines);
}

std::string to_json(const LoopState& s) {
  json means = json::array(), history = json::array();
  for (const Means::Entry& e : s.means.entries())
    means.push_back({e.name, number(e.sum), number(e.count)});
  for (const EpochRecord& r : s.history) history.push_back(to_json(r));
  return json{{"data_epoch", s.data_epoch},
              {"epoch_steps", s.epoch_steps},
              {"own_steps", s.own_steps},
              {"batch", s.batch},
              {"batches", s.batches},
              {"order", s.order},
              {"progress", number(s.progress)},
              {"train_seconds", number(s.train_seconds)},
              {"evaluate_seconds", number(s.evaluate_seconds)},
              {"means", means},
              {"history", history},
              {"steps", to_json(s.steps)},
              {"kept", s.kept}}
      .dump();
}

LoopState loop_state_from_json(const std::string& text) {
  const JsonDocument document(text);
  const JsonValue j = document.root();
  LoopState s{.data_epoch = j.get("data_epoch", int64_t{0}),
              .batch = j.at("batch").integer(),
              .batches = j.at("batches").integer(),
              .epoch_steps = j.get("epoch_steps", int64_t{-1}),
              .progress = number(j.at("progress")),
              .train_seconds = number(j.at("train_seconds")),
              .evaluate_seconds = number(j.at("evaluate_seconds"))};
  for (const JsonValue& m : j.at("means").elements())
    s.means.add(m.at(0).text(), number(m.at(1)), number(m.at(2)));
  for (const JsonValue& r : j.at("history").elements()) s.history.push_back(record(r));
  s.own_steps = j.get("own_steps", int64_t{0});
  // Files of earlier versions have no order, no steps and no kept epochs.
  s.order = j.get("order", s.order);
  if (j.has("steps")) s.steps = step_log(j.at("steps"));
  if (j.has("kept")) s.kept = j.at("kept").integers();
  return s;
}

}  // namespace tern::training

#include "tern/train/detail/loop_state.h"

#include <nlohmann/json.hpp>

#include "tern/core/base/error.h"
#include "tern/core/io/json_text.h"
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

EpochRecord record(const json& j) {
  EpochRecord r{.epoch = whole_number(j.at("epoch")),
                .metrics = {},
                .speed = number(j.at("speed")),
                .lr = number(j.at("lr")),
                .seconds = number(j.at("seconds")),
                .steps = whole_number_or(j, "steps", 0),
                .ended = j.value("ended", "")};
  for (const json& m : j.at("metrics")) r.metrics.emplace_back(m.at(0), number(m.at(1)));
  return r;
}

json to_json(const StepLog& log) {
  const StepLog::Sums s = log.sums();
  json records = json::array();
  for (const StepRecord& r : log.records())
    records.push_back({r.step, number(r.loss), number(r.lr), number(r.grad_norm)});
  return {{"sums", {number(s.loss), number(s.grad_norm), s.count}}, {"records", records}};
}

StepLog step_log(const json& j) {
  std::vector<StepRecord> records;
  for (const json& r : j.at("records"))
    records.push_back({whole_number(r.at(0)), number(r.at(1)), number(r.at(2)), number(r.at(3))});
  const json& sums = j.at("sums");
  return StepLog(std::move(records),
                 {number(sums.at(0)), number(sums.at(1)), whole_number(sums.at(2))});
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
  try {
    const json j = parse_json(text);
    LoopState s{.data_epoch = whole_number_or(j, "data_epoch", 0),
                .batch = whole_number(j.at("batch")),
                .batches = whole_number(j.at("batches")),
                .epoch_steps = whole_number_or(j, "epoch_steps", -1),
                .progress = number(j.at("progress")),
                .train_seconds = number(j.at("train_seconds")),
                .evaluate_seconds = number(j.at("evaluate_seconds"))};
    for (const json& m : j.at("means")) s.means.add(m.at(0), number(m.at(1)), number(m.at(2)));
    for (const json& r : j.at("history")) s.history.push_back(record(r));
    s.own_steps = whole_number_or(j, "own_steps", 0);
    // Earlier versions had no order, no steps and kept no epochs.
    if (j.contains("order")) s.order = whole_number(j.at("order"));
    if (j.contains("steps")) s.steps = step_log(j.at("steps"));
    if (j.contains("kept"))
      for (const json& epoch : j.at("kept")) s.kept.push_back(whole_number(epoch));
    return s;
  } catch (const json::exception& e) {
    fail(fmt::format("it cannot be read: {}", e.what()));
  }
}

}  // namespace tern::training

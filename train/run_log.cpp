// Chooses the steps that get a line, writes the lines of log.jsonl, and reads a log back.
#include "tern/train/run_log.h"

#include <algorithm>
#include <bit>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "tern/core/base/error.h"
#include "tern/core/base/reading.h"
#include "tern/core/io/json_value.h"

namespace tern::training {
namespace {

constexpr uint64_t kLinesADoubling = 128;
constexpr uint64_t kLargestFile = uint64_t{1} << 30;
constexpr std::string_view kSpeed = "_per_s";

double number_or_nan(const JsonValue& j) {
  return j.is_null() ? std::numeric_limits<double>::quiet_NaN() : j.number();
}

EpochRecord epoch_record(const JsonValue& j, std::string& unit) {
  EpochRecord r{.epoch = j.at("epoch").integer(), .metrics = {}};
  for (const auto& [key, value] : j.members()) {
    if (key == "epoch") continue;
    if (key == "lr")
      r.lr = number_or_nan(value);
    else if (key == "seconds")
      r.seconds = number_or_nan(value);
    else if (key == "steps")
      r.steps = value.integer();
    else if (key == "ended")
      r.ended = value.text();
    else if (key.ends_with(kSpeed)) {
      unit = key.substr(0, key.size() - kSpeed.size());
      r.speed = number_or_nan(value);
    } else {
      r.metrics.emplace_back(key, number_or_nan(value));
    }
  }
  return r;
}

void read_line(const std::string& line, RunLog& log) {
  const JsonDocument document(line, {.depth = 4, .values = 10000});
  const JsonValue j = document.root();
  if (j.has("epoch")) {
    log.epochs.push_back(epoch_record(j, log.unit));
    const int64_t epoch = log.epochs.back().epoch;
    const auto before = std::ssize(log.epochs) - 1;
    check(epoch > (before > 0 ? log.epochs[static_cast<size_t>(before - 1)].epoch : 0),
          "epoch {} comes out of order", epoch);
    return;
  }
  const StepRecord r{j.at("step").integer(), number_or_nan(j.at("loss")), number_or_nan(j.at("lr")),
                     number_or_nan(j.at("grad_norm"))};
  check(r.step > (log.steps.empty() ? 0 : log.steps.back().step), "step {} comes out of order",
        r.step);
  log.steps.push_back(r);
}

}  // namespace

bool has_record(int64_t step) {
  if (step < 1) return false;
  const auto n = static_cast<uint64_t>(step);
  return n % std::max<uint64_t>(std::bit_floor(n) / kLinesADoubling, 1) == 0;
}

StepLog::StepLog(std::vector<StepRecord> records, const Sums& sums)
    : records_(std::move(records)), sums_(sums) {
  check(sums_.count >= 0, "the log of steps: {} steps since the last record", sums_.count);
  for (size_t i = 1; i < records_.size(); ++i)
    check(records_[i].step > records_[i - 1].step, "the log of steps: {} comes after {}",
          records_[i].step, records_[i - 1].step);
}

bool StepLog::add(const StepRecord& s) {
  sums_.loss += s.loss;
  sums_.grad_norm += s.grad_norm;
  ++sums_.count;
  if (!has_record(s.step)) return false;
  const auto n = static_cast<double>(sums_.count);
  records_.push_back({s.step, sums_.loss / n, s.lr, sums_.grad_norm / n});
  sums_ = {};
  return true;
}

std::string log_line(const StepRecord& r) {
  const nlohmann::ordered_json line = {
      {"step", r.step}, {"loss", r.loss}, {"lr", r.lr}, {"grad_norm", r.grad_norm}};
  return line.dump();  // what is not finite becomes null
}

std::vector<std::string> log_lines(const std::vector<EpochRecord>& epochs,
                                   const std::vector<StepRecord>& steps, const std::string& unit) {
  std::vector<std::string> lines;
  auto step = steps.begin();
  auto steps_until = [&](int64_t last) {
    for (; step != steps.end() && step->step <= last; ++step) lines.push_back(log_line(*step));
  };
  for (const EpochRecord& e : epochs) {
    steps_until(e.steps);
    lines.push_back(log_line(e, unit));
  }
  steps_until(std::numeric_limits<int64_t>::max());
  return lines;
}

RunLog read_log(const std::string& path) {
  std::error_code error;
  const uint64_t size = std::filesystem::file_size(path, error);
  check_io(!error, "{}: cannot be read: {}", path, error.message());  // a pipe has no size
  std::ifstream in(path, std::ios::binary);
  check_io(in.good(), "{}: cannot be read", path);
  check_io(size <= kLargestFile, "{}: {} bytes are too many for a log", path, size);
  RunLog log;
  std::string line;
  for (int64_t number = 1; std::getline(in, line); ++number) {
    if (in.eof()) break;  // no line end: it is being written, or a kill cut it off
    reading(fmt::format("{}:{}: not a line of a log", path, number), [&] { read_line(line, log); });
  }
  return log;
}

}  // namespace tern::training

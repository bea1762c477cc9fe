// Means by name, the JSON line of an epoch, and the search for the best epoch in a history.
#include "tern/train/metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "tern/core/base/error.h"

namespace tern::training {
namespace {

const Means::Entry* find(const std::vector<Means::Entry>& entries, const std::string& name) {
  for (const Means::Entry& e : entries)
    if (e.name == name) return &e;
  return nullptr;
}

const double* find(const Metrics& metrics, const std::string& name) {
  for (const auto& [n, value] : metrics)
    if (n == name) return &value;
  return nullptr;
}

}  // namespace

Best::Best() = default;
Best::Best(std::string metric_name, bool is_largest)
    : metric(std::move(metric_name)), largest(is_largest) {}

void Means::add(const std::string& name, double sum, double count) {
  auto* e = const_cast<Entry*>(find(entries_, name));
  if (!e) e = &entries_.emplace_back(Entry{name});
  e->sum += sum;
  e->count += count;
}

double Means::mean(const std::string& name) const {
  const Entry* e = find(entries_, name);
  return e ? e->sum / e->count : std::numeric_limits<double>::quiet_NaN();
}

double Means::count(const std::string& name) const {
  const Entry* e = find(entries_, name);
  return e ? e->count : 0;
}

double EpochRecord::operator[](const std::string& name) const {
  if (const double* value = find(metrics, name)) return *value;
  std::string names;
  for (const auto& [n, value] : metrics) names += (names.empty() ? "" : ", ") + n;
  fail(fmt::format("epoch {}: there is no metric '{}'; there are {}", epoch, name, names));
}

bool EpochRecord::has(const std::string& name) const { return find(metrics, name) != nullptr; }

std::string log_line(const EpochRecord& record, const std::string& unit) {
  nlohmann::ordered_json line = {{"epoch", record.epoch}};  // writes what is not finite as null
  for (const auto& [name, value] : record.metrics) line[name] = value;
  line[unit + "_per_s"] = record.speed;
  line["lr"] = record.lr;
  line["seconds"] = record.seconds;
  if (record.steps > 0) line["steps"] = record.steps;
  if (!record.ended.empty()) line["ended"] = record.ended;
  return line.dump();
}

const EpochRecord& best_epoch(const std::vector<EpochRecord>& history, const Best& best) {
  check(!history.empty(), "best_epoch: no epoch is closed");
  const int64_t since = best.metric.empty() ? 0 : epochs_since_best(history, best);
  return since < std::ssize(history) ? *(history.end() - 1 - since) : history.back();
}

int64_t epochs_since_best(const std::vector<EpochRecord>& history, const Best& best) {
  double least = std::numeric_limits<double>::quiet_NaN();
  int64_t since = 0;
  for (const EpochRecord& e : history) {
    const double value = e[best.metric] * (best.largest ? -1 : 1);
    const bool better = value < least || (std::isnan(least) && !std::isnan(value));
    if (better) least = value;
    since = better ? 0 : since + 1;
  }
  return since;
}

}  // namespace tern::training

#include "tern/apps/common/metric_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace tern::apps {
namespace {

struct Known {
  const char *metric, *name;
  int digits = 4;
  bool percent = false, larger = false;
};
constexpr Known kKnown[] = {
    {"loss", "loss"},
    {"ppl", "perplexity", 3},
    {"bits_per_byte", "bits per byte", 3},
    {"bleu", "BLEU", 2, false, true},
    {"masked", "loss of a masked word"},
    {"words", "words right", 1, true, true},
    {"next", "loss of a pair"},
    {"pairs", "pairs right", 1, true, true},
    {"bits_per_sequence", "bits per sequence"},
    {"wrong_bits", "wrong bits", 3},
    {"best_predictor", "bits of the best predictor"},
    {"sequences", "sequences", 0, false, true},
    {"lr", "learning rate", 6},
};
constexpr std::pair<const char*, const char*> kSets[] = {
    {"train_", "training"}, {"valid_", "validation"}, {"test_", "test"}};

}  // namespace

MetricText metric_text(const std::string& metric) {
  MetricText out;
  out.name = metric;
  for (const auto& [prefix, set] : kSets)
    if (metric.starts_with(prefix)) {
      out.set = set;
      out.name = metric.substr(std::string(prefix).size());
    }
  for (const Known& k : kKnown)
    if (out.name == k.metric) return {out.set, k.name, k.digits, k.percent, k.larger};
  if (out.name.starts_with("top") && out.name.size() > 3)
    return {out.set, "top-" + out.name.substr(3), 2, true, true};
  std::replace(out.name.begin(), out.name.end(), '_', ' ');
  return out;
}

std::string MetricText::write(double value) const {
  if (std::isnan(value)) return "-";
  return percent ? fmt::format("{:.{}f}%", 100 * value, digits)
                 : fmt::format("{:.{}f}", value, digits);
}

}  // namespace tern::apps

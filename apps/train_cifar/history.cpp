#include "tern/apps/train_cifar/history.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tern/core/base/error.h"

namespace tern::apps {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(EpochRecord, epoch, train_loss, train_top1, test_loss, test_top,
                                   images_per_s, lr, seconds)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RunProgress, step, loss_sum, seen, correct, train_seconds,
                                   test_seconds, history)

const EpochRecord& best_epoch(const std::vector<EpochRecord>& history) {
  check(!history.empty(), "best_epoch: no epoch is done");
  return *std::max_element(
      history.begin(), history.end(),
      [](const EpochRecord& a, const EpochRecord& b) { return a.test_top[0] < b.test_top[0]; });
}

std::string progress_to_json(const RunProgress& progress) {
  return nlohmann::json(progress).dump();
}

RunProgress progress_from_json(const std::string& json) {
  try {
    return nlohmann::json::parse(json).get<RunProgress>();
  } catch (const nlohmann::json::exception& e) {
    fail(fmt::format("its progress cannot be read: {}", e.what()));
  }
}

std::string log_line(const std::vector<EpochRecord>& history, size_t index) {
  const EpochRecord& e = history.at(index);
  double best =
      best_epoch({history.begin(), history.begin() + static_cast<std::ptrdiff_t>(index) + 1})
          .test_top[0];
  nlohmann::ordered_json line = {{"epoch", e.epoch},
                                 {"train_loss", e.train_loss},
                                 {"train_top1", e.train_top1},
                                 {"test_loss", e.test_loss}};
  for (size_t k = 0; k < e.test_top.size(); ++k)
    line[fmt::format("test_top{}", k + 1)] = e.test_top[k];
  line["best_top1"] = best;
  line["images_per_s"] = e.images_per_s;
  line["lr"] = e.lr;
  line["seconds"] = e.seconds;
  return line.dump();
}

}  // namespace tern::apps

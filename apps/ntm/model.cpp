// Makes the network of a configuration, and loads the weights of the best epoch.
#include "tern/apps/ntm/model.h"

#include "tern/apps/common/training/weights_fit.h"
#include "tern/core/base/rng.h"

namespace tern::apps::ntm {
namespace {

std::variant<models::Ntm, models::LstmBaseline> make_network(const NtmConfig& c) {
  Rng rng(c.seed);
  if (!c.baseline) return models::Ntm(model_options(c), rng);
  const datasets::SequenceTask task = datasets::sequence_task(c.task);
  return models::LstmBaseline(task.inputs, task.outputs, rng, c.hidden, c.layers);
}

}  // namespace

SequenceModel::SequenceModel(const NtmConfig& config) : network(make_network(config)) {}

Tensor SequenceModel::operator()(const Tensor& input) const {
  return std::visit([&](const auto& n) { return n(input); }, network);
}

SequenceModel load_best_model(const training::RunFolder& folder, const NtmConfig& config) {
  return load_weights(folder.best_weights(), folder.file("config.json"),
                      [&] { return SequenceModel(config); });
}

}  // namespace tern::apps::ntm

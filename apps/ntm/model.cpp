#include "tern/apps/ntm/model.h"

#include <fmt/format.h>

#include "tern/apps/common/weights_fit.h"
#include "tern/core/base/error.h"
#include "tern/core/base/rng.h"
#include "tern/core/io/safetensors.h"

namespace tern::apps::ntm {
namespace {

std::variant<models::Ntm, models::LstmBaseline> make_network(const NtmConfig& c) {
  Rng rng(c.seed);
  if (!c.baseline) return models::Ntm(model_options(c), rng);
  const data::SequenceTask task = data::sequence_task(c.task);
  return models::LstmBaseline(task.inputs, task.outputs, rng, c.hidden, c.layers);
}

}  // namespace

SequenceModel::SequenceModel(const NtmConfig& config) : network(make_network(config)) {}

Tensor SequenceModel::operator()(const Tensor& input) const {
  return std::visit([&](const auto& n) { return n(input); }, network);
}

SequenceModel load_best_model(const train::RunFolder& folder, const NtmConfig& config) {
  const std::string path = folder.best_weights();
  const SafeTensors weights = load_safetensors(path);
  check_finite_weights(path, weights.tensors);
  try {
    check_weights_fit(weights.tensors, [&] { return SequenceModel(config); });
    SequenceModel model(config);
    nn::load_state_dict(model, weights.tensors, {.take = true});
    return model;
  } catch (const Error& e) {
    fail_io(fmt::format("{}: not the weights that {} describes: {}", path,
                        folder.file("config.json"), e.what()));
  }
}

}  // namespace tern::apps::ntm

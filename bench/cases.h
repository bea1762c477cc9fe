// The training steps that the benchmarks time. torch_bench.py has the same steps under the same
// names.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tern/core/base/rng.h"
#include "tern/core/io/state.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/nn/module.h"
#include "tern/nn/recompute.h"
#include "tern/optim/optim.h"

namespace tern::bench {

/// A model with one batch, for a training step.
struct Workload {
  NamedTensors parameters;
  std::function<Tensor()> loss;  ///< one forward pass
};

/// A workload that classifies x (B, ...) into 10 classes, with random labels.
template <class Model>
Workload classify(std::shared_ptr<Model> model, const Tensor& x, Rng& rng) {
  const Tensor classes = randint(0, 10, {x.size(0)}, rng);
  return {nn::named_parameters(*model), [=] { return cross_entropy((*model)(x), classes); }};
}

struct Case {
  std::string name;
  int64_t items;                                ///< images or tokens per step
  std::function<Workload(nn::Recompute)> make;  ///< models without blocks ignore the argument
  bool step_in_backward = false;  ///< update each weight in backward, and free its gradient
};

/// Runs steps of a case: forward, backward, AdamW.
class TrainingStep {
 public:
  TrainingStep(const Case& c, Workload work, int optimizer_bits, bool step_in_backward)
      : work_(std::move(work)),
        in_backward_(c.step_in_backward || step_in_backward),
        optimizer_(work_.parameters, {.lr = 1e-3, .state_bits = optimizer_bits}) {
    optimizer_.allocate_state();
  }
  void operator()() {
    optimizer_.zero_grad();
    if (in_backward_)
      backward(work_.loss(), {.on_ready = optimizer_.step_in_backward()});
    else
      backward(work_.loss());
    optimizer_.step();
  }

 private:
  Workload work_;
  bool in_backward_;
  optim::AdamW optimizer_;
};

std::vector<Case> gmlp_cases();
std::vector<Case> bahdanau_cases();
std::vector<Case> ntm_cases();
std::vector<Case> transformer_cases();
std::vector<Case> vit_cases();
std::vector<Case> gpt_cases();
std::vector<Case> resnet_cases();
std::vector<Case> mobilenet_cases();
std::vector<Case> unet_cases();
std::vector<Case> convnext_cases();
std::vector<Case> tcn_cases();
std::vector<Case> lstm_lm_cases();

std::vector<Case> all_cases();

}  // namespace tern::bench

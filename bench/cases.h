// The training steps that the benchmark times; torch_bench.py has the same under the same names.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tern/core/io/state.h"
#include "tern/nn/recompute.h"

namespace tern::bench {

/// A model with one batch: what a training step needs.
struct Workload {
  NamedTensors parameters;
  std::function<Tensor()> loss;  ///< one forward pass
};

struct Case {
  std::string name;
  int64_t items;  ///< per step: images, or tokens
  double gflop;   ///< of the matrix products of a step; PyTorch may compute more
  std::function<Workload(nn::Recompute)> make;  ///< models without blocks pass that by
  bool step_in_backward = false;  ///< each weight as its gradient is complete, which is then freed
};

std::vector<Case> gmlp_cases();
std::vector<Case> bahdanau_cases();
std::vector<Case> ntm_cases();
std::vector<Case> transformer_cases();
std::vector<Case> vit_cases();
std::vector<Case> gpt_cases();

std::vector<Case> all_cases();

}  // namespace tern::bench

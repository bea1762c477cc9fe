// Makes optimizers (optim/) by name, for flags and configurations.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tern/optim/optimizer.h"

namespace tern::training {

struct OptimizerOptions {
  std::string name = "adamw";  ///< one of optimizer_names()
  double lr = 1e-3;
  std::optional<double> beta2 = {};         ///< default: the optimizer's; see has_beta2()
  std::optional<double> weight_decay = {};  ///< default: the optimizer's
  int state_bits = 32;                      ///< or 8, for adam and adamw
  double momentum = 0.9;                    ///< for sgd only
  bool nesterov = false;                    ///< for sgd only: Nesterov momentum
};

/// adam, adamw, sgd, rmsprop, adadelta, lion, lamb, adafactor, nadam, radam, muon. Settings that
/// OptimizerOptions does not have keep their defaults. muon is optim::MuonWithAdamW on
/// optim::muon_parameters, with one learning rate for both (MuonRate::match_rms_adamw).
std::vector<std::string> optimizer_names();
/// Whether the optimizer has a beta2, as Adam and its variants do. (muon has that of its AdamW.)
bool has_beta2(const std::string& name);

/// Makes the optimizer. Error if there is none of that name, if a beta2 is given and it has none,
/// if it does not support state_bits, or if muon finds neither a matrix nor a convolution in a
/// list of blocks.
std::unique_ptr<optim::Optimizer> make_optimizer(const OptimizerOptions& options,
                                                 const optim::ParameterGroups& groups);

}  // namespace tern::training

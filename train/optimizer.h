// Optimizers (optim/) by name, for flags and configurations.
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
  std::optional<double> beta2 = {};         ///< none: the optimizer's own; see has_beta2()
  std::optional<double> weight_decay = {};  ///< none: the optimizer's own
  int state_bits = 32;                      ///< or 8: adam and adamw
  double momentum = 0.9;                    ///< of sgd, and
  bool nesterov = false;                    ///< its kind
};

/// adam, adamw, sgd, rmsprop, adadelta, lion, lamb, adafactor, nadam,
/// radam, muon. All other settings have their defaults. muon is optim::MuonWithAdamW on
/// optim::muon_parameters, with one rate for both (MuonRate::match_rms_adamw).
std::vector<std::string> optimizer_names();
/// Whether it has a beta2, as Adam and its variants do. (muon's is that of its AdamW.)
bool has_beta2(const std::string& name);

/// Error if there is none of that name, if it has no beta2 and one is given, if it keeps no state
/// of so many bits, or if muon finds no matrix in a list of blocks.
std::unique_ptr<optim::Optimizer> make_optimizer(const OptimizerOptions& options,
                                                 const optim::ParameterGroups& groups);

}  // namespace tern::training

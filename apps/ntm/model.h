// The network of a run, and loading it from the run's folder.
#pragma once

#include <variant>

#include "tern/apps/ntm/config.h"
#include "tern/models/ntm.h"
#include "tern/train/run_folder.h"

namespace tern::apps::ntm {

/// A Neural Turing Machine or the LSTM baseline, under the network's own parameter names.
struct SequenceModel {
  std::variant<models::Ntm, models::LstmBaseline> network;

  /// Random weights from the configuration's seed.
  explicit SequenceModel(const NtmConfig& config);
  /// Logits (B, T, O) for inputs (B, T, I).
  Tensor operator()(const Tensor& input) const;
  /// nullptr for the LSTM.
  const models::Ntm* machine() const { return std::get_if<models::Ntm>(&network); }
  static void fields(auto& m, auto&& visit) { visit("", m.network); }
};

/// A model of this configuration with the weights of the best epoch. IoError if they do not fit;
/// this is checked before the model is allocated.
SequenceModel load_best_model(const training::RunFolder& folder, const NtmConfig& config);

}  // namespace tern::apps::ntm

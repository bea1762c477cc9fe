// Small trainings of every family of models, for tests of bitwise equality. Sizes are odd. Batches
// are large enough that products, norms and attention are split over many threads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tern/core/tensor/tensor.h"

namespace tern::test {

struct SmallTraining {
  std::string name;
  /// Runs some steps of AdamW. Returns losses, gradient norms and the final weights.
  std::vector<Tensor> (*run)(int steps);
  uint64_t hash;  ///< hash of run(10) in f32 with fused multiply-adds
};
/// gMLP, ViT, ResNet, NTM, LSTM seq2seq, Bahdanau, Transformer, BERT, GPT-2 and Llama.
const std::vector<SmallTraining>& small_trainings();

/// FNV-1a of all bytes.
uint64_t hash_of(const std::vector<Tensor>& tensors);

}  // namespace tern::test

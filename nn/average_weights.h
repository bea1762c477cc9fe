// Averages several files of weights: the last epochs of a run ("checkpoint averaging", Vaswani et
// al. 2017), or fine-tunings of one model ("model soups", Wortsman et al. 2022).
//
//   nn::load_state_dict(net, nn::average_weights({"weights-8.safetensors", "weights-9.safetensors",
//                                                 "weights-10.safetensors"}));
//
// Reads files of any model, of tern or PyTorch (load_tensors). optim::Ema averages during training.
#pragma once

#include <string>
#include <vector>

#include "tern/core/io/state.h"

namespace tern::nn {

/// The tensors of the first file, each the mean over all files. Floating tensors are summed in f64
/// and get back the type that load_tensors() gives them. Integers (a BatchNorm's count of
/// batches) come from the last file. Memory holds the sums and one file at a time. Error if `files`
/// is empty. IoError if a file has other names, shapes or types than the first; it names both files
/// and the difference.
///
/// Running statistics are averaged too, but they only approximate those of the averaged weights:
/// for a model with BatchNorm, recompute them by a pass over the training data.
[[nodiscard]] NamedTensors average_weights(const std::vector<std::string>& files);

}  // namespace tern::nn

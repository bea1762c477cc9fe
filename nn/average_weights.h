// The mean of several files of weights: of the last epochs of a run ("checkpoint averaging",
// Vaswani et al. 2017), or of fine-tunings of one model ("model soups", Wortsman et al. 2022).
//
//   nn::load_state_dict(net, nn::average_weights({"weights-8.safetensors", "weights-9.safetensors",
//                                                 "weights-10.safetensors"}));
//
// Works on safetensors of any model, PyTorch's too. optim::Ema averages during the training.
#pragma once

#include <string>
#include <vector>

#include "tern/core/io/state.h"

namespace tern::nn {

/// The tensors of the first file, each the mean over all files. Floating tensors are summed in f64
/// and keep their type. Integers (the batches that a norm has counted) are those of the last file.
/// One file at a time is in memory beside the sums. Error without files. IoError if a file has
/// other names, shapes or types than the first, with both and the difference.
///
/// Running statistics are averaged too, although those of averaged weights differ a little: for
/// models with BatchNorm a pass over the training data sets them anew.
[[nodiscard]] NamedTensors average_weights(const std::vector<std::string>& files);

}  // namespace tern::nn

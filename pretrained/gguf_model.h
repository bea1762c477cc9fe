// Language models in GGUF files, as transformers knows them: config.json and names of weights.
// Inside of tern only.
//
// Known architectures: gpt2, llama (Mistral too), phi3, qwen2, qwen3, gemma3, smollm3. Others are
// refused by name, and so are members and tensors that are not known: they may change what the
// model computes.
#pragma once

#include <memory>
#include <string>

#include "tern/core/io/gguf.h"
#include "tern/core/io/state.h"
#include "tern/core/io/tensor_file.h"

namespace tern::pretrained {

/// The text of config.json that transformers would have for this model. The weights say the size of
/// the vocabulary, and whether the head is the embedding table. Numbers that the file stores as f32
/// have the fewest digits that give the same f32: 1e-05. The scaling of Llama 3's rotary positions,
/// of which the file has only the results, is recognised by them; other tables are refused.
std::string gguf_config(const GgufFile& file);

/// The name in transformers of a tensor. IoError if the architecture has no such tensor. Empty for
/// tables of rotary positions, which gguf_config() reads.
std::string gguf_weight_name(const GgufFile& file, const std::string& name);

/// A tensor as transformers stores it: rows of queries and keys in the order of halves, which
/// llama.cpp changes for "llama" and "smollm3"; GPT-2's matrices (in, out).
Tensor load_gguf_weight(const GgufFile& file, const std::string& name);

/// All weights under transformers' names, which are read when they are asked for.
TensorSource open_gguf_weights(std::shared_ptr<const GgufFile> file);
/// All weights under transformers' names, in the order of the file, dequantised.
NamedTensors load_gguf_weights(const GgufFile& file);

}  // namespace tern::pretrained

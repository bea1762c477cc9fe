// The tensors of decoding states by name, for programs that hold a state as a list of tensors, as
// the inputs and outputs of a model in ONNX (onnx/onnx_step.h). The names of tensors that a step
// changes begin with "past.".
//
//   NamedTensors list;
//   map_tensors(state, [&](const std::string& name, const Tensor& t) {
//     list.emplace_back(name, t);
//     return t;
//   });
//
// | state | names |
// |---|---|
// | GptState | past.0.keys, past.0.values, ... (B, G, T, D) by layer |
// | TransformerState | lengths (B), then by layer memory.0, then past.0.keys, past.0.values |
// | BahdanauState | memory, keys, mask, then by layer past.hidden.0 |
// | RnnState (LstmSeq2Seq) | past.h, past.c |
// | NtmState | by layer past.h.0, past.c.0, then past.memory |
#pragma once

#include <functional>
#include <string>

#include "tern/models/bahdanau.h"
#include "tern/models/gpt.h"
#include "tern/models/ntm.h"
#include "tern/models/transformer.h"

namespace tern::models {

using MapTensor = std::function<Tensor(const std::string& name, const Tensor& t)>;

/// The state with fn(name, t) in place of each tensor t. Undefined tensors are left out: lengths or
/// a mask without padding, caches before the first token. Positions follow from the new caches.
GptState map_tensors(const GptState& state, const MapTensor& fn);
TransformerState map_tensors(const TransformerState& state, const MapTensor& fn);
BahdanauState map_tensors(const BahdanauState& state, const MapTensor& fn);
NtmState map_tensors(const NtmState& state, const MapTensor& fn);

}  // namespace tern::models

namespace tern::nn {

RnnState map_tensors(const RnnState& state, const models::MapTensor& fn);

}  // namespace tern::nn

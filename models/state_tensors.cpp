// The tensors of each kind of decoding state.
#include "tern/models/state_tensors.h"

#include <fmt/format.h>

namespace tern::models {
namespace {

void map(Tensor& t, const std::string& name, const MapTensor& fn) {
  if (t.defined()) t = fn(name, t);
}

void map(std::vector<Tensor>& list, const std::string& name, const MapTensor& fn) {
  for (size_t i = 0; i < list.size(); ++i) map(list[i], fmt::format("{}.{}", name, i), fn);
}

void map(nn::KeyValueCache& cache, const std::string& name, const MapTensor& fn) {
  if (cache.length() == 0) return;
  const Tensor keys = fn(name + ".keys", cache.keys());
  const Tensor values = fn(name + ".values", cache.values());
  cache = {};
  cache.append(keys, values);
}

}  // namespace

GptState map_tensors(const GptState& state, const MapTensor& fn) {
  GptState s = state;
  for (size_t i = 0; i < s.layers.size(); ++i) map(s.layers[i], fmt::format("past.{}", i), fn);
  if (s.layers.empty() || s.layers[0].length() == 0) return s;
  s.texts = s.layers[0].keys().size(0);
  s.position = s.layers[0].length();
  return s;
}

TransformerState map_tensors(const TransformerState& state, const MapTensor& fn) {
  TransformerState s = state;
  map(s.lengths, "lengths", fn);
  for (size_t i = 0; i < s.layers.size(); ++i)
    map(s.layers[i].memory, fmt::format("memory.{}", i), fn);
  for (size_t i = 0; i < s.layers.size(); ++i) map(s.layers[i].self, fmt::format("past.{}", i), fn);
  if (s.layers.empty()) return s;
  s.sentences = s.layers[0].memory.size(0);
  s.position = s.layers[0].self.length();
  return s;
}

BahdanauState map_tensors(const BahdanauState& state, const MapTensor& fn) {
  BahdanauState s = state;
  map(s.memory, "memory", fn), map(s.keys, "keys", fn), map(s.mask, "mask", fn);
  map(s.hidden, "past.hidden", fn);
  return s;
}

NtmState map_tensors(const NtmState& state, const MapTensor& fn) {
  NtmState s = state;
  map(s.h, "past.h", fn), map(s.c, "past.c", fn), map(s.memory, "past.memory", fn);
  return s;
}

}  // namespace tern::models

tern::nn::RnnState tern::nn::map_tensors(const RnnState& state, const models::MapTensor& fn) {
  return {state.h.defined() ? fn("past.h", state.h) : state.h,
          state.c.defined() ? fn("past.c", state.c) : state.c};
}

// One thread's slots of a PackedTransformer: encodes sources together, and steps all hypotheses
// through the decoder's layers.
#include "tern/decode/packed_decoder.h"

#include <algorithm>
#include <cmath>

#include "tern/core/ops/attention/query_attention.h"
#include "tern/core/tape/autograd.h"

namespace tern::decoding {
namespace {

constexpr int64_t kSourceTokens = 512;  // read together; at least one sentence

/// Numbers in the keys and values of a token, per layer.
int64_t cell_width(const PackedTransformer::Weights& w) {
  return w.decoder.empty() ? 1 : 2 * w.decoder[0].self.keys();
}

/// Prefetches the keys and values of the next row.
void fetch(const float* x, int64_t n) {
  constexpr int64_t kLine = 16;
  for (int64_t i = 0; i < n; i += kLine) __builtin_prefetch(x + i, 0, 2);
}

}  // namespace

PackedDecoder::PackedDecoder(const PackedTransformer::Weights& weights)
    : weights_(weights),
      pool_(std::ssize(weights.decoder), cell_width(weights)),
      layers_(weights.dim, weights.type) {}

void PackedDecoder::reserve_positions(int64_t tokens) {
  const int64_t have = std::ssize(positions_) / weights_.dim;
  if (tokens <= have) return;
  NoGradGuard no_grad;
  const Tensor table = nn::sinusoidal_positions(std::max(tokens, 2 * have), weights_.dim);
  positions_.assign(table.data<float>(), table.data<float>() + table.numel());
}

void PackedDecoder::embed(const Tensor& table, int64_t row, int64_t token, int64_t position) {
  LayerRows::check_token("PackedTransformer", token, table.size(0));
  const auto scale = static_cast<float>(std::sqrt(static_cast<double>(weights_.dim)));
  layers_.embed(row, table.data<float>() + token * weights_.dim, scale,
                positions_.data() + position * weights_.dim);
}

void PackedDecoder::attend(const PackedAttention& sizes, const float* q, float* out) {
  const tern::detail::Query query{q, out, 0, std::ssize(keys_)};
  const auto [heads, groups] = sizes.counts;
  grow(scores_, tern::detail::QueryAttention::room(heads, groups, 1, query.keys()));
  tern::detail::QueryAttention{heads, groups, sizes.dim, {&query, 1}, keys_.data()}(0, groups,
                                                                                    scores_.data());
}

void PackedDecoder::begin_slot(const SlotStart& s) {
  check(!s.source.empty(), "PackedTransformer: a source has no tokens");
  if (s.slot >= std::ssize(slots_)) slots_.resize(static_cast<size_t>(s.slot) + 1);
  Slot& slot = slots_[s.slot];
  slot.source = std::ssize(s.source);
  slot.steps = 0;
  slot.room = s.max_length;
  slot.shortlist = s.shortlist;
  const auto places = static_cast<size_t>(s.beam * s.max_length);
  if (slot.places.size() < places) slot.places.resize(places);
  if (s.beam > 1 && slot.next.size() < places) slot.next.resize(places);
  slot.cells.clear();
  slot.cells.reserve(places);
  const int64_t width = weights_.decoder.empty() ? 0 : 2 * weights_.decoder[0].memory.keys();
  grow(slot.memory, std::ssize(weights_.decoder) * slot.source * width);
  reserve_positions(std::max(slot.source, slot.room));
}

void PackedDecoder::start(std::span<const SlotStart> sentences) {
  for (const SlotStart& s : sentences) begin_slot(s);
  for (size_t first = 0; first < sentences.size();) {
    size_t last = first, tokens = 0;
    while (last < sentences.size() &&
           (last == first || tokens + sentences[last].source.size() <= kSourceTokens))
      tokens += sentences[last++].source.size();
    encode(sentences.subspan(first, last - first));
    first = last;
  }
}

void PackedDecoder::encode(std::span<const SlotStart> sentences) {
  int64_t tokens = 0;
  for (const SlotStart& s : sentences) tokens += std::ssize(s.source);
  layers_.resize(tokens);
  int64_t row = 0;
  for (const SlotStart& s : sentences)
    for (int64_t t = 0; t < std::ssize(s.source); ++t)
      embed(weights_.source, row++, s.source[static_cast<size_t>(t)], t);
  for (const PackedEncoderLayer& layer : weights_.encoder) encode_layer(layer, sentences);
  if (!weights_.encoder_norm.weight.empty()) layers_.normalise(weights_.encoder_norm);
  keep_memory(sentences);
}

void PackedDecoder::encode_layer(const PackedEncoderLayer& layer,
                                 std::span<const SlotStart> sentences) {
  const PackedAttention& self = layer.self;
  layers_.sublayer(layer.norm1, layer.norm_first, [&](const float* input) {
    const int64_t width = self.in.outputs(), queries = self.queries();
    const float* wide = layers_.project(self.in, input);
    float* context = layers_.context(queries);
    int64_t row = 0;
    for (const SlotStart& s : sentences) {
      keys_.clear();
      for (size_t t = 0; t < s.source.size(); ++t)
        keys_.push_back(wide + (row + static_cast<int64_t>(t)) * width + queries);
      for (size_t t = 0; t < s.source.size(); ++t, ++row)
        attend(self, wide + row * width, context + row * queries);
    }
    layers_.add_context(self.out);
  });
  layers_.sublayer(layer.norm2, layer.norm_first,
                   [&](const float* input) { layers_.add_ffn(layer.ffn, input); });
}

void PackedDecoder::keep_memory(std::span<const SlotStart> sentences) {
  const PackedRows& memory = layers_.packed();
  for (size_t l = 0; l < weights_.decoder.size(); ++l) {
    const PackedLinear& project = weights_.decoder[l].memory.memory;
    const int64_t width = project.outputs();
    const float* from = layers_.project(project, memory);
    for (const SlotStart& s : sentences) {
      Slot& slot = slots_[s.slot];
      const int64_t size = slot.source * width;
      std::copy_n(from, size, slot.memory.data() + static_cast<int64_t>(l) * size);
      from += size;
    }
  }
}

void PackedDecoder::finish(int64_t s) {
  for (const int32_t cell : slots_[s].cells) pool_.give_back(cell);
  slots_[s].cells.clear();
}

// Before anything changes, so that a caller may catch the error and go on.
void PackedDecoder::check_rows(std::span<const SlotRow> rows) const {
  for (const SlotRow& row : rows) {
    const Slot& slot = slots_[row.slot];
    check(slot.steps < slot.room,
          "PackedTransformer: cannot step again after {} steps, the maximum length", slot.room);
    LayerRows::check_token("PackedTransformer", row.token, weights_.target.size(0));
  }
}

void PackedDecoder::give_places(std::span<const SlotRow> rows) {
  rows_.clear();
  for (size_t first = 0; first < rows.size();) {
    Slot& slot = slots_[rows[first].slot];
    size_t last = first;
    bool moved = false;
    for (; last < rows.size() && rows[last].slot == rows[first].slot; ++last)
      moved = moved || rows[last].parent != static_cast<int64_t>(last - first);
    if (moved && slot.steps > 0) {
      for (size_t i = first; i < last; ++i)
        std::copy_n(slot.places.data() + rows[i].parent * slot.room, slot.steps,
                    slot.next.data() + static_cast<int64_t>(i - first) * slot.room);
      std::swap(slot.places, slot.next);
    }
    for (size_t i = first; i < last; ++i) {
      int32_t* places = slot.places.data() + static_cast<int64_t>(i - first) * slot.room;
      slot.cells.push_back(places[slot.steps] = pool_.take());
      rows_.push_back({&slot, places});
    }
    first = last;
  }
}

void PackedDecoder::step(std::span<const SlotRow> rows, NextTokens& next) {
  check_rows(rows);
  give_places(rows);
  layers_.resize(std::ssize(rows));
  for (int64_t r = 0; r < std::ssize(rows); ++r)
    embed(weights_.target, r, rows[static_cast<size_t>(r)].token, rows_[r].slot->steps);
  for (int64_t l = 0; l < std::ssize(weights_.decoder); ++l) decode_layer(l);
  if (!weights_.decoder_norm.weight.empty()) layers_.normalise(weights_.decoder_norm);
  lists_.clear();
  for (const Row& row : rows_) lists_.push_back(row.slot->shortlist);
  weights_.generator(layers_.packed(), lists_, next, room_);
  for (size_t r = 0; r < rows.size(); ++r)
    if (r + 1 == rows.size() || rows[r + 1].slot != rows[r].slot) ++rows_[r].slot->steps;
}

void PackedDecoder::decode_layer(int64_t l) {
  const PackedDecoderLayer& layer = weights_.decoder[static_cast<size_t>(l)];
  layers_.sublayer(layer.norm1, layer.norm_first,
                   [&](const float* input) { attend_self(layer.self, l, input); });
  layers_.sublayer(layer.norm2, layer.norm_first,
                   [&](const float* input) { attend_memory(layer.memory, l, input); });
  layers_.sublayer(layer.norm3, layer.norm_first,
                   [&](const float* input) { layers_.add_ffn(layer.ffn, input); });
}

void PackedDecoder::attend_self(const PackedAttention& self, int64_t l, const float* input) {
  const int64_t width = self.in.outputs(), queries = self.queries(), count = layers_.count();
  const float* wide = layers_.project(self.in, input);
  float* context = layers_.context(queries);
  for (int64_t r = 0; r < count; ++r) {
    const int64_t steps = rows_[r].slot->steps;
    const float* own = wide + r * width;
    std::copy_n(own + queries, 2 * self.keys(), pool_.at(l, rows_[r].places[steps]));
    keys_.clear();
    for (int64_t t = 0; t <= steps; ++t) keys_.push_back(pool_.at(l, rows_[r].places[t]));
    if (r + 1 < count)
      for (int64_t t = 0; t < rows_[r + 1].slot->steps; ++t)
        fetch(pool_.at(l, rows_[r + 1].places[t]), 2 * self.keys());
    attend(self, own, context + r * queries);
  }
  layers_.add_context(self.out);
}

void PackedDecoder::attend_memory(const PackedAttention& memory, int64_t l, const float* input) {
  const int64_t queries = memory.queries(), width = 2 * memory.keys(), count = layers_.count();
  const float* wide = layers_.project(memory.in, input);
  float* context = layers_.context(queries);
  for (int64_t r = 0; r < count; ++r) {
    const Slot& slot = *rows_[r].slot;
    if (r == 0 || rows_[r - 1].slot != rows_[r].slot) {
      keys_.clear();
      for (int64_t t = 0; t < slot.source; ++t)
        keys_.push_back(slot.memory.data() + (l * slot.source + t) * width);
      int64_t next = r + 1;
      while (next < count && rows_[next].slot == rows_[r].slot) ++next;
      if (next < count) {
        const Slot& after = *rows_[next].slot;
        fetch(after.memory.data() + l * after.source * width, after.source * width);
      }
    }
    attend(memory, wide + r * queries, context + r * queries);
  }
  layers_.add_context(memory.out);
}

}  // namespace tern::decoding

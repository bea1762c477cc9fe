#include "tern/decode/packed_decoder.h"

#include <algorithm>
#include <cmath>

#include "tern/core/base/simd.h"
#include "tern/core/tape/autograd.h"

namespace tern::decoding {
namespace {

constexpr int64_t kSourceTokens = 512;  // that are read together, at least a sentence

/// Keys and values of a token in a layer.
int64_t cell_width(const PackedTransformer::Weights& w) {
  return w.decoder.empty() ? 1 : 2 * w.decoder[0].self.keys();
}

/// Asks for numbers to be brought near: keys and values of the row after this one.
void fetch(const float* x, int64_t n) {
  constexpr int64_t kLine = 16;
  for (int64_t i = 0; i < n; i += kLine) __builtin_prefetch(x + i, 0, 2);
}

void grow(std::vector<float>& v, int64_t n) {
  if (std::ssize(v) < n) v.resize(static_cast<size_t>(n));
}

}  // namespace

PackedDecoder::PackedDecoder(const PackedTransformer::Weights& weights)
    : weights_(weights), pool_(std::ssize(weights.decoder), cell_width(weights)) {}

void PackedDecoder::reserve_positions(int64_t tokens) {
  const int64_t have = std::ssize(positions_) / weights_.dim;
  if (tokens <= have) return;
  NoGradGuard no_grad;
  const Tensor table = nn::sinusoidal_positions(std::max(tokens, 2 * have), weights_.dim);
  positions_.assign(table.data<float>(), table.data<float>() + table.numel());
}

void PackedDecoder::embed(const PackedTable& table, int64_t row, int64_t token, int64_t position) {
  check(token >= 0 && token < table.size(), "PackedTransformer: token {} of a vocabulary of {}",
        token, table.size());
  const int64_t dim = weights_.dim;
  const auto scale = static_cast<float>(std::sqrt(static_cast<double>(dim)));
  simd([=, from = table.rows.data<float>() + token * dim, at = positions_.data() + position * dim,
        to = x_.data() + row * dim] {
#pragma omp simd
    for (int64_t i = 0; i < dim; ++i) to[i] = from[i] * scale + at[i];
  });
}

void PackedDecoder::set_rows(int64_t rows) {
  count_ = rows;
  grow(x_, rows * weights_.dim);
  grow(h_, rows * weights_.dim);
}

const PackedRows& PackedDecoder::packed(const float* x, int64_t width) {
  packed_.assign(x, count_, width, weights_.type);
  return packed_;
}

/// x = x + f(norm(x)), or norm(x + f(x)); f adds to x what it makes of its argument.
template <class F>
void PackedDecoder::sublayer(const PackedNorm& norm, bool norm_first, F&& f) {
  if (norm_first) norm(x_.data(), count_, h_.data());
  f(norm_first ? h_.data() : x_.data());
  if (!norm_first) norm(x_.data(), count_, x_.data());
}

void PackedDecoder::run_ffn(const PackedFfn& ffn, const float* input) {
  grow(wide_, count_ * ffn.linear1.outputs());
  ffn.linear1(packed(input, weights_.dim), wide_.data(), {.activation = ffn.activation});
  ffn.linear2(packed(wide_.data(), ffn.linear1.outputs()), x_.data(), {.residual = x_.data()});
}

void PackedDecoder::begin_slot(const SlotStart& s) {
  check(!s.source.empty(), "PackedTransformer: a source without tokens");
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
  set_rows(tokens);
  int64_t row = 0;
  for (const SlotStart& s : sentences)
    for (int64_t t = 0; t < std::ssize(s.source); ++t)
      embed(weights_.source, row++, s.source[static_cast<size_t>(t)], t);
  for (const PackedEncoderLayer& layer : weights_.encoder) encode_layer(layer, sentences);
  if (!weights_.encoder_norm.weight.empty()) weights_.encoder_norm(x_.data(), count_, x_.data());
  keep_memory(sentences);
}

void PackedDecoder::encode_layer(const PackedEncoderLayer& layer,
                                 std::span<const SlotStart> sentences) {
  const PackedAttention& self = layer.self;
  sublayer(layer.norm1, layer.norm_first, [&](const float* input) {
    const int64_t width = self.in.outputs();
    grow(wide_, count_ * width);
    grow(context_, count_ * self.queries());
    self.in(packed(input, weights_.dim), wide_.data());
    int64_t row = 0;
    for (const SlotStart& s : sentences) {
      keys_.clear();
      for (size_t t = 0; t < s.source.size(); ++t)
        keys_.push_back(wide_.data() + (row + static_cast<int64_t>(t)) * width + self.queries());
      for (size_t t = 0; t < s.source.size(); ++t, ++row)
        attention_(self, wide_.data() + row * width, keys_, context_.data() + row * self.queries());
    }
    self.out(packed(context_.data(), self.queries()), x_.data(), {.residual = x_.data()});
  });
  sublayer(layer.norm2, layer.norm_first, [&](const float* input) { run_ffn(layer.ffn, input); });
}

void PackedDecoder::keep_memory(std::span<const SlotStart> sentences) {
  const PackedRows& memory = packed(x_.data(), weights_.dim);
  for (size_t l = 0; l < weights_.decoder.size(); ++l) {
    const PackedLinear& project = weights_.decoder[l].memory.memory;
    const int64_t width = project.outputs();
    grow(wide_, count_ * width);
    project(memory, wide_.data());
    const float* from = wide_.data();
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

void PackedDecoder::give_places(std::span<const SlotRow> rows) {
  rows_.clear();
  for (size_t first = 0; first < rows.size();) {
    Slot& slot = slots_[rows[first].slot];
    check(slot.steps < slot.room, "PackedTransformer: a step after the last of {}", slot.room);
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
  give_places(rows);
  set_rows(std::ssize(rows));
  for (int64_t r = 0; r < count_; ++r)
    embed(weights_.target, r, rows[static_cast<size_t>(r)].token, rows_[r].slot->steps);
  for (int64_t l = 0; l < std::ssize(weights_.decoder); ++l) decode_layer(l);
  if (!weights_.decoder_norm.weight.empty()) weights_.decoder_norm(x_.data(), count_, x_.data());
  lists_.clear();
  for (const Row& row : rows_) lists_.push_back(row.slot->shortlist);
  weights_.generator(packed(x_.data(), weights_.dim), lists_, next, room_);
  for (size_t r = 0; r < rows.size(); ++r)
    if (r + 1 == rows.size() || rows[r + 1].slot != rows[r].slot) ++rows_[r].slot->steps;
}

void PackedDecoder::decode_layer(int64_t l) {
  const PackedDecoderLayer& layer = weights_.decoder[static_cast<size_t>(l)];
  sublayer(layer.norm1, layer.norm_first, [&](const float* input) {
    grow(wide_, count_ * layer.self.in.outputs());
    layer.self.in(packed(input, weights_.dim), wide_.data());
    attend_self(layer, l);
  });
  sublayer(layer.norm2, layer.norm_first, [&](const float* input) {
    grow(wide_, count_ * layer.memory.in.outputs());
    layer.memory.in(packed(input, weights_.dim), wide_.data());
    attend_memory(layer, l);
  });
  sublayer(layer.norm3, layer.norm_first, [&](const float* input) { run_ffn(layer.ffn, input); });
}

void PackedDecoder::attend_self(const PackedDecoderLayer& layer, int64_t l) {
  const PackedAttention& self = layer.self;
  const int64_t width = self.in.outputs(), queries = self.queries();
  grow(context_, count_ * queries);
  for (int64_t r = 0; r < count_; ++r) {
    const int64_t steps = rows_[r].slot->steps;
    const float* own = wide_.data() + r * width;
    std::copy_n(own + queries, 2 * self.keys(), pool_.at(l, rows_[r].places[steps]));
    keys_.clear();
    for (int64_t t = 0; t <= steps; ++t) keys_.push_back(pool_.at(l, rows_[r].places[t]));
    if (r + 1 < count_)
      for (int64_t t = 0; t < rows_[r + 1].slot->steps; ++t)
        fetch(pool_.at(l, rows_[r + 1].places[t]), 2 * self.keys());
    attention_(self, own, keys_, context_.data() + r * queries);
  }
  self.out(packed(context_.data(), queries), x_.data(), {.residual = x_.data()});
}

void PackedDecoder::attend_memory(const PackedDecoderLayer& layer, int64_t l) {
  const PackedAttention& memory = layer.memory;
  const int64_t queries = memory.queries(), width = 2 * memory.keys();
  grow(context_, count_ * queries);
  for (int64_t r = 0; r < count_; ++r) {
    const Slot& slot = *rows_[r].slot;
    if (r == 0 || rows_[r - 1].slot != rows_[r].slot) {
      keys_.clear();
      for (int64_t t = 0; t < slot.source; ++t)
        keys_.push_back(slot.memory.data() + (l * slot.source + t) * width);
      int64_t next = r + 1;
      while (next < count_ && rows_[next].slot == rows_[r].slot) ++next;
      if (next < count_) {
        const Slot& after = *rows_[next].slot;
        fetch(after.memory.data() + l * after.source * width, after.source * width);
      }
    }
    attention_(memory, wide_.data() + r * queries, keys_, context_.data() + r * queries);
  }
  memory.out(packed(context_.data(), queries), x_.data(), {.residual = x_.data()});
}

}  // namespace tern::decoding

// Texts of a PackedGpt: reads and appends tokens, copies and drops texts, and attends to cells of
// keys and values that copies share.
#include "tern/decode/packed_gpt_texts.h"

#include <algorithm>

#include "tern/core/base/simd.h"
#include "tern/core/base/threads.h"
#include "tern/core/tape/autograd.h"

namespace tern::decoding {
namespace {

constexpr int64_t kRows = 256;        // tokens read together
constexpr int64_t kScores = 1 << 20;  // that attention computes at once

/// Null if there is no norm.
const PackedNorm* address(const std::optional<PackedNorm>& norm) { return norm ? &*norm : nullptr; }

}  // namespace

PackedGptTexts::PackedGptTexts(const PackedGpt::Weights& weights)
    : weights_(weights),
      pool_(std::ssize(weights.layers),
            weights.layers.empty() ? 1 : 2 * weights.layers[0].attention.keys()),
      layers_(weights.options.dim, weights.type) {}

// Before anything changes, so that a caller may catch the error and go on.
void PackedGptTexts::check_next(int64_t position, std::span<const int64_t> tokens) const {
  const int64_t context = weights_.options.context;
  check(position + std::ssize(tokens) <= context,
        "PackedGpt: a token after {} exceeds the context; cut the text, or make the model with a "
        "larger .context",
        context);
  for (const int64_t token : tokens)
    LayerRows::check_token("PackedGpt", token, weights_.options.vocab);
}

void PackedGptTexts::push(size_t index, int64_t token) {
  Text& text = texts_[index];
  const int64_t position = std::ssize(text.cells);
  const int32_t cell = pool_.take();
  if (std::ssize(uses_) <= cell) uses_.resize(static_cast<size_t>(cell) + 1);
  uses_[cell] = 1;
  text.cells.push_back(cell);
  text.keys.push_back(pool_.at(0, cell));
  rows_.push_back({index, token, position});
}

void PackedGptTexts::add(std::span<const std::vector<int64_t>> texts) {
  for (const std::vector<int64_t>& tokens : texts) check_next(0, tokens);
  rows_.clear();
  for (const std::vector<int64_t>& tokens : texts) {
    texts_.emplace_back();
    texts_.back().cells.reserve(static_cast<size_t>(weights_.options.context));
    texts_.back().keys.reserve(static_cast<size_t>(weights_.options.context));
    push_all(texts_.size() - 1, tokens);
  }
  run();
}

void PackedGptTexts::extend(int64_t row, std::span<const int64_t> tokens) {
  check(row >= 0 && row < batch(), "PackedGpt: row {} is out of range for {} texts", row, batch());
  check_next(std::ssize(texts_[row].cells), tokens);
  rows_.clear();
  push_all(static_cast<size_t>(row), tokens);
  run();
}

// Runs full batches of kRows tokens. The remaining tokens stay in rows_ for the next run().
void PackedGptTexts::push_all(size_t text, std::span<const int64_t> tokens) {
  for (const int64_t token : tokens) {
    push(text, token);
    if (std::ssize(rows_) < kRows) continue;
    run();
    rows_.clear();
  }
}

void PackedGptTexts::score(std::span<const int64_t> tokens, float* logits) {
  check_next(0, tokens);
  texts_.emplace_back();
  for (size_t first = 0; first < tokens.size(); first += kRows) {
    rows_.clear();
    for (const int64_t token :
         tokens.subspan(first).first(std::min<size_t>(kRows, tokens.size() - first)))
      push(texts_.size() - 1, token);
    run();
    weights_.head(layers_.packed(), logits + static_cast<int64_t>(first) * weights_.options.vocab);
  }
}

Tensor PackedGptTexts::step(const Tensor& tokens) {
  check(tokens.ndim() == 1 && tokens.dtype() == DType::i64 && tokens.size(0) == batch(),
        "PackedGpt: a step takes one token per text, i64 ({},), got {} {}", batch(), tokens.dtype(),
        tokens.shape());
  NoGradGuard no_grad;
  const Tensor contiguous = tokens.contiguous();
  const std::span<const int64_t> given = contiguous.span<int64_t>();
  for (size_t i = 0; i < texts_.size(); ++i)
    check_next(std::ssize(texts_[i].cells), given.subspan(i, 1));
  rows_.clear();
  for (size_t i = 0; i < texts_.size(); ++i) push(i, given[i]);
  run();
  Tensor logits = empty({batch(), weights_.options.vocab});
  weights_.head(layers_.packed(), logits.mutable_data<float>());
  return logits;
}

void PackedGptTexts::select_rows(const Tensor& rows) {
  const Tensor wanted = rows.contiguous();
  const auto from = wanted.span<int64_t>();
  std::vector<int64_t> times(texts_.size());
  for (const int64_t row : from) {
    check(row >= 0 && row < batch(), "PackedGpt: row {} is out of range for {} texts", row,
          batch());
    ++times[row];
  }
  for (size_t i = 0; i < texts_.size(); ++i)
    for (const int32_t cell : texts_[i].cells)
      if ((uses_[cell] += static_cast<int32_t>(times[i]) - 1) == 0) pool_.give_back(cell);
  std::vector<Text> picked;
  for (const int64_t row : from) {
    if (--times[row] == 0)
      picked.push_back(std::move(texts_[row]));
    else
      picked.push_back(texts_[row]);
  }
  texts_ = std::move(picked);
}

void PackedGptTexts::run() {
  const PackedGpt::Weights& w = weights_;
  layers_.resize(std::ssize(rows_));
  if (rows_.empty()) return;
  int64_t tokens = 0;
  for (const Row& row : rows_) tokens = std::max(tokens, row.position + 1);
  reserve_turns(tokens);
  const int64_t stride = w.positions.size(0) == 1 ? 0 : w.options.dim;
  const auto scale = static_cast<float>(w.options.embed_scale);
  std::vector<float> room(static_cast<size_t>(w.options.dim));
  for (int64_t r = 0; r < layers_.count(); ++r) {
    const int64_t token = rows_[r].token;
    const float* position = w.positions.data<float>() + rows_[r].position * stride;
    const float* embedding = room.data();
    if (w.table.defined())
      embedding = w.table.row(token, room.data());
    else
      w.head.copy_weights(token, room.data());
    layers_.embed(r, embedding, scale, position);
  }
  for (int64_t l = 0; l < std::ssize(w.layers); ++l) {
    const PackedGptLayer& layer = w.layers[static_cast<size_t>(l)];
    auto attention = [&](const float* x) { attend(layer, l, x); };
    auto ffn = [&](const float* x) { layers_.add_ffn(layer.ffn, x, address(layer.post_norm2)); };
    if (w.options.parallel) {
      layers_.parallel_sublayers(layer.norm1, layer.norm2, attention, ffn);
    } else {
      layers_.sublayer(layer.norm1, true, attention);
      layers_.sublayer(layer.norm2, true, ffn);
    }
  }
  layers_.normalise(w.norm);
}

// Computes the cosines and sines by which nn::rotary turns a head's pairs, the images of (1, 0).
void PackedGptTexts::reserve_turns(int64_t tokens) {
  for (size_t i = 0; i < turns_.size(); ++i) {
    const int64_t half = weights_.turns[i].channels / 2;
    if (half == 0 || (turns_[i].defined() && turns_[i].size(0) >= tokens)) continue;
    const int64_t count = std::min(2 * tokens, weights_.options.context);
    turns_[i] = nn::rotary(cat({ones({count, half}), zeros({count, half})}, 1), weights_.turns[i]);
  }
}

void PackedGptTexts::turn(const PackedGptLayer& layer, float* heads, int64_t count,
                          int64_t position) const {
  const Tensor& turns = turns_[static_cast<size_t>(layer.turn)];
  const int64_t head_dim = layer.attention.dim, dim = turns.size(1), half = dim / 2;
  simd([=, c = turns.data<float>() + position * dim] {
    for (float* a = heads; a < heads + count * head_dim; a += head_dim) {
      float* b = a + half;
#pragma omp simd
      for (int64_t i = 0; i < half; ++i) {
        const float x = a[i], y = b[i];
        a[i] = x * c[i] - y * c[half + i];
        b[i] = x * c[half + i] + y * c[i];
      }
    }
  });
}

void PackedGptTexts::attend(const PackedGptLayer& layer, int64_t l, const float* input) {
  const PackedAttention& a = layer.attention;
  const int64_t width = a.in.outputs(), queries = a.queries(), groups = a.counts.kv_heads;
  float* wide = layers_.project(a.in, input);
  float* context = layers_.context(queries);
  queries_.resize(rows_.size());
  for_rows(layers_.count(), width, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const Row& row = rows_[r];
      float* own = wide + r * width;
      if (layer.q_norm) {
        (*layer.q_norm)(own, a.counts.heads, own);
        (*layer.k_norm)(own + queries, groups, own + queries);
      }
      if (layer.turn >= 0) turn(layer, own, a.counts.heads + groups, row.position);
      std::copy_n(own + queries, 2 * a.keys(), pool_.at(l, texts_[row.text].cells[row.position]));
      const int64_t last = row.position + 1;
      const int64_t first = layer.window > 0 ? std::max<int64_t>(0, last - layer.window) : 0;
      queries_[r] = {own, context + r * queries, first, last};
    }
  });
  int64_t longest = 0, keys = 0;
  for (const tern::detail::Query& query : queries_) {
    longest = std::max(longest, query.keys());
    keys += query.keys();
  }
  // Rows of one text are cut into parts that read their keys together.
  parts_.clear();
  const int64_t heads = a.counts.heads;
  const int64_t together = tern::detail::QueryAttention::together(heads, groups);
  for (int64_t r = 0; r < layers_.count(); ++r) {
    const bool goes_on = r > 0 && rows_[r].text == rows_[r - 1].text;
    if (!goes_on || r - parts_.back() == together) parts_.push_back(r);
  }
  const int64_t all = std::ssize(parts_) * groups;
  parts_.push_back(layers_.count());
  const int64_t room = tern::detail::QueryAttention::room(heads, groups, together, longest);
  const int64_t at_once = std::max<int64_t>(2 * num_threads(), kScores / room);
  grow(scores_, std::min(all, at_once) * room);
  for (int64_t first = 0; first < all; first += at_once) {
    const int64_t count = std::min(at_once, all - first);
    parallel_blocks(count, 2 * keys * queries * count / all, [&](int64_t i) {
      const int64_t part = (first + i) / groups, group = (first + i) % groups;
      const int64_t row = parts_[part], end = parts_[part + 1];
      const tern::detail::QueryAttention attention{
          .heads = heads,
          .groups = groups,
          .dim = a.dim,
          .queries = {&queries_[row], static_cast<size_t>(end - row)},
          .keys = texts_[rows_[row].text].keys.data(),
          .offset = l * pool_.layer_stride()};
      attention(group, group + 1, scores_.data() + i * room);
    });
  }
  layers_.add_context(a.out, address(layer.post_norm1));
}

}  // namespace tern::decoding

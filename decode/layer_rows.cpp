// Products of the rows of a step with reused buffers, and the pool of cells for keys and values.
#include "tern/decode/layer_rows.h"

#include <limits>

#include "tern/core/base/simd.h"

namespace tern::decoding {

void LayerRows::resize(int64_t rows) {
  count_ = rows;
  grow(x_, rows * dim_);
}

void LayerRows::check_token(const char* model, int64_t token, int64_t vocab) {
  check(token >= 0 && token < vocab, "{}: token {} is outside the vocabulary of {}", model, token,
        vocab);
}

void LayerRows::embed(int64_t r, const float* embedding, float scale, const float* position) {
  simd([=, dim = dim_, to = row(r)] {
#pragma omp simd
    for (int64_t i = 0; i < dim; ++i) to[i] = embedding[i] * scale + position[i];
  });
}

const PackedRows& LayerRows::packed(const float* input, int64_t width) {
  packed_.assign(input, count_, width, type_);
  return packed_;
}

float* LayerRows::project(const PackedLinear& linear, const PackedRows& input) {
  float* y = grown(wide_, linear.outputs());
  linear(input, y);
  return y;
}

void LayerRows::add(const PackedLinear& linear, const PackedRows& input,
                    const PackedNorm* post_norm) {
  if (!post_norm) return linear(input, x_.data(), {.residual = x_.data()});
  float* y = grown(sum_, dim_);
  linear(input, y);
  (*post_norm)(y, count_, y);
  for_rows(count_, dim_, [=, x = x_.data(), dim = dim_](int64_t begin, int64_t end) {
    simd([=] {
#pragma omp simd
      for (int64_t i = begin * dim; i < end * dim; ++i) x[i] += y[i];
    });
  });
}

void LayerRows::add_context(const PackedLinear& linear, const PackedNorm* post_norm) {
  add(linear, packed(context_.data(), linear.inputs()), post_norm);
}

void LayerRows::add_ffn(const PackedFfn& ffn, const float* input, const PackedNorm* post_norm) {
  float* y = grown(wide_, ffn.linear1.outputs());
  ffn.linear1(packed(input, dim_), y,
              {.activation = ffn.gated ? Activation::none : ffn.activation});
  if (ffn.gated) {
    float* const gated = context(ffn.linear2.inputs());
    multiply_by_gate(y, count_, ffn.linear2.inputs(), ffn.activation, gated);
    y = gated;
  }
  add(ffn.linear2, packed(y, ffn.linear2.inputs()), post_norm);
}

int32_t CellPool::take() {
  if (free_.empty()) {
    const int64_t first = std::ssize(chunks_) * kCells;
    check(first + kCells <= std::numeric_limits<int32_t>::max(),
          "packed models: more than {} tokens at once; give fewer rows", first);
    const auto numbers = static_cast<size_t>(layers_ * kCells * width_);
    chunks_.push_back(std::make_unique_for_overwrite<float[]>(numbers));
    free_.reserve(static_cast<size_t>(first + kCells));
    for (int64_t i = kCells - 1; i >= 0; --i) free_.push_back(static_cast<int32_t>(first + i));
  }
  const int32_t cell = free_.back();
  free_.pop_back();
  return cell;
}

}  // namespace tern::decoding

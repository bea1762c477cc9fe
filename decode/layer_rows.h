// Parts shared by the decoders of packed models: the rows of a step on their way through the
// layers, and the memory of keys and values. Inside of decode only.
#pragma once

#include <memory>
#include <vector>

#include "tern/decode/packed_layers.h"

namespace tern::decoding {

/// Makes v hold at least n numbers.
inline void grow(std::vector<float>& v, int64_t n) {
  if (std::ssize(v) < n) v.resize(static_cast<size_t>(n));
}

/// Rows of D numbers that pass through packed layers, with the buffers that the layers need.
/// Buffers are reused: a step that is not larger than earlier ones allocates nothing.
class LayerRows {
 public:
  LayerRows(int64_t dim, PackedType type) : dim_(dim), type_(type) {}

  /// Sets the number of rows of the next products.
  void resize(int64_t rows);
  int64_t count() const { return count_; }
  float* row(int64_t r) { return x_.data() + r * dim_; }
  /// Error that names `model`: there is no such token.
  static void check_token(const char* model, int64_t token, int64_t vocab);
  /// row = embedding * scale + position, vectors of `dim` numbers.
  void embed(int64_t row, const float* embedding, float scale, const float* position);

  /// x = x + f(norm(x)), or norm(x + f(x)). f gets a pointer to its argument and adds to x.
  template <class F>
  void sublayer(const PackedNorm& norm, bool norm_first, F&& f) {
    if (norm_first) norm(x_.data(), count_, grown(h_, dim_));
    f(norm_first ? h_.data() : x_.data());
    if (!norm_first) normalise(norm);
  }
  /// x = x + f(norm1(x)) + g(norm2(x)), as sublayer().
  template <class F, class G>
  void parallel_sublayers(const PackedNorm& norm1, const PackedNorm& norm2, F&& f, G&& g) {
    norm1(x_.data(), count_, grown(h_, dim_));
    norm2(x_.data(), count_, grown(other_h_, dim_));
    f(h_.data());
    g(other_h_.data());
  }
  /// x = norm(x)
  void normalise(const PackedNorm& norm) { norm(x_.data(), count_, x_.data()); }
  /// linear(input) (rows, outputs), valid until the next product.
  float* project(const PackedLinear& linear, const PackedRows& input);
  float* project(const PackedLinear& linear, const float* input) {
    return project(linear, packed(input, linear.inputs()));
  }
  /// A buffer (rows, width) for the heads side by side, or for gated hidden units.
  float* context(int64_t width) { return grown(context_, width); }
  /// x = x + linear(context), or x + post_norm(linear(context)) if there is a norm.
  void add_context(const PackedLinear& linear, const PackedNorm* post_norm = nullptr);
  /// x = x + ffn(input), or x + post_norm(ffn(input)).
  void add_ffn(const PackedFfn& ffn, const float* input, const PackedNorm* post_norm = nullptr);

  /// The input (rows, width) in the layout that products read; without arguments x itself.
  const PackedRows& packed(const float* input, int64_t width);
  const PackedRows& packed() { return packed(x_.data(), dim_); }

 private:
  float* grown(std::vector<float>& v, int64_t width) {
    grow(v, count_ * width);
    return v.data();
  }

  void add(const PackedLinear& linear, const PackedRows& input, const PackedNorm* post_norm);

  int64_t dim_, count_ = 0;
  PackedType type_;
  std::vector<float> x_, h_;    // (rows, D): the rows, and their norm
  std::vector<float> other_h_;  // for parallel sublayers
  std::vector<float> sum_;      // (rows, D), of a sublayer before its norm
  std::vector<float> wide_;     // (rows, the widest layer)
  std::vector<float> context_;  // (rows, H D) or (rows, hidden units)
  PackedRows packed_;
};

/// Memory for keys and values. A cell holds those of one token, in every layer. Cells that are
/// given back are reused. Addresses stay valid: cells never move.
class CellPool {
 public:
  /// `width`: numbers per layer.
  CellPool(int64_t layers, int64_t width) : layers_(layers), width_(width) {}
  int32_t take();
  void give_back(int32_t cell) { free_.push_back(cell); }
  float* at(int64_t layer, int32_t cell) const {
    return chunks_[cell / kCells].get() + layer * layer_stride() + cell % kCells * width_;
  }
  /// The distance from a cell's numbers in one layer to those in the next.
  int64_t layer_stride() const { return kCells * width_; }

 private:
  static constexpr int64_t kCells = 256;
  int64_t layers_, width_;
  std::vector<std::unique_ptr<float[]>> chunks_;
  std::vector<int32_t> free_;
};

}  // namespace tern::decoding

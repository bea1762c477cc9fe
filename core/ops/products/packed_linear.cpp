// Packs weights and rows for the kernels of f32, bf16, int8 and int4 products (gemm_packed.h,
// gemm_bf16_packed.h, gemm_quantized.h) and lets threads share strips of outputs.
#include "tern/core/ops/products/packed_linear.h"

#include <algorithm>

#include "tern/core/base/threads.h"
#include "tern/core/kernels/bf16/bf16_elements.h"
#include "tern/core/kernels/bf16/gemm_bf16_packed.h"
#include "tern/core/kernels/products/gemm_packed.h"
#include "tern/core/kernels/products/gemm_quantized.h"
#include "tern/core/ops/elementwise/activations.h"
#include "tern/core/tape/substitution.h"

namespace tern {
namespace {

using kernels::kStrip, kernels::strips_of, kernels::QuantizedInputs, kernels::QuantizedWeights;

const Tensor& checked(const Tensor& w) {
  check(w.ndim() == 2 && w.dtype() == DType::f32,
        "PackedLinear: needs weights f32 (N, K), got {} {}", w.dtype(), w.shape());
  detail::check_unhooked("PackedLinear", w, "merge its change into the weights first");
  return w;
}

void check_bias(const Tensor& b, int64_t n) {
  check(!b.defined() || (b.dtype() == DType::f32 && b.shape() == Shape{n}),
        "PackedLinear: needs a bias f32 ({},), got {} {}", n, b.defined() ? b.dtype() : DType::f32,
        b.defined() ? b.shape() : Shape());
}

kernels::QuantizedForm form_of(PackedType type) {
  return type == PackedType::int8 ? kernels::QuantizedForm::int8 : kernels::QuantizedForm::int4;
}

/// Numbers of a range in loops over elements.
constexpr int64_t kAtOnce = 1 << 14;

/// The data of strips of f32.
const float* f32_strips(const Tensor& data) {
  return reinterpret_cast<const float*>(data.data<uint8_t>());
}

/// y = f(y) for activations that the product does not apply.
void activate(Activation activation, float* y, int64_t n) {
  if (activation == Activation::none || activation == Activation::relu) return;
  detail::with_activation(activation, [=](auto op) {
    parallel_for(n, kAtOnce, [=](int64_t begin, int64_t end) {
      simd([=] {
#pragma omp simd
        for (int64_t i = begin; i < end; ++i) y[i] = op.f(y[i]);
      });
    });
  });
}

/// How threads share a product: pieces of some strips and a part of the rows each. Sums depend on
/// neither.
struct Pieces {
  int64_t strips, groups, parts;

  Pieces(const kernels::StripRange& range, int64_t work) {
    constexpr int64_t kMostStrips = 8, kFewestRows = 64, kPerThread = 16;
    // Multiplications of a piece: some ten microseconds.
    const int64_t each = range.rows > kernels::kMemoryBound ? 1 << 20 : 1 << 17;
    const int64_t all = range.last - range.first;
    const int64_t wanted =
        num_threads() == 1 ? 1 : std::clamp<int64_t>(work / each, 1, kPerThread * num_threads());
    // Cuts the rows first: within a group of strips a tile loads the next strip.
    const int64_t most = std::max<int64_t>(range.rows / kFewestRows, 1);
    strips = std::clamp<int64_t>(all * most / wanted, 1, kMostStrips);
    groups = ceil_div(all, strips);
    parts = std::clamp<int64_t>(ceil_div(wanted, std::max<int64_t>(groups, 1)), 1, most);
  }
};

}  // namespace

void PackedRows::assign(const float* x, int64_t rows, int64_t k, PackedType type) {
  x_ = x;
  rows_ = rows;
  inputs_ = k;
  type_ = type;
  if (type == PackedType::f32) return;
  if (type == PackedType::bf16) {
    way_ = bf16_packing_way();
    const kernels::Bf16Packing& packing = kernels::bf16_packing(way_);
    packed_.resize(static_cast<size_t>(packing.bytes_of_rows(rows, k)));
    const int64_t parts = ceil_div(rows * k, kAtOnce);
    return parallel_blocks(parts, rows * k * 10, [&](int64_t part) {
      packing.pack_rows(x, rows, k, {part, parts}, packed_.data());
    });
  }
  const int64_t blocks = kernels::quantized_blocks(k);
  packed_.resize(static_cast<size_t>(rows * blocks) * sizeof(QuantizedInputs));
  auto* const to = reinterpret_cast<QuantizedInputs*>(packed_.data());
  parallel_for(rows, std::max<int64_t>(1, kAtOnce / std::max<int64_t>(k, 1)),
               [&](int64_t begin, int64_t end) {
                 kernels::quantize_rows(x + begin * k, end - begin, k, to + begin * blocks);
               });
}

void read_in_blocks(int64_t n, int64_t k, const RowReader& read,
                    const std::function<void(int64_t first, const Tensor& rows)>& use) {
  constexpr int64_t kNumbers = 1 << 20;
  const int64_t most = std::max<int64_t>(1, kNumbers / std::max<int64_t>(k, 1) / kStrip) * kStrip;
  for (int64_t first = 0; first < n; first += most) {
    const int64_t count = std::min(most, n - first);
    const Tensor rows = read(first, first + count).detach().contiguous();
    check(rows.dtype() == DType::f32 && rows.shape() == Shape{count, k},
          "read_in_blocks: rows {} to {} are f32 {}, got {} {}", first, first + count,
          Shape{count, k}, rows.dtype(), rows.shape());
    use(first, rows);
  }
}

PackedLinear::PackedLinear(int64_t outputs, int64_t inputs, const RowReader& weights,
                           const Tensor& bias, PackedType type)
    : inputs_(inputs), outputs_(outputs), type_(type), way_(bf16_packing_way()) {
  check_bias(bias, outputs);
  const int64_t strips = strips_of(outputs);
  bias_.assign(static_cast<size_t>(strips * kStrip), 0.0f);
  if (bias.defined()) {
    const Tensor b = bias.detach().contiguous();
    std::copy_n(b.data<float>(), outputs, bias_.begin());
  }
  const kernels::Bf16Packing& bf16 = kernels::bf16_packing(way_);
  const bool rounded = type == PackedType::int8 || type == PackedType::int4;
  const int64_t bytes = rounded ? kernels::quantized_strip_bytes(form_of(type), inputs)
                        : type == PackedType::bf16
                            ? bf16.bytes_of_strips(kStrip, inputs)
                            : kStrip * inputs * static_cast<int64_t>(sizeof(float));
  data_ = empty({strips, bytes}, DType::u8);
  if (rounded) units_.resize(bias_.size());
  auto* const to = data_.mutable_data<uint8_t>();
  read_in_blocks(outputs, inputs, weights, [&](int64_t first, const Tensor& rows) {
    const int64_t n = rows.size(0);
    const auto* from = rows.data<float>();
    parallel_blocks(strips_of(n), rows.numel() * 10, [&](int64_t s) {
      const float* w = from + s * kStrip * inputs;
      const int64_t width = std::min(kStrip, n - s * kStrip), at = first / kStrip + s;
      uint8_t* strip = to + at * bytes;
      if (rounded)
        kernels::pack_quantized(form_of(type), w, width, inputs, 0, strip, &units_[at * kStrip]);
      else if (type == PackedType::bf16)
        bf16.pack_strips(w, width, inputs, strip);
      else
        kernels::pack_strips(w, width, inputs, reinterpret_cast<float*>(strip));
    });
  });
}

PackedLinear::PackedLinear(const Tensor& weight, const Tensor& bias, PackedType type,
                           Shortlists shortlists)
    : PackedLinear(
          checked(weight).size(0), checked(weight).size(1),
          [&](int64_t begin, int64_t end) {
            return narrow(weight.detach(), 0, begin, end - begin);
          },
          bias, type) {
  if (shortlists == Shortlists::no) return;
  const Tensor w = weight.detach().contiguous();
  if (type == PackedType::f32) {
    rows_ = w;
    return;
  }
  if (type == PackedType::bf16) {
    rows_ = empty({outputs_, inputs_, 2}, DType::u8);
    kernels::round_to_bf16(w.data<float>(),
                           reinterpret_cast<kernels::Bf16*>(rows_.mutable_data<uint8_t>()),
                           w.numel());
    return;
  }
  const int64_t blocks = kernels::quantized_blocks(inputs_);
  rows_ = empty({outputs_, blocks * int64_t{sizeof(QuantizedWeights)}}, DType::u8);
  auto* rows = reinterpret_cast<QuantizedWeights*>(rows_.mutable_data<uint8_t>());
  for (int64_t j = 0; j < outputs_; ++j)
    kernels::quantize_weights(form_of(type), w.data<float>() + j * inputs_, inputs_,
                              rows + j * blocks);
}

int64_t PackedLinear::bytes() const {
  const int64_t numbers = std::ssize(bias_) + std::ssize(units_);
  return numbers * int64_t{sizeof(float)} + (data_.defined() ? data_.numel() : 0) +
         (type_ != PackedType::f32 && rows_.defined() ? rows_.numel() : 0);
}

void PackedLinear::run(const PackedRows& x, int64_t first, int64_t count, float* y,
                       const PackedLinearOptions& o) const {
  // int8 and int4 read the same rows.
  auto rows_of = [](PackedType t) { return t == PackedType::int4 ? PackedType::int8 : t; };
  check(rows_of(x.type_) == rows_of(type_) && x.inputs_ == inputs_,
        "PackedLinear: the rows have {} numbers and the weights {} inputs, or their packed types "
        "differ",
        x.inputs_, inputs_);
  check(type_ != PackedType::bf16 || x.way_ == way_,
        "PackedLinear: the rows are packed for {}, but the weights for {}", to_string(x.way_),
        to_string(way_));
  if (x.rows_ == 0 || count == 0) return;
  const kernels::StripRange all{x.rows_, std::min(first + count, outputs_), inputs_, first / kStrip,
                                strips_of(first + count)};
  kernels::StripEnd end{bias_.data(), o.activation == Activation::relu, o.residual, count};
  const int64_t work = x.rows_ * count * inputs_;
  const Pieces pieces(all, work);
  parallel_blocks(pieces.groups * pieces.parts, work, [&](int64_t i) {
    const int64_t column = i / pieces.parts * pieces.strips * kStrip;
    kernels::StripRange part = all;
    part.first = all.first + i / pieces.parts * pieces.strips;
    part.last = std::min(all.last, part.first + pieces.strips);
    part.part = {i % pieces.parts, pieces.parts};
    kernels::StripEnd part_end = end;
    if (end.residual) part_end.residual += column;
    if (type_ == PackedType::f32) {
      kernels::multiply_strips(part, x.x_, inputs_, f32_strips(data_), y + column, count, part_end);
    } else if (type_ == PackedType::bf16) {
      kernels::multiply_bf16_strips(kernels::bf16_packing(way_), part, x.packed_.data(),
                                    data_.data<uint8_t>(), y + column, count, part_end);
    } else {
      kernels::multiply_quantized(form_of(type_), kernels::best_quantized_way(), part,
                                  reinterpret_cast<const QuantizedInputs*>(x.packed_.data()),
                                  data_.data<uint8_t>(), units_.data(), y + column, count,
                                  part_end);
    }
  });
}

void PackedLinear::operator()(const PackedRows& x, float* y, const PackedLinearOptions& o) const {
  const bool simple = o.activation == Activation::none || o.activation == Activation::relu;
  check(simple || !o.residual, "PackedLinear: a residual needs the activation none or relu");
  run(x, 0, outputs_, y, o);
  if (!simple) activate(o.activation, y, x.rows_ * outputs_);
}

void PackedLinear::some(const PackedRows& x, int64_t row, const int64_t* list, int64_t count,
                        float* y) const {
  check(rows_.defined(),
        "PackedLinear: some() needs weights that were packed with Shortlists::yes");
  if (type_ == PackedType::f32)
    return kernels::multiply_some(x.x_ + row * inputs_, rows_.data<float>(), inputs_, bias_.data(),
                                  list, count, y);
  if (type_ == PackedType::bf16)
    return kernels::multiply_bf16_some(
        x.x_ + row * inputs_, reinterpret_cast<const kernels::Bf16*>(rows_.data<uint8_t>()),
        inputs_, bias_.data(), list, count, y);
  const auto* blocks = reinterpret_cast<const QuantizedInputs*>(x.packed_.data());
  kernels::multiply_quantized_some(form_of(type_),
                                   blocks + row * kernels::quantized_blocks(inputs_),
                                   reinterpret_cast<const QuantizedWeights*>(rows_.data<uint8_t>()),
                                   inputs_, units_.data(), bias_.data(), list, count, y);
}

void PackedLinear::copy_weights(int64_t output, float* weights) const {
  check(output >= 0 && output < outputs_, "PackedLinear: there is no output {} among {}", output,
        outputs_);
  if (type_ == PackedType::bf16)
    return kernels::bf16_packing(way_).read_output(data_.data<uint8_t>(), output, inputs_, weights);
  if (type_ != PackedType::f32)
    return kernels::read_quantized(form_of(type_), data_.data<uint8_t>(), units_.data(), output,
                                   inputs_, weights);
  const float* strip = f32_strips(data_) + output / kStrip * kStrip * inputs_ + output % kStrip;
  for (int64_t i = 0; i < inputs_; ++i) weights[i] = strip[i * kStrip];
}

void PackedLinear::columns(const PackedRows& x, int64_t first, int64_t count, float* y) const {
  check(first >= 0 && first % kStrip == 0 && count >= 0 && first + count <= outputs_,
        "PackedLinear: cannot compute outputs {} to {} of {}; they must exist, and the first must "
        "be a multiple of {}",
        first, first + count, outputs_, kStrip);
  run(x, first, count, y, {});
}

}  // namespace tern

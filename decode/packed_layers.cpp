// Norms, sizes of attention and the generator on rows of f32. Sums have a fixed order, so a
// row's bits do not depend on other rows.
#include "tern/decode/packed_layers.h"

#include <algorithm>

#include "tern/core/base/reduce.h"
#include "tern/core/base/simd.h"
#include "tern/core/ops/formula.h"
#include "tern/core/tape/substitution.h"

namespace tern::decoding {
namespace {

std::vector<float> numbers(const Tensor& x) {
  const Tensor y = x.detach().contiguous();
  return {y.data<float>(), y.data<float>() + y.numel()};
}

}  // namespace

void check_unhooked(const char* op, const std::vector<Tensor>& weights) {
  for (const Tensor& w : weights)
    tern::detail::check_unhooked(op, w, "merge its change into the weights first");
}

PackedNorm::PackedNorm(const nn::LayerNorm& norm)
    : weight(numbers(norm.weight)),
      bias(norm.bias.defined() ? numbers(norm.bias) : std::vector<float>(weight.size())),
      eps(norm.eps) {}
PackedNorm::PackedNorm(const nn::RmsNorm& norm)
    : weight(numbers(norm.factor())), bias(weight.size()), eps(norm.eps), centred(false) {}

void PackedNorm::operator()(const float* x, int64_t rows, float* y) const {
  const auto n = static_cast<int64_t>(weight.size());
  for_rows(rows, n,
           [=, w = weight.data(), b = bias.data(), e = eps, shift = centred](int64_t begin,
                                                                             int64_t end) {
             simd([=] {
               const double count = static_cast<double>(n);
               for (int64_t r = begin; r < end; ++r) {
                 const float* row = x + r * n;
                 float* out = y + r * n;
                 const double sum =
                     shift ? kernels::blocked_sum<float>(n, [=](int64_t i) { return row[i]; })
                           : 0.0;
                 const float mean = static_cast<float>(sum / count);
                 const double squares = kernels::blocked_sum<float>(
                     n, [=](int64_t i) { return (row[i] - mean) * (row[i] - mean); });
                 const float rstd = static_cast<float>(1 / __builtin_sqrt(squares / count + e));
#pragma omp simd
                 for (int64_t i = 0; i < n; ++i) out[i] = (row[i] - mean) * rstd * w[i] + b[i];
               }
             });
           });
}

PackedAttention::PackedAttention(const nn::MultiHeadAttention& a, Kind kind, PackedType type)
    : counts(a.counts), dim(a.in_proj_weight.size(0) / (counts.heads + 2 * counts.kv_heads)) {
  auto part = [&](int64_t first, int64_t rows) {
    const Tensor bias = a.in_proj_bias.defined()
                            ? narrow(a.in_proj_bias.tensor().detach(), 0, first, rows)
                            : Tensor();
    return PackedLinear(narrow(a.in_proj_weight.tensor().detach(), 0, first, rows), bias, type);
  };
  const int64_t all = queries() + 2 * keys();
  in = part(0, kind == Kind::self ? all : queries());
  if (kind == Kind::memory) memory = part(queries(), 2 * keys());
  out = PackedLinear(a.out_proj.weight, a.out_proj.bias, type);
}

PackedAttention::PackedAttention(HeadCounts heads, PackedLinear project, PackedLinear join)
    : in(std::move(project)),
      out(std::move(join)),
      counts(heads),
      dim(in.outputs() / (counts.heads + 2 * counts.kv_heads)) {}

void multiply_by_gate(const float* x, int64_t rows, int64_t n, Activation f, float* y) {
  auto run = [=](auto function) {
    for_rows(rows, n, [=](int64_t begin, int64_t end) {
      simd([=] {
        for (int64_t r = begin; r < end; ++r) {
          const float* row = x + 2 * r * n;
          float* to = y + r * n;
#pragma omp simd
          for (int64_t i = 0; i < n; ++i) to[i] = function(row[i]) * row[n + i];
        }
      });
    });
  };
  if (f == Activation::silu)
    run([](float x) __attribute__((always_inline)) { return x * formula::sigmoid(x); });
  else
    run([](float x) __attribute__((always_inline)) { return formula::gelu_tanh(x); });
}

PackedGenerator::PackedGenerator(const Tensor& weight, const Tensor& bias, PackedType type,
                                 Shortlists shortlists)
    : linear_(weight, bias, type, shortlists) {}

void PackedGenerator::operator()(const PackedRows& x,
                                 std::span<const std::span<const int64_t>> lists, NextTokens& next,
                                 Room& room) const {
  const auto rows = static_cast<size_t>(x.rows());
  next.tokens.resize(rows * static_cast<size_t>(next.count));
  next.found.resize(rows);
  next.largest.resize(rows);
  room.scans.assign(rows, {});
  const bool all = std::any_of(lists.begin(), lists.end(), [](auto list) { return list.empty(); });
  if (all) scan_all(x, lists, next, room);
  for (int64_t r = 0; r < x.rows(); ++r)
    if (!lists[r].empty()) scan_list(x, r, lists[r], next, room);
  for (int64_t r = 0; r < x.rows(); ++r) {
    const detail::RowScan& scan = room.scans[r];
    next.found[r] = scan.found;
    next.largest[r] = scan.max;
    if (!next.log_probs) continue;
    const double log_sum = scan.log_sum();
    for (int64_t i = 0; i < scan.found; ++i) next.tokens[r * next.count + i].log_prob -= log_sum;
  }
}

void PackedGenerator::scan_all(const PackedRows& x, std::span<const std::span<const int64_t>> lists,
                               NextTokens& next, Room& room) const {
  constexpr int64_t kColumns = 4 * detail::kScanBlock;  // logits per row that are computed at once
  room.logits.resize(static_cast<size_t>(x.rows() * std::min(kColumns, vocab())));
  for (int64_t first = 0; first < vocab(); first += kColumns) {
    const int64_t count = std::min(kColumns, vocab() - first);
    linear_.columns(x, first, count, room.logits.data());
    parallel_blocks(x.rows(), x.rows() * count * 10, [&](int64_t r) {
      if (!lists[r].empty()) return;
      for (int64_t i = 0; i < count; i += detail::kScanBlock)
        detail::scan_block(room.logits.data() + r * count + i,
                           std::min(detail::kScanBlock, count - i), first + i, next.allowed,
                           next.log_probs, next.count, room.scans[r],
                           next.tokens.data() + r * next.count);
    });
  }
}

void PackedGenerator::scan_list(const PackedRows& x, int64_t row, std::span<const int64_t> list,
                                NextTokens& next, Room& room) const {
  const auto count = static_cast<int64_t>(list.size());
  room.logits.resize(std::max(room.logits.size(), list.size()));
  room.allowed.resize(std::max(room.allowed.size(), list.size()));
  linear_.some(x, row, list.data(), count, room.logits.data());
  for (int64_t i = 0; i < count; ++i) room.allowed[i] = next.allowed[list[i]];
  NextToken* best = next.tokens.data() + row * next.count;
  for (int64_t i = 0; i < count; i += detail::kScanBlock)
    detail::scan_block(room.logits.data() + i, std::min(detail::kScanBlock, count - i), i,
                       room.allowed.data(), next.log_probs, next.count, room.scans[row], best);
  for (int64_t i = 0; i < room.scans[row].found; ++i)
    best[i].token = list[static_cast<size_t>(best[i].token)];
}

}  // namespace tern::decoding

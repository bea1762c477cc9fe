// unique (by sorting rows), bincount (a scatter_add), searchsorted and histogram.
#include <cmath>
#include <numeric>

#include "tern/core/kernels/statistics/search.h"
#include "tern/core/ops/elementwise.h"
#include "tern/core/ops/memory.h"
#include "tern/core/ops/reduction/reduction.h"
#include "tern/core/ops/statistics/statistics.h"

namespace tern {
namespace {

Tensor list_of(const std::vector<int64_t>& v) { return tensor(v); }

// Moves one axis and keeps the order of the others, which decides how slices compare.
Tensor move_axis(const Tensor& x, int from, int to) {
  Dims order;
  for (int i = 0; i < x.ndim(); ++i)
    if (i != from) order.push_back(i);
  order.insert(to, from);
  return permute(x, order);
}

// Sorts the groups by the position of their first row.
void order_by_first(kernels::Groups& groups) {
  const size_t n = groups.first.size();
  std::vector<int64_t> order(n), place(n);
  std::iota(order.begin(), order.end(), int64_t{0});
  auto first = [&](int64_t g) { return groups.first[static_cast<size_t>(g)]; };
  std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return first(a) < first(b); });
  kernels::Groups sorted;
  for (size_t i = 0; i < n; ++i) {
    const auto g = static_cast<size_t>(order[i]);
    place[g] = static_cast<int64_t>(i);
    sorted.first.push_back(groups.first[g]);
    sorted.counts.push_back(groups.counts[g]);
  }
  for (int64_t g : groups.group_of) sorted.group_of.push_back(place[static_cast<size_t>(g)]);
  groups = std::move(sorted);
}

void check_edges(const Tensor& edges) {
  std::vector<double> e = edges.to_vector<double>();
  for (size_t i = 0; i + 1 < e.size(); ++i)
    check(e[i] <= e[i + 1], "histogram: the edges must ascend, but {} comes before {}", e[i],
          e[i + 1]);
}

Histogram counted(const Tensor& x, const Tensor& edges, const HistogramOptions& options) {
  Op op("histogram");
  const int64_t bins = edges.numel() - 1;
  Tensor values = x.contiguous(), weight;
  if (options.weight.defined()) {
    check(options.weight.shape() == x.shape() && options.weight.dtype() == x.dtype(),
          "histogram: the weight must match x, which is {} {}, got {} {}", x.dtype(), x.shape(),
          options.weight.dtype(), options.weight.shape());
    weight = options.weight.contiguous();
  }
  Fresh counts(Shape{bins}, x.dtype());
  dispatch_float(x.dtype(), "histogram", [&]<class T>() {
    kernels::histogram(values.data<T>(), weight.defined() ? weight.data<T>() : nullptr, x.numel(),
                       edges.data<T>(), bins, counts.data<T>());
  });
  Tensor hist = op.not_differentiable(counts);
  if (!options.density) return {hist, edges};
  NoGradGuard guard;
  Tensor widths = narrow(edges, 0, 1, bins) - narrow(edges, 0, 0, bins);
  return {hist / (sum(hist) * widths), edges};
}

}  // namespace

Unique unique(const Tensor& x, const UniqueOptions& options) {
  Op op("unique", x);
  check_defined("unique", x);
  const bool slices = options.axis.has_value() && x.ndim() > 0;
  const int axis = options.axis ? detail::wrap_axis("unique", *options.axis, x) : 0;
  const Tensor rows =
      (slices ? move_axis(x.detach(), axis, 0) : reshape(x.detach(), {x.numel()})).contiguous();
  const int64_t n = rows.size(0), m = n > 0 ? rows.numel() / n : 0;
  kernels::Groups groups;
  dispatch(x.dtype(), [&]<class T>() { groups = kernels::equal_rows(rows.data<T>(), n, m); });
  if (!options.sorted) order_by_first(groups);
  Tensor values = index_select(rows, 0, list_of(groups.first));
  if (slices) values = move_axis(values, 0, axis);
  Unique found;
  if (options.return_inverse) {
    found.inverse = list_of(groups.group_of);
    if (!slices) found.inverse = reshape(found.inverse, x.shape());
  }
  if (options.return_counts) found.counts = list_of(groups.counts);
  found.values = op.record(Fresh::adopt(values), [](const Tensor&) -> Tensor {
    fail("unique: has no gradient; give it x.detach()");
  });
  return found;
}

Tensor bincount(const Tensor& x, const Tensor& weights, int64_t minlength) {
  check_defined("bincount", x);
  check(x.ndim() == 1 && !is_float(x.dtype()), "bincount: needs integers (n,), got {} {}",
        x.dtype(), x.shape());
  check(minlength >= 0, "bincount: minlength is {}, less than 0", minlength);
  const Tensor index = x.to(DType::i64);
  int64_t bins = minlength;
  if (x.numel() > 0) {
    const auto least = min(index).item<int64_t>(), most = max(index).item<int64_t>();
    check(least >= 0, "bincount: values must not be negative, got {}", least);
    bins = std::max(bins, checked_sum("bincount", most, 1));
  }
  if (!weights.defined())
    return scatter_add(zeros(Shape{bins}, DType::i64), 0, index, ones(x.shape(), DType::i64));
  check(weights.shape() == x.shape(), "bincount: the weights must be {}, got {}", x.shape(),
        weights.shape());
  const Tensor w = is_float(weights.dtype()) ? weights : weights.to(DType::f64);
  return scatter_add(zeros(Shape{bins}, w.dtype()), 0, index, w);
}

Tensor searchsorted(const Tensor& given, const Tensor& values, bool right) {
  Op op("searchsorted");
  check_defined("searchsorted", given, values);
  const bool one_line = given.ndim() == 1;
  bool fits = one_line || given.ndim() == values.ndim();
  for (int i = 0; fits && !one_line && i < given.ndim() - 1; ++i)
    fits = given.shape()[i] == values.shape()[i];
  check(fits && given.ndim() > 0,
        "searchsorted: the sorted lines {} do not fit the values {}; give (n,), or equal leading "
        "axes",
        given.shape(), values.shape());
  DType type = detail::promote("searchsorted", given.dtype(), values.dtype());
  if (is_float(given.dtype()) != is_float(values.dtype()))
    type = DType::f64;  // f32 cannot hold all integers
  const Tensor sorted = given.detach().to(type).contiguous();
  const Tensor wanted = values.detach().to(type).contiguous();
  Fresh y(values.shape(), DType::i64);
  const int64_t m = values.ndim() ? values.size(-1) : 1;
  if (y.numel() > 0)
    dispatch(type, [&]<class T>() {
      kernels::searchsorted(sorted.data<T>(), wanted.data<T>(), y.data<int64_t>(), y.numel() / m,
                            sorted.size(-1), m, one_line, right);
    });
  return op.not_differentiable(y);
}

Tensor searchsorted(const Tensor& sorted, Scalar value, bool right) {
  check_defined("searchsorted", sorted);
  const bool fraction = !is_float(sorted.dtype()) && !value.is_integer;
  return searchsorted(
      sorted, fraction ? scalar(value, DType::f64) : detail::exact_scalar_for(sorted, value),
      right);
}

Histogram histogram(const Tensor& x, int64_t bins, const HistogramOptions& options) {
  check_defined("histogram", x);
  check(bins > 0, "histogram: needs at least one bin, got {}", bins);
  check(is_float(x.dtype()), "histogram: needs a floating tensor, got {}; convert with .to()",
        x.dtype());
  double low = 0, high = x.numel() > 0 ? 0 : 1;
  if (options.range) {
    std::tie(low, high) = *options.range;
  } else if (x.numel() > 0) {
    low = min(x.detach()).item();
    high = max(x.detach()).item();
  }
  check(std::isfinite(low) && std::isfinite(high) && low <= high,
        "histogram: {} to {} is not a range; give one: {{.range = ...}}", low, high);
  check(std::isfinite(high - low),
        "histogram: the range {} to {} is too wide for a floating number; give a smaller one: "
        "{{.range = ...}}",
        low, high);
  if (low == high) {
    low -= 0.5;
    high += 0.5;
  }
  return counted(x, linspace(low, high, checked_sum("histogram", bins, 1), x.dtype()), options);
}

Histogram histogram(const Tensor& x, const Tensor& edges, const HistogramOptions& options) {
  check_defined("histogram", x, edges);
  check(edges.ndim() == 1 && edges.numel() >= 2 && edges.dtype() == x.dtype(),
        "histogram: needs two edges or more, {} (n,), got {} {}", x.dtype(), edges.dtype(),
        edges.shape());
  check(!options.range, "histogram: takes edges or a range, not both");
  check_edges(edges);
  return counted(x, edges.detach().contiguous(), options);
}

}  // namespace tern

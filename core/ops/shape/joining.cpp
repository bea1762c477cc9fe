// Joining and moving blocks: cat, stack, pad, roll, repeat, tile, repeat_interleave. Results are
// written part by part, in contiguous runs.
#include <utility>

#include "tern/core/base/threads.h"
#include "tern/core/kernels/creation/copy.h"
#include "tern/core/ops/creation/write.h"
#include "tern/core/ops/elementwise.h"
#include "tern/core/ops/memory.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/record.h"

namespace tern {
namespace {

DType joint_dtype(const char* op, const std::vector<Tensor>& xs) {
  DType joint = xs.front().dtype();
  for (const Tensor& x : xs) joint = detail::promote(op, joint, x.dtype());
  return joint;
}

// As in PyTorch, a tensor of shape (0,) joins anything, so that lists can start empty.
std::vector<Tensor> without_nothing(const std::vector<Tensor>& xs) {
  std::vector<Tensor> some;
  for (const Tensor& x : xs)
    if (x.ndim() != 1 || x.numel() != 0) some.push_back(x);
  return some.empty() ? xs : some;
}

bool same_but_for(int axis, const Shape& x, const Shape& y) {
  if (x.size() != y.size()) return false;
  for (int i = 0; i < x.size(); ++i)
    if (i != axis && x[i] != y[i]) return false;
  return true;
}

// Writes x into `out`, shifted by shifts[i], in [0, size), along each axis i from `axis` on.
void roll_into(const Tensor& out, const Tensor& x, const Dims& shifts, int axis) {
  while (axis < x.ndim() && shifts[axis] == 0) ++axis;
  if (axis == x.ndim()) return copy_(out, x);
  int64_t s = shifts[axis], rest = x.shape()[axis] - s;
  roll_into(narrow(out, axis, s, rest), narrow(x, axis, 0, rest), shifts, axis + 1);
  roll_into(narrow(out, axis, 0, s), narrow(x, axis, rest, s), shifts, axis + 1);
}

// x (s0, s1, ...) as (n0 s0, n1 s1, ...): viewed as (1, s0, 1, s1, ...), expanded along the new
// axes and copied. If these are too many axes, repeats some axes after the others.
Tensor repeated(const char* op, const Tensor& x, const Dims& counts) {
  Tensor whole = x;
  while (whole.ndim() < counts.size()) whole = unsqueeze(whole, 0);
  Shape apart, stretched, result;
  const bool fits = 2 * counts.size() <= kMaxDims;
  bool used = false;  // with too many axes: whether this call has repeated one
  Dims rest = Dims::filled(counts.size(), 1);
  for (int i = 0; i < counts.size(); ++i) {
    const int64_t size = whole.shape()[i];
    int64_t count = counts[i];
    check(count >= 0, "{}: axis {} cannot be repeated {} times", op, i, count);
    if (!fits && used) rest[i] = std::exchange(count, 1);
    if (fits || (count != 1 && !used)) {
      used |= count != 1;
      apart.push_back(1);
      stretched.push_back(count);
    }
    apart.push_back(size);
    stretched.push_back(size);
    result.push_back(checked_product(op, size, count));
  }
  Tensor y = view(clone(expand(reshape(whole, apart), stretched)), result);
  return rest == Dims::filled(rest.size(), 1) ? y : repeated(op, y, rest);
}

/// The op's result: a tensor of this shape whose part(whole, i) is xs[i]. Writes several small
/// parts at the same time, else one by one, each on all threads.
template <class Part>
Tensor joined(Op& op, const Shape& shape, const std::vector<Tensor>& xs, Part part) {
  Fresh y = filled(empty(shape, joint_dtype(op.name(), xs)), [&](const Tensor& out) {
    std::vector<Fresh> to;
    for (size_t i = 0; i < xs.size(); ++i) to.push_back(Fresh::adopt(part(out, i)));
    constexpr int64_t kSeveral = 4;
    const int64_t count = std::ssize(xs);
    auto write_one = [&](int64_t i) {
      detail::write(op.name(), to[static_cast<size_t>(i)], xs[static_cast<size_t>(i)]);
    };
    if (count >= kSeveral && out.numel() <= count * kernels::kGrain) {
      parallel_blocks(count, 20 * out.numel(), write_one);
    } else {
      for (int64_t i = 0; i < count; ++i) write_one(i);
    }
  });
  return op.record(y, xs, [part, n = xs.size()](const Tensor& dy, const Wants& wants) {
    Gradients dx(n);
    for (size_t i = 0; i < n; ++i)
      if (wants[static_cast<int>(i)]) dx[i] = part(dy, i);
    return dx;
  });
}

}  // namespace

Tensor cat(const std::vector<Tensor>& tensors, int64_t axis) {
  Op op("cat", tensors);
  check(!tensors.empty(), "cat: needs at least one tensor");
  check_all_defined("cat", tensors);
  std::vector<Tensor> xs = without_nothing(tensors);
  Shape shape = xs.front().shape();
  check(!shape.empty(), "cat: tensors without axes cannot be joined; use stack");
  int a = normalize_axis("cat", axis, shape.size());
  op.note("axis", a);
  shape[a] = 0;
  std::vector<int64_t> starts;
  for (const Tensor& x : xs) {
    check(same_but_for(a, x.shape(), shape), "cat: shapes {} and {} do not join along axis {}",
          xs.front().shape(), x.shape(), axis);
    starts.push_back(shape[a]);
    shape[a] = checked_sum("cat", shape[a], x.shape()[a]);
  }
  starts.push_back(shape[a]);
  auto part = [a, starts](const Tensor& whole, size_t i) {
    return narrow(whole, a, starts[i], starts[i + 1] - starts[i]);
  };
  return joined(op, shape, xs, part);
}

Tensor stack(const std::vector<Tensor>& xs, int64_t axis) {
  Op op("stack", xs);
  check(!xs.empty(), "stack: needs at least one tensor");
  check_all_defined("stack", xs);
  Shape shape = xs.front().shape();
  for (size_t i = 0; i < xs.size(); ++i)
    check(xs[i].shape() == shape, "stack: tensor {} has shape {}, the first has {}", i,
          xs[i].shape(), shape);
  int a = normalize_axis("stack", axis, shape.size() + 1);
  op.note("axis", a);
  shape.insert(a, static_cast<int64_t>(xs.size()));
  auto part = [a](const Tensor& whole, size_t i) {
    return select(whole, a, static_cast<int64_t>(i));
  };
  return joined(op, shape, xs, part);
}

Tensor pad(const Tensor& x, const Dims& pads, Scalar value) {
  Op op("pad", x);
  check_defined("pad", x);
  check(pads.size() % 2 == 0 && pads.size() <= 2 * x.ndim(),
        "pad: {} must be (before, after) pairs, at most one for each axis of shape {}", pads,
        x.shape());
  Shape shape = x.shape();
  Dims back;
  for (int i = 0; i < pads.size(); ++i) {
    int64_t& size = shape[x.ndim() - 1 - i / 2];
    size = checked_sum("pad", size, pads[i]);
    back.push_back(checked_product("pad", pads[i], -1));
  }
  for (int64_t size : shape)
    check(size >= 0, "pad: {} removes more elements than shape {} has", pads, x.shape());
  op.note("pads", pads, "value", value.value);
  if (value.is_integer) op.note("value", value.integer);
  Tensor filling = expand(detail::stored_scalar("pad", value, x.dtype()), shape);
  Fresh y = filled(clone(filling), [&](const Tensor& out) {
    Tensor to = out, from = x;
    for (int i = 0; i < pads.size(); i += 2) {
      int axis = x.ndim() - 1 - i / 2;
      int64_t left = pads[i], right = pads[i + 1];
      int64_t kept = x.shape()[axis] + std::min<int64_t>(left, 0) + std::min<int64_t>(right, 0);
      if (kept <= 0) return;
      to = narrow(to, axis, std::max<int64_t>(left, 0), kept);
      from = narrow(from, axis, std::max<int64_t>(-left, 0), kept);
    }
    copy_(to, from);
  });
  return op.record(y, [back](const Tensor& dy) { return pad(dy, back); });
}

Tensor roll(const Tensor& x, const Dims& shifts, const Dims& axes) {
  Op op("roll", x);
  check_defined("roll", x);
  if (axes.empty() && x.ndim() != 1) {
    check(shifts.size() == 1, "roll: without axes there must be one shift, got {}", shifts);
    return reshape(roll(flatten(x), shifts, 0), x.shape());
  }
  Dims over = axes.empty() ? Dims(0) : axes;
  check(shifts.size() == over.size(), "roll: {} shifts for {} axes", shifts.size(), over.size());
  Dims total = Dims::filled(x.ndim(), 0), back = total;  // shifts in [0, size)
  for (int i = 0; i < over.size(); ++i) {
    int a = normalize_axis("roll", over[i], x.ndim());
    int64_t n = std::max<int64_t>(x.shape()[a], 1);
    int64_t shift = shifts[i] % n;
    if (shift > 0) shift -= n;  // in (-n, 0]
    total[a] += total[a] + shift < 0 ? shift + n : shift;
    back[a] = -total[a];
    over[i] = a;
  }
  op.note("axes", over, "shifts", shifts);
  Fresh y =
      filled(empty(x.shape(), x.dtype()), [&](const Tensor& out) { roll_into(out, x, total, 0); });
  Dims all = normalize_axes("roll", {}, x.ndim());
  return op.record(y, [back, all](const Tensor& dy) { return roll(dy, back, all); });
}

Tensor repeat(const Tensor& x, const Dims& counts) {
  check_defined("repeat", x);
  const int added = counts.size() - x.ndim();
  check(added >= 0,
        "repeat: counts {} are fewer than the axes of shape {}; give one for every axis, or use "
        "tile",
        counts, x.shape());
  return repeated("repeat", x, counts);
}

Tensor tile(const Tensor& x, const Dims& counts) {
  check_defined("tile", x);
  Dims all = Dims::filled(std::max(x.ndim() - counts.size(), 0), 1);
  for (int64_t count : counts) all.push_back(count);
  return repeated("tile", x, all);
}

Tensor repeat_interleave(const Tensor& x, int64_t repeats, int64_t axis) {
  check_defined("repeat_interleave", x);
  if (x.ndim() == 0) return repeat_interleave(reshape(x, {1}), repeats, axis);
  int a = normalize_axis("repeat_interleave", axis, x.ndim());
  check(repeats >= 0, "repeat_interleave: cannot repeat {} times", repeats);
  Shape repeated = x.shape(), shape = x.shape();
  repeated.insert(a + 1, repeats);
  shape[a] = checked_product("repeat_interleave", shape[a], repeats);
  return view(clone(expand(unsqueeze(x, a + 1), repeated)), shape);
}

}  // namespace tern

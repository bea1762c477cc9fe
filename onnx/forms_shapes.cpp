// Forms of ops on shapes, of new tensors, and of reading and writing at indices.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tern/onnx/forms.h"

namespace tern::onnx {
namespace {

// Open sides of a range.
constexpr int64_t kBegin = std::numeric_limits<int64_t>::min(),
                  kEnd = std::numeric_limits<int64_t>::max();

/// Where a range ends in ONNX: open if it takes the rest of the axis in every run.
Size end_of(const Size& whole, const Size& start, const Size& length) {
  Size end = start;
  bool open = true;
  for (size_t run = 0; run < end.size(); ++run) {
    end[run] += length[run];
    open &= end[run] >= whole[run];
  }
  return open ? Size(end.size(), kEnd) : end;
}

/// Whether a bound of a slice lies outside of the axis in some run, so that the slice is shorter
/// than its bounds.
bool is_beyond(const Size& bound, const Size& whole) {
  if (bound[0] == kBegin || bound[0] == kEnd) return false;  // an open side
  for (size_t run = 0; run < whole.size(); ++run)
    if (bound[run] > whole[run] || bound[run] < -whole[run]) return true;
  return false;
}

/// Whether the start is the last element in all examples.
bool is_last(const Size& start, const Size& whole) {
  for (size_t run = 0; run < start.size(); ++run)
    if (start[run] != whole[run] - 1) return false;
  return true;
}

/// Whether a range between two fixed bounds is longer on a longer axis: one counts from its front,
/// the other from its end.
bool grows(const Size& start, const Size& end) {
  auto from_front = [](int64_t bound) { return bound == kBegin || (bound >= 0 && bound != kEnd); };
  return is_fixed(start) && is_fixed(end) && from_front(start[0]) != from_front(end[0]);
}

/// A way backwards whose start lies before all elements has none in Python, but begins at the first
/// one in ONNX. So the elements between its bounds are taken forwards first, and the bounds become
/// open.
std::string between(Emitter& e, const std::string& x, int64_t axis, Size& start, Size& end) {
  if (!is_fixed(end)) e.refuse("it runs backwards to an end that differs between the examples");
  const int64_t last = start[0] + 1, first = end[0] == -1 ? kEnd : std::min(end[0], kEnd - 1) + 1;
  start = Size(start.size(), kEnd);
  end = Size(end.size(), kBegin);
  return e.node("Slice", {x, e.ints({first}), e.ints({last}), e.ints({axis})});
}

}  // namespace

void reshape(Emitter& e) { e.give(e.reshaped(e.in(0), e.input(0).shape, e.result().shape)); }

/// An axis of an open size would vanish where that is 1, and a file has one number of axes.
void squeeze(Emitter& e) {
  const std::vector<Size>& shape = e.input(0).shape;
  for (int64_t axis = 0; axis < std::ssize(shape); ++axis)
    if (const Size& size = shape[static_cast<size_t>(axis)];
        !is_fixed(size) && (!e.says("axis") || e.number("axis") == axis))
      e.refuse(fmt::format(
          "its axis {} has the sizes {} in the examples, and would be dropped at the size 1; give "
          "an axis of size 1, as in squeeze(x, 1)",
          axis, fmt::join(size, ", ")));
  reshape(e);
}

void permute(Emitter& e) { e.give(e.node("Transpose", {e.in(0)}, {{"perm", e.numbers("axes")}})); }

void transpose(Emitter& e) {
  Ints order;
  for (int i = 0; i < static_cast<int>(e.input(0).shape.size()); ++i) order.push_back(i);
  const Ints axes = e.numbers("axes");
  std::swap(order[static_cast<size_t>(axes[0])], order[static_cast<size_t>(axes[1])]);
  e.give(e.node("Transpose", {e.in(0)}, {{"perm", order}}));
}

void expand(Emitter& e) { e.give(e.node("Expand", {e.in(0), e.shape(e.result().shape)})); }

/// The bounds of slice() are written as the program gave them: Python's rules, which ONNX shares,
/// make ranges of them for every size. Other ops say the range itself.
void slice(Emitter& e) {
  const Ints axes = e.numbers("axis"), drops = e.numbers("drops");
  const bool given = e.says("from");
  const Ints steps = given ? e.numbers("by") : Ints(axes.size(), 1);
  std::vector<Size> starts = e.sizes("start"), ends;
  std::string x = e.in(0);
  Ints dropped, named;  // axes: of the input, and of the result
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t axis = axes[i];
    const Size& whole = e.input(0).shape[static_cast<size_t>(axis)];
    const bool ruled = given && !drops[i];
    if (ruled) starts[i] = e.sizes("from")[i];
    ends.push_back(ruled ? e.sizes("to")[i] : end_of(whole, starts[i], e.sizes("length")[i]));
    const int64_t now = axis - std::ssize(dropped);  // in the result
    if (drops[i]) dropped.push_back(axis);
    if (!ruled) continue;
    const bool strides = std::abs(steps[i]) > 1;
    if (strides && grows(starts[i], ends[i])) check_differs(e, static_cast<size_t>(now), whole);
    if (strides || is_beyond(starts[i], whole) || is_beyond(ends[i], whole)) named.push_back(now);
    if (steps[i] >= 0) continue;
    if (is_fixed(starts[i]) && starts[i][0] < -1)
      x = between(e, x, axis, starts[i], ends[i]);
    else if (!is_fixed(starts[i]) && !is_last(starts[i], whole))
      e.refuse(fmt::format("it runs backwards from {} in the examples: give the start as a number",
                           fmt::join(starts[i], ", ")));
  }
  x = e.node("Slice", {x, e.shape(starts), e.shape(ends), e.ints(axes), e.ints(steps)});
  e.give(dropped.empty() ? x : e.node("Squeeze", {x, e.ints(dropped)}));
  for (int64_t axis : named) e.name_size(static_cast<int>(axis));
}

void flip(Emitter& e) {
  const Ints axes = e.numbers("axes"), back(axes.size(), -1), first(axes.size(), -kEnd);
  e.give(e.node("Slice", {e.in(0), e.ints(back), e.ints(first), e.ints(axes), e.ints(back)}));
}

/// The last elements of each axis come first. The place of the first of them is -shift modulo the
/// size, which the file computes if the size is open.
void roll(Emitter& e) {
  const Ints axes = e.numbers("axes");
  const std::vector<Size>& shifts = e.sizes("shifts");
  std::string x = e.in(0);
  for (size_t i = 0; i < axes.size(); ++i) {
    const Size &whole = e.input(0).shape[static_cast<size_t>(axes[i])], &shift = shifts[i];
    std::string cut;
    if (is_fixed(whole) && is_fixed(shift)) {
      const int64_t size = std::max<int64_t>(whole[0], 1), place = (size - shift[0] % size) % size;
      if (place == 0) continue;
      cut = e.ints({place});
    } else {
      // A remainder by 0 would stop the program that reads the file.
      const std::string size = e.node("Max", {e.size(whole), e.ints({1})});
      cut = e.node("Mod", {e.node("Neg", {e.size(shift)}), size});
    }
    const std::string along = e.ints({axes[i]});
    const std::string last = e.node("Slice", {x, cut, e.ints({kEnd}), along});
    const std::string first = e.node("Slice", {x, e.ints({0}), cut, along});
    x = e.node("Concat", {last, first}, {{"axis", axes[i]}});
  }
  e.give(x);
}

void cat(Emitter& e) {
  Names in;
  for (int i = 0; i < e.inputs(); ++i) {
    const std::vector<Size>& shape = e.input(i).shape;
    const bool nothing = shape.size() == 1 && shape[0] == Size(shape[0].size(), 0);
    if (!nothing) in.push_back(e.in(i, e.result().dtype));
  }
  e.give(e.node("Concat", in, {{"axis", e.number("axis")}}));
}

void stack(Emitter& e) {
  Names in;
  const std::string axis = e.ints(e.numbers("axis"));
  for (int i = 0; i < e.inputs(); ++i)
    in.push_back(e.node("Unsqueeze", {e.in(i, e.result().dtype), axis}));
  e.give(e.node("Concat", in, {{"axis", e.number("axis")}}));
}

void pad(Emitter& e) {
  const Ints pairs = e.numbers("pads");  // (before, after) of the last axis, then of the others
  const size_t axes = e.input(0).shape.size();
  Ints pads(2 * axes, 0);
  for (size_t i = 0; i < pairs.size(); ++i) pads[(i % 2 ? 2 * axes : axes) - 1 - i / 2] = pairs[i];
  if (e.says("reflects")) {
    const std::string mode = e.number("reflects") ? "reflect" : "edge";
    return e.give(e.node("Pad", {e.in(0), e.ints(pads)}, {{"mode", mode}}));
  }
  e.give(e.node("Pad", {e.in(0), e.ints(pads), e.said("value")}));
}

// ---- Creation and indexing ---------------------------------------------------------------------

void full(Emitter& e) { e.give(e.node("Expand", {e.said("value"), e.shape(e.result().shape)})); }

/// Ones on a diagonal and on one side of it.
void triangle(Emitter& e) {
  const std::string ones = e.node("Expand", {e.number(1, DType::i64), e.shape(e.result().shape)});
  const std::string side = e.scalar("diagonal");
  e.give_bool(e.cast(e.node("Trilu", {ones, side}, {{"upper", e.number("upper")}}), kBool));
}

/// A range that runs backwards or begins below 0 is written as -(-start, ...): onnxruntime 1.32
/// turns Gather at a Range into a Slice, where the end -1 means the last element.
void arange(Emitter& e) {
  const Size &start = e.sizes("start").at(0), &step = e.sizes("step").at(0);
  auto is_negative = [](int64_t n) { return n < 0; };
  const bool turned =
      std::ranges::any_of(start, is_negative) || std::ranges::any_of(step, is_negative);
  auto bound = [&](const char* property) {
    const std::string n = e.scalar(property);
    return turned ? e.node("Neg", {n}) : n;
  };
  std::string y = e.node("Range", {bound("start"), bound("end"), bound("step")});
  if (turned) y = e.node("Neg", {y});
  const DType type = e.result().dtype;
  e.give(type == DType::i64 ? y : e.cast(y, type_number(type)));
}

void gather(Emitter& e) {
  e.give(e.node(e.onnx(), {e.in(0), e.cast(e.tensor("index"), type_number(DType::i64))},
                {{"axis", e.number("axis")}}));
}

void scatter(Emitter& e) {
  std::string reduction = e.onnx();
  if (e.says("largest")) {
    reduction = e.number("largest") ? "max" : "min";
    if (e.opset() < 18) e.refuse("the largest and the smallest of elements need opset 23");
  }
  e.give(e.node("ScatterElements", {e.in(0), e.tensor("index"), e.tensor("source")},
                {{"axis", e.number("axis")}, {"reduction", reduction}}));
}

void one_hot(Emitter& e) {
  const int64_t classes = e.number("classes");
  Ints all;
  for (int64_t i = 0; i < classes; ++i) all.push_back(i);
  const std::string index = e.node("Unsqueeze", {e.tensor("index"), e.ints({-1})});
  e.give_bool(e.node("Equal", {index, e.ints(all)}));
}

}  // namespace tern::onnx

// Forms of ops on shapes, of new tensors, and of reading and writing at indices.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tern/onnx/forms.h"

namespace tern::onnx {
namespace {

constexpr int64_t kEnd = std::numeric_limits<int64_t>::max();

/// Where a slice ends in ONNX: open if no further element would fit in any run.
Size end_of(const Size& whole, const Size& start, const Size& length, int64_t step) {
  Size end = start;
  bool open = true;
  for (size_t run = 0; run < end.size(); ++run) {
    const int64_t next = start[run] + length[run] * step;
    open &= step > 0 ? next >= whole[run] : next < 0;
    end[run] = next - step + (step > 0 ? 1 : -1);  // just behind the last element
  }
  if (open) return Size(end.size(), step > 0 ? kEnd : -kEnd);
  return end;
}

}  // namespace

void reshape(Emitter& e) { e.give(e.reshaped(e.in(0), e.input(0).shape, e.result().shape)); }

void permute(Emitter& e) { e.give(e.node("Transpose", {e.in(0)}, {{"perm", e.numbers("axes")}})); }

void transpose(Emitter& e) {
  Ints order;
  for (int i = 0; i < static_cast<int>(e.input(0).shape.size()); ++i) order.push_back(i);
  const Ints axes = e.numbers("axes");
  std::swap(order[static_cast<size_t>(axes[0])], order[static_cast<size_t>(axes[1])]);
  e.give(e.node("Transpose", {e.in(0)}, {{"perm", order}}));
}

void expand(Emitter& e) { e.give(e.node("Expand", {e.in(0), e.shape(e.result().shape)})); }

void slice(Emitter& e) {
  const Ints axes = e.numbers("axis"), steps = e.numbers("step"), drops = e.numbers("drops");
  const std::vector<Size>&starts = e.sizes("start"), &lengths = e.sizes("length");
  std::vector<Size> ends;
  for (size_t i = 0; i < axes.size(); ++i)
    ends.push_back(
        end_of(e.input(0).shape[static_cast<size_t>(axes[i])], starts[i], lengths[i], steps[i]));
  for (const Size& end : ends)
    if (*std::min_element(end.begin(), end.end()) == -1)
      e.refuse("it reaches the first element backwards in one example and not in another");
  std::string y =
      e.node("Slice", {e.in(0), e.shape(starts), e.shape(ends), e.ints(axes), e.ints(steps)});
  Ints dropped;
  for (size_t i = 0; i < axes.size(); ++i)
    if (drops[i]) dropped.push_back(axes[i]);
  e.give(dropped.empty() ? y : e.node("Squeeze", {y, e.ints(dropped)}));
  for (size_t i = 0; i < axes.size(); ++i) {
    auto before = [&](int64_t axis) { return axis < axes[i]; };
    if (std::abs(steps[i]) > 1 && !drops[i])
      e.name_size(
          static_cast<int>(axes[i] - std::count_if(dropped.begin(), dropped.end(), before)));
  }
}

void flip(Emitter& e) {
  const Ints axes = e.numbers("axes"), back(axes.size(), -1), first(axes.size(), -kEnd);
  e.give(e.node("Slice", {e.in(0), e.ints(back), e.ints(first), e.ints(axes), e.ints(back)}));
}

/// The last elements of each axis come first.
void roll(Emitter& e) {
  const std::vector<Size>& shifts = e.sizes("shifts");
  std::string x = e.in(0);
  for (size_t axis = 0; axis < shifts.size(); ++axis) {
    Size first_place = e.input(0).shape[axis], from_end = shifts[axis];
    for (size_t run = 0; run < from_end.size(); ++run) {
      first_place[run] -= from_end[run];  // of the element that comes first
      from_end[run] *= -1;
    }
    if (from_end == Size(from_end.size(), 0)) continue;
    const std::string cut = e.size(is_fixed(from_end) ? from_end : first_place);
    const std::string along = e.ints({static_cast<int64_t>(axis)});
    const std::string last = e.node("Slice", {x, cut, e.ints({kEnd}), along});
    const std::string first = e.node("Slice", {x, e.ints({0}), cut, along});
    x = e.node("Concat", {last, first}, {{"axis", static_cast<int64_t>(axis)}});
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

void arange(Emitter& e) {
  const std::string y = e.node("Range", {e.scalar("start"), e.scalar("end"), e.scalar("step")});
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

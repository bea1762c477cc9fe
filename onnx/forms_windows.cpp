// Forms of convolutions, pooling, and windows as columns.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "tern/core/ops/ops.h"
#include "tern/onnx/forms.h"

namespace tern::onnx {
namespace {

/// The number of elements that a window spans along each axis.
Ints spans(Emitter& e) {
  Ints kernel = e.numbers("kernel");
  const Ints dilation = e.numbers("dilation");
  for (size_t i = 0; i < kernel.size(); ++i) kernel[i] = dilation[i] * (kernel[i] - 1) + 1;
  return kernel;
}

/// The padding behind each axis. In ceil_mode it is so long that ONNX, which rounds the number of
/// windows down, counts those that end behind tern's padding, but none that begins there.
Ints padding_behind(Emitter& e) {
  Ints padding = e.numbers("padding");
  if (!e.number("ceil_mode")) return padding;
  const Ints stride = e.numbers("stride"), span = spans(e);
  for (size_t i = 0; i < padding.size(); ++i)
    padding[i] = std::min(padding[i] + stride[i] - 1, span[i] - 1);
  return padding;
}

/// The attributes of all ops with windows, and more.
std::vector<Attribute> windows(Emitter& e, const Ints& behind,
                               const std::vector<Attribute>& more = {}) {
  Ints both = e.numbers("padding");
  both.insert(both.end(), behind.begin(), behind.end());
  std::vector<Attribute> all = {
      {"strides", e.numbers("stride")}, {"pads", both}, {"dilations", e.numbers("dilation")}};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}
std::vector<Attribute> windows(Emitter& e, const std::vector<Attribute>& more = {}) {
  return windows(e, e.numbers("padding"), more);
}

void name_sizes(Emitter& e) {
  const Ints stride = e.numbers("stride");
  for (size_t i = 0; i < stride.size(); ++i) {
    check_differs(e, i + 2, e.input(0).shape[i + 2]);
    if (stride[i] != 1) e.name_size(static_cast<int>(i) + 2);
  }
}

/// Average pooling in ceil_mode: how many elements the last window counts depends on the size.
void check_averages(Emitter& e) {
  const Ints stride = e.numbers("stride");
  for (size_t i = 0; i < stride.size(); ++i)
    if (const Size& size = e.input(0).shape[i + 2];
        e.number("ceil_mode") && stride[i] != 1 && !is_fixed(size))
      e.refuse(fmt::format(
          "average pooling with ceil_mode needs an axis {} of one size in all examples, "
          "got {}",
          i + 2, fmt::join(size, ", ")));
}

/// The elements that the result of a transposed convolution has beyond its last window, for that
/// many windows.
Ints output_padding(Emitter& e, const std::vector<Size>& counts) {
  const Ints stride = e.numbers("stride"), padding = e.numbers("padding"),
             dilation = e.numbers("dilation"), kernel = e.numbers("kernel");
  Ints added;
  for (size_t i = 0; i < stride.size(); ++i) {
    Size each = e.result().shape[i + 2];
    for (size_t run = 0; run < each.size(); ++run)
      each[run] -=
          (counts[i][run] - 1) * stride[i] - 2 * padding[i] + dilation[i] * (kernel[i] - 1) + 1;
    if (!is_fixed(each)) e.refuse("its last window ends elsewhere in some of the examples");
    added.push_back(each[0]);
  }
  return added;
}

/// Weights (channels * taps, 1, kernel...) of a convolution of each channel whose outputs are the
/// single elements of a window.
std::string selection(Emitter& e, const Size& channels) {
  Shape shape = {1, 1}, counts = {channels[0], 1};
  for (int64_t n : e.numbers("kernel")) {
    shape[0] *= n;
    shape.push_back(n);
    counts.push_back(1);
  }
  const Tensor ones = eye(shape[0], shape[0], e.result().dtype);
  return e.constant(repeat(reshape(ones, shape), counts));
}

/// unfold(x, axis, size, step): reads x at start + offset, (windows, size), along the axis.
void unfold_axis(Emitter& e) {
  const int64_t axis = e.number("axis"), size = e.number("size"), step = e.number("step");
  const Size &whole = e.input(0).shape[static_cast<size_t>(axis)],
             &count = e.result().shape[static_cast<size_t>(axis)];
  check_differs(e, static_cast<size_t>(axis), whole);
  Ints offsets(static_cast<size_t>(size));
  std::iota(offsets.begin(), offsets.end(), 0);
  std::string starts;
  if (is_fixed(whole)) {
    Ints all;
    for (int64_t i = 0; i < count[0]; ++i) all.push_back(i * step);
    starts = e.ints(all);
  } else {
    const std::string end = e.node("Add", {e.size(whole), e.ints({1 - size})});
    starts = e.node("Range", {e.number(0, DType::i64), e.node("Squeeze", {end, e.ints({0})}),
                              e.number(static_cast<double>(step), DType::i64)});
  }
  const std::string at =
      e.node("Add", {e.node("Unsqueeze", {starts, e.ints({1})}), e.ints(offsets)});
  const std::string y = e.node("Gather", {e.in(0), at}, {{"axis", axis}});
  Ints order(e.result().shape.size());  // the windows' axis is the last
  std::iota(order.begin(), order.end(), 0);
  std::rotate(order.begin() + axis + 1, order.begin() + axis + 2, order.end());
  e.give(e.node("Transpose", {y}, {{"perm", order}}));
  if (step != 1) e.name_size(static_cast<int>(axis));
}

}  // namespace

void check_differs(Emitter& e, size_t axis, const Size& from) {
  const Size& to = e.result().shape[axis];
  if (is_fixed(to) && !is_fixed(from))
    e.refuse(
        fmt::format("its axis {} has the size {} for the sizes {}; give examples that differ more",
                    axis, to[0], fmt::join(from, ", ")));
}

/// Also average pooling, whose sums it computes.
void conv(Emitter& e) {
  check_averages(e);
  Names in = {e.in(0), e.in(1)};
  if (e.has(2)) in.push_back(e.in(2));
  e.give(e.node("Conv", in, windows(e, padding_behind(e), {{"group", e.number("groups")}})));
  name_sizes(e);
}

void conv_transpose(Emitter& e) {
  const std::vector<Size>& shape = e.input(0).shape;
  const Ints added = output_padding(e, {shape.begin() + 2, shape.end()});
  e.give(e.node("ConvTranspose", {e.in(0), e.in(1)},
                windows(e, {{"group", e.number("groups")}, {"output_padding", added}})));
}

/// ONNX's ceil_mode counts windows that begin behind the elements. Padding takes its place only
/// where there can be such windows. onnxruntime wants less padding than the kernel, without its
/// dilation: the rest is a Pad of its own.
void max_pool(Emitter& e) {
  const Ints stride = e.numbers("stride"), padding = e.numbers("padding"), span = spans(e),
             kernel = e.numbers("kernel");
  int64_t ceil_mode = e.number("ceil_mode");
  for (size_t i = 0; i < stride.size(); ++i)
    if (stride[i] > span[i] - padding[i]) ceil_mode = 0;
  Ints behind = ceil_mode ? padding : padding_behind(e);
  Ints rest(2 * e.input(0).shape.size(), 0);
  for (size_t i = 0; i < behind.size(); ++i) {
    const int64_t most = std::min(behind[i], kernel[i] - 1);
    rest[rest.size() - behind.size() + i] = behind[i] - most;
    behind[i] = most;
  }
  std::string x = e.in(0);
  if (std::ranges::any_of(rest, [](int64_t n) { return n != 0; }))
    x = e.node("Pad", {x, e.ints(rest), e.number(-std::numeric_limits<double>::infinity())});
  e.give(e.node("MaxPool", {x},
                windows(e, behind, {{"kernel_shape", kernel}, {"ceil_mode", ceil_mode}})));
  name_sizes(e);
}

/// Sizes that divide those of the input give windows of one size, side by side.
void adaptive_max_pool(Emitter& e) {
  const Ints sizes = e.numbers("sizes");
  if (std::ranges::all_of(sizes, [](int64_t n) { return n == 1; }))
    return e.give(e.node("GlobalMaxPool", {e.in(0)}));
  Ints kernel;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const Size& from = e.input(0).shape[i + 2];
    if (!is_fixed(from) || from[0] % sizes[i] != 0)
      e.refuse(fmt::format("the size {} can be exported only if it divides the input's, {}",
                           sizes[i], fmt::join(from, ", ")));
    kernel.push_back(from[0] / sizes[i]);
  }
  e.give(e.node("MaxPool", {e.in(0)}, {{"kernel_shape", kernel}, {"strides", kernel}}));
}

/// unfold(x, {.kernel = ...}), as a convolution of each channel that moves the elements of a window
/// to channels of their own.
void unfold(Emitter& e) {
  if (e.says("axis")) return unfold_axis(e);
  const std::string y = e.node("Conv", {e.in(0), selection(e, e.input(0).shape[1])},
                               windows(e, {{"group", e.input(0).shape[1][0]}}));
  e.give(e.node("Reshape", {y, e.ints({0, 0, -1})}));
  check_differs(e, 2, e.input(0).shape[2]);
  check_differs(e, 2, e.input(0).shape[3]);
  e.name_size(2);
}

void fold(Emitter& e) {
  const std::vector<Size>&from = e.input(0).shape, &to = e.result().shape;
  if (e.opset() >= 18)
    return e.give(e.node(
        "Col2Im", {e.in(0), e.shape({to.begin() + 2, to.end()}), e.ints(e.numbers("kernel"))},
        windows(e)));
  // Sizes that have the same number of windows differ only here, and ConvTranspose takes no size.
  const Ints stride = e.numbers("stride");
  for (size_t i = 0; i < stride.size(); ++i)
    if (stride[i] != 1 && !is_fixed(to[i + 2]))
      e.refuse(fmt::format("the size {} in the examples behind a stride of {} needs opset 23",
                           fmt::join(to[i + 2], ", "), stride[i]));
  std::vector<Size> apart = {from[0], from[1]};
  for (const Size& each : e.sizes("windows")) apart.push_back(each);
  const Ints added = output_padding(e, e.sizes("windows"));
  e.give(e.node("ConvTranspose", {e.reshaped(e.in(0), from, apart), selection(e, to[1])},
                windows(e, {{"group", to[1][0]}, {"output_padding", added}})));
}

}  // namespace tern::onnx

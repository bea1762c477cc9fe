// Forms of convolutions, pooling, and windows as columns.
#include <fmt/format.h>

#include <algorithm>

#include "tern/onnx/forms.h"

namespace tern::onnx {
namespace {

std::vector<Attribute> windows(Emitter& e) {
  const Ints padding = e.numbers("padding");
  Ints both = padding;
  both.insert(both.end(), padding.begin(), padding.end());
  return {{"strides", e.numbers("stride")}, {"pads", both}, {"dilations", e.numbers("dilation")}};
}

/// Behind a stride a size is rounded, and may be the same in all examples by chance.
void name_sizes(Emitter& e) {
  const Ints stride = e.numbers("stride");
  for (size_t i = 0; i < stride.size(); ++i) {
    const Size &from = e.input(0).shape[i + 2], &to = e.result().shape[i + 2];
    if (is_fixed(to) && !is_fixed(from))
      e.refuse(
          fmt::format("its axis {} has the size {} for the sizes {}; give examples that differ "
                      "more",
                      i + 2, to[0], fmt::join(from, ", ")));
    if (stride[i] != 1) e.name_size(static_cast<int>(i) + 2);
  }
}

}  // namespace

void conv(Emitter& e) {
  std::vector<Attribute> attributes = windows(e);
  attributes.push_back({"group", e.number("groups")});
  Names in = {e.in(0), e.in(1)};
  if (e.has(2)) in.push_back(e.in(2));
  e.give(e.node("Conv", in, attributes));
  name_sizes(e);
}

void conv_transpose(Emitter& e) {
  const Ints stride = e.numbers("stride"), padding = e.numbers("padding"),
             dilation = e.numbers("dilation"), kernel = e.numbers("kernel");
  Ints added;  // output_padding, the same for all sizes
  for (size_t i = 0; i < stride.size(); ++i) {
    const int64_t in = e.input(0).shape[i + 2][0], out = e.result().shape[i + 2][0];
    added.push_back(out - (in - 1) * stride[i] + 2 * padding[i] - dilation[i] * (kernel[i] - 1) -
                    1);
  }
  std::vector<Attribute> attributes = windows(e);
  attributes.push_back({"group", e.number("groups")});
  attributes.push_back({"output_padding", added});
  e.give(e.node("ConvTranspose", {e.in(0), e.in(1)}, attributes));
}

void max_pool(Emitter& e) {
  std::vector<Attribute> attributes = windows(e);
  attributes.push_back({"kernel_shape", e.numbers("kernel")});
  attributes.push_back({"ceil_mode", e.number("ceil_mode")});
  e.give(e.node("MaxPool", {e.in(0)}, attributes));
  name_sizes(e);
}

void adaptive_max_pool(Emitter& e) {
  const Ints sizes = e.numbers("sizes");
  if (sizes != Ints(sizes.size(), 1))
    e.refuse(fmt::format("only the size 1 can be exported, not {}", fmt::join(sizes, ", ")));
  e.give(e.node("GlobalMaxPool", {e.in(0)}));
}

}  // namespace tern::onnx

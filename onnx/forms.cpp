// The table of forms: how each op of tern is written in ONNX. To add an op, add a row. An op says
// what its inputs do not say by OpScope::note(), and the form reads that by name.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tern/onnx/emitter.h"

namespace tern::onnx {
namespace {

using Ints = std::vector<int64_t>;
using Names = std::vector<std::string>;

constexpr int64_t kEnd = std::numeric_limits<int64_t>::max();

// ---- Forms of many ops -------------------------------------------------------------------------

/// The op of ONNX with the same inputs, in the result's type.
void direct(Emitter& e) {
  Names in;
  for (int i = 0; i < e.inputs(); ++i) in.push_back(e.in(i, e.result().dtype));
  e.give(e.node(e.onnx(), in));
}

void compare(Emitter& e) {
  const DType a = e.input(0).dtype, b = e.input(1).dtype;
  const DType type = a == b || is_float(a) ? a : is_float(b) ? b : DType::i64;
  e.give_bool(e.node(e.onnx(), {e.in(0, type), e.in(1, type)}));
}

void logic(Emitter& e) {
  Names in;
  for (int i = 0; i < e.inputs(); ++i) in.push_back(e.bool_in(i));
  e.give_bool(e.node(e.onnx(), in));
}

void test(Emitter& e) { e.give_bool(e.node(e.onnx(), {e.in(0)})); }

/// Axes are an input since opset 18, and of ReduceSum since 13.
std::string reduced(Emitter& e, const std::string& op, const std::string& x) {
  const Ints axes = e.numbers("axes");
  const Attribute keeps{"keepdims", e.number("keepdim")};
  if (axes.empty()) return x;
  if (e.opset() >= 18 || op == "ReduceSum") return e.node(op, {x, e.ints(axes)}, {keeps});
  return e.node(op, {x}, {{"axes", axes}, keeps});
}

void reduce(Emitter& e) { e.give(reduced(e, e.onnx(), e.x())); }

/// A product with leading axes broadcast, then summed to those of the result, as einsum needs.
void matmul(Emitter& e) {
  const DType type = e.result().dtype;
  std::string y = e.node("MatMul", {e.in(0, type), e.in(1, type)});
  const std::vector<Size>&a = e.input(0).shape, &b = e.input(1).shape, &c = e.result().shape;
  const auto axes = std::max(std::ssize(a), std::ssize(b)), missing = axes - std::ssize(c);
  auto is_one = [](const std::vector<Size>& shape, int64_t from_end) {
    const int64_t at = std::ssize(shape) - from_end;
    return at < 0 ||
           (is_fixed(shape[static_cast<size_t>(at)]) && shape[static_cast<size_t>(at)][0] == 1);
  };
  Ints summed, dropped;
  for (int64_t axis = 0; axis + 2 < axes; ++axis) {
    const int64_t from_end = axes - axis;
    if (axis < missing) dropped.push_back(axis);
    if (is_one(c, from_end) && !(is_one(a, from_end) && is_one(b, from_end)))
      summed.push_back(axis);
  }
  if (!summed.empty()) y = e.node("ReduceSum", {y, e.ints(summed)}, {{"keepdims", int64_t{1}}});
  e.give(dropped.empty() ? y : e.node("Squeeze", {y, e.ints(dropped)}));
}

/// Layers that compute differently in training.
void for_training(Emitter& e) {
  e.refuse("it is in training; export in evaluation mode, nn::set_training(model, false)");
}

// ---- Elementwise -------------------------------------------------------------------------------

void gelu(Emitter& e) {
  if (e.opset() >= 20) {
    const char* approximation = e.number("tanh") ? "tanh" : "none";
    return e.give(e.node("Gelu", {e.x()}, {{"approximate", std::string(approximation)}}));
  }
  const std::string x = e.x(), one = e.number(1), half = e.number(0.5);
  std::string inner;
  if (e.number("tanh")) {
    const std::string cube = e.node("Mul", {e.node("Mul", {x, x}), x});
    const std::string sum = e.node("Add", {x, e.node("Mul", {cube, e.number(0.044715)})});
    inner = e.node("Tanh", {e.node("Mul", {sum, e.number(0.79788456080286535588)})});
  } else {
    inner = e.node("Erf", {e.node("Div", {x, e.number(std::sqrt(2.0))})});
  }
  e.give(e.node("Mul", {e.node("Mul", {x, e.node("Add", {inner, one})}), half}));
}

void clip(Emitter& e) {
  const std::string x = e.x();
  const double low = e.real("low"), high = e.real("high");
  e.give(e.node("Clip",
                {x, std::isinf(low) ? "" : e.number(low), std::isinf(high) ? "" : e.number(high)}));
}

void where(Emitter& e) {
  const DType type = e.result().dtype;
  e.give(e.node("Where", {e.bool_tensor("condition"), e.in(0, type), e.in(1, type)}));
}

// ---- Shapes ------------------------------------------------------------------------------------

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
  const Ints shifts = e.numbers("shifts");
  std::string x = e.in(0);
  for (int64_t axis = 0; axis < std::ssize(shifts); ++axis) {
    if (shifts[static_cast<size_t>(axis)] == 0) continue;
    const std::string cut = e.ints({-shifts[static_cast<size_t>(axis)]}), along = e.ints({axis});
    const std::string last = e.node("Slice", {x, cut, e.ints({kEnd}), along});
    const std::string first = e.node("Slice", {x, e.ints({0}), cut, along});
    x = e.node("Concat", {last, first}, {{"axis", axis}});
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
  e.give(e.node("Pad", {e.in(0), e.ints(pads), e.number(e.real("value"))}));
}

// ---- Creation and indexing ---------------------------------------------------------------------

void full(Emitter& e) {
  e.give(e.node("Expand", {e.number(e.real("value")), e.shape(e.result().shape)}));
}

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

void cast(Emitter& e) { e.give(e.x()); }

void gather(Emitter& e) {
  e.give(e.node(e.onnx(), {e.in(0), e.cast(e.tensor("index"), type_number(DType::i64))},
                {{"axis", e.number("axis")}}));
}

void one_hot(Emitter& e) {
  const int64_t classes = e.number("classes");
  Ints all;
  for (int64_t i = 0; i < classes; ++i) all.push_back(i);
  const std::string index = e.node("Unsqueeze", {e.tensor("index"), e.ints({-1})});
  e.give_bool(e.node("Equal", {index, e.ints(all)}));
}

// ---- Reductions --------------------------------------------------------------------------------

/// The largest element, or its place along an axis.
void best(Emitter& e) {
  const std::string op = e.onnx();
  if (e.says("axes")) return e.give(reduced(e, "Reduce" + op, e.in(0)));
  e.give(e.node("Arg" + op, {e.in(0)}, {{"axis", e.number("axis")}, {"keepdims", int64_t{0}}}));
}

void norm(Emitter& e) {
  const double p = e.real("p");
  if (p != 1 && p != 2) e.refuse(fmt::format("only p = 1 and 2 can be exported, not {}", p));
  e.give(reduced(e, p == 1 ? "ReduceL1" : "ReduceL2", e.in(0)));
}

/// The first elements in order and their places.
void first_in_order(Emitter& e) {
  const Size& count = e.sizes("count").at(0);
  const Names y = e.nodes("TopK", {e.in(0), e.size(count)},
                          {{"axis", e.number("axis")}, {"largest", e.number("descending")}}, 2);
  e.give(y[0]);
  e.give(y[1], 1);
}

void cumsum(Emitter& e) { e.give(e.node("CumSum", {e.x(), e.scalar("axis")})); }

// ---- Normalisation -----------------------------------------------------------------------------

/// The mask hides elements: softmax of -inf there, and then 0 (-inf for the logarithm), since a row
/// without an element would give NaN.
void softmax(Emitter& e) {
  const bool masked = e.has_tensor("mask"), logarithm = std::string_view(e.onnx()) == "LogSoftmax";
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const std::string mask = masked ? e.bool_tensor("mask") : "";
  std::string x = e.in(0);
  if (masked) x = e.node("Where", {mask, x, e.number(-kInf)});
  x = e.node(e.onnx(), {x}, {{"axis", int64_t{-1}}});
  if (masked) x = e.node("Where", {mask, x, e.number(logarithm ? -kInf : 0)});
  e.give(x);
}

/// The weight of a norm over the last axes, or ones.
std::string norm_weight(Emitter& e) {
  const std::vector<Size>& shape = e.input(0).shape;
  if (e.has(1)) return e.in(1);
  return e.node("Expand", {e.number(1), e.shape({shape.end() - e.number("axes"), shape.end()})});
}

void layer_norm(Emitter& e) {
  Names in = {e.in(0), norm_weight(e)};
  if (e.has(2)) in.push_back(e.in(2));
  e.give(
      e.node("LayerNormalization", in, {{"axis", -e.number("axes")}, {"epsilon", e.real("eps")}}));
}

void rms_norm(Emitter& e) {
  e.give(e.node("RMSNormalization", {e.in(0), norm_weight(e)},
                {{"axis", -e.number("axes")}, {"epsilon", e.real("eps")}}));
}

void batch_norm(Emitter& e) {
  if (!e.says("eps")) return for_training(e);
  e.give(e.node(
      "BatchNormalization",
      {e.in(0), e.tensor("scale"), e.tensor("shift"), e.tensor("mean"), e.tensor("variance")},
      {{"epsilon", e.real("eps")}}));
}

// ---- Attention and recurrent layers ------------------------------------------------------------

/// A query that sees no key gives zeros in tern, and in ONNX NaN or a mean.
void attention(Emitter& e) {
  Names in = {e.in(0), e.in(1), e.in(2)};
  const bool masked = e.has_tensor("mask");
  const std::string mask = masked ? e.bool_tensor("mask") : "";
  // onnxruntime does not broadcast the mask's last two axes.
  if (masked)
    in.push_back(e.node("Expand", {mask, e.shape({e.input(0).shape[2], e.input(1).shape[2]})}));
  std::string y = e.node("Attention", in, {{"scale", e.real("scale")}});
  if (masked) {
    const std::string seen = e.cast(mask, type_number(DType::u8));
    const std::string any = e.node("ReduceMax", {seen, e.ints({-1})}, {{"keepdims", int64_t{1}}});
    y = e.node("Where", {e.cast(any, kBool), y, e.number(0)});
  }
  e.give(y);
}

/// A layer in one direction. In ONNX there is an axis of directions, and the gates are in another
/// order.
void rnn(Emitter& e) {
  struct Kind {
    const char* op;
    Ints gates;
    std::vector<Attribute> attributes;
  };
  const Kind kinds[] = {{"RNN", {0}, {}},
                        {"RNN", {0}, {{"activations", Names{"Relu"}}}},
                        {"GRU", {1, 0, 2}, {{"linear_before_reset", int64_t{1}}}},
                        {"LSTM", {0, 3, 1, 2}, {}}};
  const Kind& kind = kinds[e.number("kind")];
  const int64_t units = e.input(2).shape[1][0];
  auto weight = [&](int i) {  // (1, gates * units, ...)
    const std::string parts =
        e.node("Reshape", {e.in(i), e.ints({std::ssize(kind.gates), units, -1})});
    const std::string sorted =
        e.node("Gather", {parts, e.ints(kind.gates)}, {{"axis", int64_t{0}}});
    const bool matrix = e.input(i).shape.size() == 2;
    return e.node("Reshape", {sorted, matrix ? e.ints({1, std::ssize(kind.gates) * units, -1})
                                             : e.ints({1, -1})});
  };
  auto state = [&](int i) {
    return e.has(i) ? e.node("Unsqueeze", {e.in(i), e.ints({0})}) : std::string();
  };
  std::string bias, lengths;
  if (e.has(3)) bias = e.node("Concat", {weight(3), weight(4)}, {{"axis", int64_t{1}}});
  if (e.has_tensor("lengths")) lengths = e.cast(e.tensor("lengths"), kInt32);
  Names in = {e.in(0), weight(1), weight(2), bias, lengths, state(5)};
  const bool lstm = kind.op == std::string_view("LSTM");
  if (lstm) in.push_back(state(6));
  std::vector<Attribute> attributes = kind.attributes;
  attributes.push_back({"hidden_size", units});
  attributes.push_back({"direction", std::string(e.number("reverse") ? "reverse" : "forward")});
  const Names y = e.nodes(kind.op, in, attributes, lstm ? 3 : 2);
  e.give(e.node("Squeeze", {y[0], e.ints({1})}));
  for (int i = 1; i < (lstm ? 3 : 2); ++i)
    e.give(e.node("Squeeze", {y[static_cast<size_t>(i)], e.ints({0})}), i);
}

// ---- Convolutions ------------------------------------------------------------------------------

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

// ---- The table ---------------------------------------------------------------------------------

/// An op of ONNX with attributes that are numbers.
template <class... Pairs>
std::string with(Emitter& e, const char* op, Pairs... attributes) {
  return e.node(op, {e.x()}, {attributes...});
}
using A = Attribute;

std::string sigmoid(Emitter& e, const std::string& x) { return e.node("Sigmoid", {x}); }
std::string times(Emitter& e, const std::string& x, const std::string& y) {
  return e.node("Mul", {x, y});
}

// clang-format off
const Form kForms[] = {
    // arithmetic
    {"add", direct, "Add"}, {"sub", direct, "Sub"}, {"mul", direct, "Mul"}, {"div", direct, "Div"},
    {"neg", direct, "Neg"}, {"abs", direct, "Abs"}, {"sign", direct, "Sign"},
    {"minimum", direct, "Min"}, {"maximum", direct, "Max"}, {"matmul", matmul},
    {"square", [](Emitter& e) { e.give(times(e, e.x(), e.x())); }},
    {"pow", [](Emitter& e) {
       if (e.inputs() == 2) return direct(e);
       e.give(e.node("Pow", {e.x(), e.number(e.real("exponent"))}));
     }, "Pow"},
    // functions of one number
    {"exp", direct, "Exp"}, {"log", direct, "Log"}, {"sqrt", direct, "Sqrt"},
    {"sin", direct, "Sin"}, {"cos", direct, "Cos"}, {"tan", direct, "Tan"}, {"erf", direct, "Erf"},
    {"tanh", direct, "Tanh"}, {"floor", direct, "Floor"}, {"ceil", direct, "Ceil"},
    {"round", direct, "Round"}, {"reciprocal", direct, "Reciprocal"},
    {"rsqrt", [](Emitter& e) { e.give(e.node("Reciprocal", {with(e, "Sqrt")})); }},
    {"clamp", clip}, {"hardtanh", clip}, {"relu6", clip},
    // activations
    {"relu", direct, "Relu"}, {"sigmoid", direct, "Sigmoid"}, {"softplus", direct, "Softplus"},
    {"softsign", direct, "Softsign"}, {"hardswish", direct, "HardSwish"}, {"gelu", gelu},
    {"prelu", direct, "PRelu"},
    {"silu", [](Emitter& e) { e.give(times(e, e.x(), sigmoid(e, e.x()))); }},
    {"glu", [](Emitter& e) { e.give(times(e, e.in(0), sigmoid(e, e.in(1)))); }},
    {"mish", [](Emitter& e) {
       e.give(times(e, e.x(), e.node("Tanh", {e.node("Softplus", {e.x()})})));
     }},
    {"log_sigmoid", [](Emitter& e) {
       e.give(e.node("Neg", {e.node("Softplus", {e.node("Neg", {e.x()})})}));
     }},
    {"leaky_relu", [](Emitter& e) { e.give(with(e, "LeakyRelu", A{"alpha", e.real("slope")})); }},
    {"elu", [](Emitter& e) { e.give(with(e, "Elu", A{"alpha", e.real("alpha")})); }},
    {"celu", [](Emitter& e) { e.give(with(e, "Celu", A{"alpha", e.real("alpha")})); }},
    {"selu", [](Emitter& e) {
       e.give(with(e, "Selu", A{"alpha", e.real("alpha")}, A{"gamma", e.real("scale")}));
     }},
    {"hardsigmoid", [](Emitter& e) {
       e.give(with(e, "HardSigmoid", A{"alpha", 1.0 / 6}, A{"beta", 0.5}));
     }},
    // comparisons and logic
    {"eq", compare, "Equal"}, {"lt", compare, "Less"}, {"le", compare, "LessOrEqual"},
    {"gt", compare, "Greater"}, {"ge", compare, "GreaterOrEqual"},
    {"ne", [](Emitter& e) {
       compare(e);
       e.negate();
     }, "Equal"},
    {"logical_and", logic, "And"}, {"logical_or", logic, "Or"}, {"logical_xor", logic, "Xor"},
    {"logical_not", logic, "Not"}, {"isnan", test, "IsNaN"}, {"isinf", test, "IsInf"},
    {"truth", [](Emitter& e) { e.give_bool(e.bool_in(0)); }},
    {"where", where},
    // shapes
    {"view", reshape}, {"reshape", reshape}, {"squeeze", reshape}, {"unsqueeze", reshape},
    {"permute", permute}, {"transpose", transpose}, {"expand", expand}, {"slice", slice},
    {"select", slice}, {"flip", flip}, {"roll", roll}, {"cat", cat}, {"stack", stack}, {"pad", pad},
    {"clone", nullptr}, {"cast", cast},
    // new tensors; those without a form only if they are the same in all examples
    {"full", full}, {"triangle", triangle}, {"arange", arange}, {"one_hot", one_hot},
    {"tensor", nullptr}, {"scalar", nullptr}, {"linspace", nullptr}, {"eye", nullptr},
    {"diagonal", nullptr}, {"unfold", nullptr}, {"floor_divide", nullptr}, {"remainder", nullptr},
    // indexing
    {"embedding", gather, "Gather"}, {"index_select", gather, "Gather"},
    {"gather", gather, "GatherElements"},
    {"argmax", best, "Max"}, {"argmin", best, "Min"},
    // reductions
    {"sum", reduce, "ReduceSum"}, {"mean", reduce, "ReduceMean"}, {"amax", reduce, "ReduceMax"},
    {"amin", reduce, "ReduceMin"}, {"max", best, "Max"}, {"min", best, "Min"},
    {"logsumexp", reduce, "ReduceLogSumExp"}, {"norm", norm}, {"cumsum", cumsum},
    {"sort", first_in_order}, {"topk", first_in_order},
    // normalisation
    {"softmax", softmax, "Softmax"}, {"log_softmax", softmax, "LogSoftmax"},
    {"layer_norm", layer_norm}, {"group_norm", layer_norm}, {"batch_norm", batch_norm},
    {"rms_norm", rms_norm, "", 23}, {"dropout", for_training},
    // sequences
    {"attention", attention, "", 23}, {"rnn_states", rnn},
    // windows
    {"conv1d", conv}, {"conv2d", conv}, {"conv3d", conv}, {"conv1d_input_grad", conv_transpose},
    {"conv2d_input_grad", conv_transpose}, {"conv3d_input_grad", conv_transpose},
    {"max_pool1d", max_pool}, {"max_pool2d", max_pool}, {"max_pool3d", max_pool},
    {"adaptive_max_pool1d", adaptive_max_pool}, {"adaptive_max_pool2d", adaptive_max_pool},
    {"adaptive_max_pool3d", adaptive_max_pool},
};
// clang-format on

}  // namespace

const Form* find_form(std::string_view op, int opset) {
  const Form* found = std::find_if(std::begin(kForms), std::end(kForms),
                                   [&](const Form& f) { return f.op == op && f.since <= opset; });
  return found == std::end(kForms) ? nullptr : found;
}

}  // namespace tern::onnx

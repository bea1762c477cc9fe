// The table of forms: how each op of tern is written in ONNX. To add an op, add a row. An op says
// what its inputs do not say by OpScope::note(), and the form reads that by name.
#include "tern/onnx/forms.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace tern::onnx {
namespace {

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

/// The first input as a floating number.
std::string real(Emitter& e) {
  const DType type = e.input(0).dtype;
  return e.in(0, is_float(type) ? type : DType::f32);
}

void test(Emitter& e) { e.give_bool(e.node(e.onnx(), {real(e)})); }

/// Axes are an input since opset 18, and of ReduceSum since 13.
std::string reduced(Emitter& e, const std::string& op, const std::string& x, int64_t keepdim) {
  const Ints axes = e.numbers("axes");
  const Attribute keeps{"keepdims", keepdim};
  if (axes.empty()) return x;
  if (e.opset() >= 18 || op == "ReduceSum") return e.node(op, {x, e.ints(axes)}, {keeps});
  return e.node(op, {x}, {{"axes", axes}, keeps});
}

std::string reduced(Emitter& e, const std::string& op, const std::string& x) {
  return reduced(e, op, x, e.number("keepdim"));
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

void batch_norm(Emitter& e) {
  if (!e.says("eps"))
    e.refuse(
        "it is in training, or has no running statistics, and normalises by the batch; export in "
        "evaluation mode, nn::set_training(model, false), with running statistics");
  e.give(e.node(
      "BatchNormalization",
      {e.in(0), e.tensor("scale"), e.tensor("shift"), e.tensor("mean"), e.tensor("variance")},
      {{"epsilon", e.real("eps")}}));
}

void cast(Emitter& e) { e.give(e.x()); }

// ---- Arithmetic --------------------------------------------------------------------------------

/// ONNX has no Neg of u8.
void negative(Emitter& e) {
  const bool bytes = e.result().dtype == DType::u8;
  e.give(bytes ? e.node("Sub", {e.number(0), e.x()}) : e.node("Neg", {e.x()}));
}

/// ONNX has no Pow of u8 either, but its Cast to u8 wraps around.
void power(Emitter& e) {
  const DType to = e.result().dtype, type = to == DType::u8 ? DType::i64 : to;
  const std::string exponent = e.inputs() == 2 ? e.in(1, type) : e.number(e.real("exponent"), type);
  const std::string y = e.node("Pow", {e.in(0, type), exponent});
  e.give(type == to ? y : e.cast(y, type_number(to)));
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
  auto bound = [&](const char* property) -> std::string {
    if (std::isinf(e.real(property))) return "";
    // A bound outside of u8 leaves that side open.
    const bool bytes = e.result().dtype == DType::u8;
    if (bytes && std::clamp<int64_t>(e.number(property), 0, 255) != e.number(property)) return "";
    return e.said(property);
  };
  const std::string low = bound("low"), high = bound("high");
  e.give(e.node("Clip", {x, low, high}));
}

/// Integers are whole already.
void rounded(Emitter& e) { is_float(e.result().dtype) ? direct(e) : e.give(e.x()); }

void trunc(Emitter& e) {
  const std::string x = e.x();
  if (!is_float(e.result().dtype)) return e.give(x);
  const std::string negative = e.node("Less", {x, e.number(0)});
  e.give(e.node("Where", {negative, e.node("Ceil", {x}), e.node("Floor", {x})}));
}

/// C's remainder of floats, with the sign of a, and whether b has the other sign.
struct Division {
  std::string a, b, rest, differs;
  explicit Division(Emitter& e)
      : a(e.x()),
        b(e.in(1, e.result().dtype)),
        rest(e.node("Mod", {a, b}, {{"fmod", int64_t{1}}})),
        differs(e.node("Less", {e.node("Mul", {e.node("Sign", {rest}), b}), e.number(0)})) {}
};

void remainder(Emitter& e) {
  if (!is_float(e.result().dtype)) return direct(e);
  const Division d(e);
  e.give(e.node("Where", {d.differs, e.node("Add", {d.rest, d.b}), d.rest}));
}

void floor_divide(Emitter& e) {
  if (!is_float(e.result().dtype)) {
    const std::string a = e.x(), b = e.in(1, e.result().dtype);
    return e.give(e.node("Div", {e.node("Sub", {a, e.node("Mod", {a, b})}), b}));
  }
  const Division d(e);
  const std::string q = e.node("Div", {e.node("Sub", {d.a, d.rest}), d.b});
  const std::string below = e.node("Sub", {q, e.number(1)});
  const std::string whole = e.node("Round", {e.node("Where", {d.differs, below, q})});
  const std::string by_zero = e.node("Equal", {d.b, e.number(0)});
  e.give(e.node("Where", {by_zero, e.node("Div", {d.a, d.b}), whole}));
}

void fmod(Emitter& e) {
  e.give(e.node("Mod", {e.x(), e.in(1, e.result().dtype)}, {{"fmod", int64_t{1}}}));
}

void lerp(Emitter& e) {
  const DType type = e.result().dtype;
  const std::string a = e.x(), apart = e.node("Sub", {e.in(1, type), a});
  const std::string weight = e.inputs() == 3 ? e.in(2, type) : e.number(e.real("weight"));
  e.give(e.node("Add", {a, e.node("Mul", {weight, apart})}));
}

/// Infinities become the type's largest numbers unless the op says others.
void nan_to_num(Emitter& e) {
  std::string x = e.x();
  const double most = e.result().dtype == DType::f64 ? std::numeric_limits<double>::max()
                                                     : std::numeric_limits<float>::max();
  auto replace = [&](const std::string& where, double value) {
    x = e.node("Where", {where, e.number(value), x});
  };
  const std::string nan = e.node("IsNaN", {x});
  const std::string above = e.node("IsInf", {x}, {{"detect_negative", int64_t{0}}});
  const std::string below = e.node("IsInf", {x}, {{"detect_positive", int64_t{0}}});
  replace(nan, e.real("nan"));
  replace(above, e.says("positive") ? e.real("positive") : most);
  replace(below, e.says("negative") ? e.real("negative") : -most);
  e.give(x);
}

/// log(1 + x), with what rounding takes from 1 + x put back where that counts.
void log1p(Emitter& e) {
  const std::string x = e.x(), one = e.number(1), sum = e.node("Add", {x, one});
  const std::string lost = e.node("Sub", {e.node("Sub", {sum, one}), x}),
                    log = e.node("Log", {sum});
  const std::string small = e.node("Less", {e.node("Abs", {x}), e.number(0.5)});
  e.give(e.node("Where", {small, e.node("Sub", {log, e.node("Div", {lost, sum})}), log}));
}

/// e^x - 1 = tanh(x / 2) (e^x + 1), without cancellation.
void expm1(Emitter& e) {
  const std::string x = e.x(), half = e.node("Mul", {x, e.number(0.5)});
  const std::string sum = e.node("Add", {e.node("Exp", {x}), e.number(1)});
  e.give(e.node("Mul", {e.node("Tanh", {half}), sum}));
}

/// Of truth values, which every opset has, or of all bits.
void bits(Emitter& e) {
  if (e.is_bool(0) && e.is_bool(1)) return logic(e);
  if (e.opset() < 18) e.refuse("bits of numbers that no comparison made need opset 23");
  const DType type = e.result().dtype;
  e.give(e.node(std::string("Bitwise") + e.onnx(), {e.in(0, type), e.in(1, type)}));
}

void where(Emitter& e) {
  const DType type = e.result().dtype;
  e.give(e.node("Where", {e.bool_tensor("condition"), e.in(0, type), e.in(1, type)}));
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
  if (p == 0) e.refuse("p = 0 cannot be exported");
  const bool single = e.numbers("axes").empty();  // no axes: |x|, whatever p is
  if (!single && (p == 1 || p == 2))
    return e.give(reduced(e, p == 1 ? "ReduceL1" : "ReduceL2", e.in(0)));
  const std::string x = e.node("Abs", {e.in(0)});
  if (single) return e.give(x);
  if (std::isinf(p)) return e.give(reduced(e, p > 0 ? "ReduceMax" : "ReduceMin", x));
  const std::string sum = reduced(e, "ReduceSum", e.node("Pow", {x, e.number(p)}));
  e.give(e.node("Pow", {sum, e.number(1 / p)}));
}

/// The variance, or its root: the sum of squares of x - mean by the count - correction.
void variance(Emitter& e) {
  const std::string d = e.node("Sub", {e.in(0), reduced(e, "ReduceMean", e.in(0), 1)});
  const std::string squares = reduced(e, "ReduceSum", e.node("Mul", {d, d}));
  const Size& count = e.sizes("count").at(0);
  const auto correction = static_cast<double>(e.number("correction"));
  std::string divisor;
  if (is_fixed(count)) {
    divisor = e.number(std::max(static_cast<double>(count[0]) - correction, 0.0));
  } else {
    const std::string all = e.cast(e.scalar("count"), type_number(e.result().dtype));
    divisor = e.node("Max", {e.node("Sub", {all, e.number(correction)}), e.number(0)});
  }
  const std::string y = e.node("Div", {squares, divisor});
  e.give(std::string_view(e.onnx()).empty() ? y : e.node(e.onnx(), {y}));
}

/// Whether any or all elements are not 0.
void truths(Emitter& e) {
  e.give(reduced(e, e.onnx(), e.cast(e.bool_in(0), type_number(DType::u8))));
}

/// A part of the elements in order, and their places.
void sorted_part(Emitter& e) {
  const Size &first = e.sizes("first").at(0), &last = e.sizes("last").at(0);
  const Names y = e.nodes("TopK", {e.in(0), e.size(last)},
                          {{"axis", e.number("axis")}, {"largest", e.number("descending")}}, 2);
  const bool all = is_fixed(first) && first[0] == 0;
  const Names bounds =
      all ? Names() : Names{e.size(first), e.size(last), e.ints({e.number("axis")})};
  for (int i = 0; i < 2; ++i) {
    Names slice = {y[static_cast<size_t>(i)]};
    slice.insert(slice.end(), bounds.begin(), bounds.end());
    e.give(all ? slice[0] : e.node("Slice", slice), i);
  }
}

void cumsum(Emitter& e) { e.give(e.node("CumSum", {e.x(), e.scalar("axis")})); }

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
    {"neg", negative}, {"abs", direct, "Abs"}, {"sign", direct, "Sign"},
    {"minimum", direct, "Min"}, {"maximum", direct, "Max"}, {"matmul", matmul},
    {"remainder", remainder, "Mod"}, {"floor_divide", floor_divide}, {"fmod", fmod}, {"lerp", lerp},
    {"square", [](Emitter& e) { e.give(times(e, e.x(), e.x())); }},
    {"pow", power},
    // functions of one number
    {"exp", direct, "Exp"}, {"log", direct, "Log"}, {"sqrt", direct, "Sqrt"},
    {"sin", direct, "Sin"}, {"cos", direct, "Cos"}, {"tan", direct, "Tan"}, {"erf", direct, "Erf"},
    {"tanh", direct, "Tanh"}, {"atan", direct, "Atan"}, {"sinh", direct, "Sinh"},
    {"cosh", direct, "Cosh"}, {"reciprocal", direct, "Reciprocal"}, {"log1p", log1p},
    {"expm1", expm1}, {"floor", rounded, "Floor"}, {"ceil", rounded, "Ceil"},
    {"round", rounded, "Round"}, {"trunc", trunc},
    {"log2", [](Emitter& e) { e.give(times(e, with(e, "Log"), e.number(std::numbers::log2e))); }},
    {"log10", [](Emitter& e) {
       e.give(times(e, with(e, "Log"), e.number(std::numbers::log10e)));
     }},
    {"rsqrt", [](Emitter& e) { e.give(e.node("Reciprocal", {with(e, "Sqrt")})); }},
    {"clamp", clip}, {"hardtanh", clip}, {"relu6", clip},
    {"nan_to_num", nan_to_num},
    // activations
    {"relu", [](Emitter& e) {  // onnxruntime has no Relu of integers
       e.give(is_float(e.result().dtype) ? with(e, "Relu")
                                         : e.node("Max", {e.x(), e.number(0)}));
     }},
    {"sigmoid", direct, "Sigmoid"}, {"softplus", direct, "Softplus"},
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
    {"hardshrink", [](Emitter& e) {
       e.give(with(e, "Shrink", A{"lambd", e.real("lambda")}, A{"bias", 0.0}));
     }},
    {"softshrink", [](Emitter& e) {
       e.give(with(e, "Shrink", A{"lambd", e.real("lambda")}, A{"bias", e.real("lambda")}));
     }},
    {"tanhshrink", [](Emitter& e) { e.give(e.node("Sub", {e.x(), with(e, "Tanh")})); }},
    // comparisons and logic
    {"eq", compare, "Equal"}, {"lt", compare, "Less"}, {"le", compare, "LessOrEqual"},
    {"gt", compare, "Greater"}, {"ge", compare, "GreaterOrEqual"},
    {"ne", [](Emitter& e) {
       compare(e);
       e.negate();
     }, "Equal"},
    {"logical_and", logic, "And"}, {"logical_or", logic, "Or"}, {"logical_xor", logic, "Xor"},
    {"logical_not", logic, "Not"}, {"isnan", test, "IsNaN"}, {"isinf", test, "IsInf"},
    {"isfinite", [](Emitter& e) {  // x - x is 0, or NaN
       const std::string x = real(e);
       e.give_bool(e.node("IsNaN", {e.node("Sub", {x, x})}));
       e.negate();
     }},
    {"bitwise_and", bits, "And"}, {"bitwise_or", bits, "Or"}, {"bitwise_xor", bits, "Xor"},
    {"truth", [](Emitter& e) { e.give_bool(e.bool_in(0)); }},
    {"where", where},
    // shapes
    {"view", reshape}, {"reshape", reshape}, {"squeeze", squeeze}, {"unsqueeze", reshape},
    {"permute", permute}, {"transpose", transpose}, {"expand", expand}, {"slice", slice},
    {"select", slice}, {"flip", flip}, {"roll", roll}, {"cat", cat}, {"stack", stack}, {"pad", pad},
    {"clone", nullptr}, {"cast", cast},
    // new tensors; those without a form only if they are the same in all examples
    {"full", full}, {"triangle", triangle}, {"arange", arange}, {"one_hot", one_hot},
    {"tensor", nullptr}, {"scalar", nullptr}, {"linspace", nullptr}, {"eye", nullptr},
    {"diagonal", nullptr},
    // indexing
    {"embedding", gather, "Gather"}, {"index_select", gather, "Gather"},
    {"gather", gather, "GatherElements"}, {"scatter", scatter, "none"},
    {"scatter_add", scatter, "add"}, {"scatter_reduce", scatter, "mul"},
    {"argmax", best, "Max"}, {"argmin", best, "Min"},
    // reductions
    {"sum", reduce, "ReduceSum"}, {"mean", reduce, "ReduceMean"}, {"amax", reduce, "ReduceMax"},
    {"amin", reduce, "ReduceMin"}, {"max", best, "Max"}, {"min", best, "Min"},
    {"logsumexp", reduce, "ReduceLogSumExp"}, {"prod", reduce, "ReduceProd"}, {"norm", norm},
    {"cumsum", cumsum}, {"var", variance}, {"std", variance, "Sqrt"}, {"any", truths, "ReduceMax"},
    {"all", truths, "ReduceMin"},
    {"sort", sorted_part}, {"topk", sorted_part}, {"median", sorted_part},
    {"kthvalue", sorted_part},
    // normalisation
    {"softmax", softmax, "Softmax"}, {"log_softmax", softmax, "LogSoftmax"},
    {"layer_norm", layer_norm}, {"batch_norm", batch_norm},
    {"instance_norm", instance_norm}, {"rms_norm", rms_norm, "", 23}, {"dropout", for_training},
    // sequences
    {"attention", attention, "", 23}, {"rnn_states", rnn},
    // windows
    {"conv1d", conv}, {"conv2d", conv}, {"conv3d", conv}, {"conv1d_input_grad", conv_transpose},
    {"conv2d_input_grad", conv_transpose}, {"conv3d_input_grad", conv_transpose},
    {"max_pool1d", max_pool}, {"max_pool2d", max_pool}, {"max_pool3d", max_pool},
    {"adaptive_max_pool1d", adaptive_max_pool}, {"adaptive_max_pool2d", adaptive_max_pool},
    {"adaptive_max_pool3d", adaptive_max_pool}, {"unfold", unfold}, {"fold", fold},
};
// clang-format on

}  // namespace

const Form* find_form(std::string_view op, int opset) {
  const Form* found = std::find_if(std::begin(kForms), std::end(kForms),
                                   [&](const Form& f) { return f.op == op && f.since <= opset; });
  return found == std::end(kForms) ? nullptr : found;
}

}  // namespace tern::onnx

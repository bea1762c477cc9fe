// Each op's form in ONNX, in opset 17 and 23: which ops it becomes, with which attributes.
#include <algorithm>
#include <limits>
#include <optional>

#include "tern/core/ops/attention/attention.h"
#include "tern/core/ops/convolution/conv.h"
#include "tern/core/ops/convolution/interpolate.h"
#include "tern/core/ops/convolution/padding.h"
#include "tern/core/ops/convolution/pooling.h"
#include "tern/core/ops/einsum/einsum.h"
#include "tern/core/ops/elementwise/elementary.h"
#include "tern/core/ops/indexing/indexing.h"
#include "tern/core/ops/statistics/statistics.h"
#include "tern/nn/nn.h"
#include "tern/tests/onnx/exported.h"
#include "tern/tests/support/tensors.h"

namespace tern::test_forms {
namespace {

using test::check_ops, test::check_refused, test::cubes, test::exported, test::texts;
using test::Ints, test::OnnxFile, test::OnnxTensor, test::Texts;
using Fn = test::OnnxFn;

constexpr uint64_t kInt64 = 7;
constexpr int64_t kMost = std::numeric_limits<int64_t>::max(), kOdd = (int64_t{1} << 53) + 1;

/// Examples of inputs (N, 3, T).
std::vector<OnnxTensors> lines() {
  Rng rng(1);
  return {{randn({2, 3, 7}, rng)}, {randn({5, 3, 12}, rng)}, {randn({3, 3, 20}, rng)}};
}

/// Checks an attribute of the node with this op.
void check_real(const std::string& op, const std::string& attribute, float value, const Fn& fn) {
  CAPTURE(op);
  CHECK(exported(fn).node(op).real(attribute) == value);
}

TEST_CASE("onnx: elementwise ops") {
  auto of = [](Tensor (*fn)(const Tensor&)) {
    return [fn](const OnnxTensors& x) { return fn(x[0]); };
  };
  check_ops("add", "Add", [](auto& x) { return x[0] + 2; });
  check_ops("sub", "Sub", [](auto& x) { return 1 - x[0]; });
  check_ops("div", "Div", [](auto& x) { return x[0] / x[0]; });
  check_ops("neg", "Neg", [](auto& x) { return -x[0]; });
  check_ops("square", "Mul", of(square));
  check_ops("pow", "Pow", [](auto& x) { return pow(x[0], 3); });
  check_ops("pow, 0", "Pow", [](auto& x) { return pow(x[0], 0); });
  check_ops("pow of tensors", "Pow", [](auto& x) { return pow(x[0], x[0]); });
  check_ops("minimum", "Min", [](auto& x) { return minimum(x[0], 0); });
  check_ops("maximum", "Max", [](auto& x) { return maximum(x[0], 0); });
  check_ops("exp", "Exp", of(exp));
  check_ops("log", "Log", of(log));
  check_ops("sqrt", "Sqrt", of(sqrt));
  check_ops("rsqrt", "Sqrt Reciprocal", of(rsqrt));
  check_ops("relu", "Relu", of(relu));
  check_ops("sigmoid", "Sigmoid", of(sigmoid));
  check_ops("tanh", "Tanh", of(tanh));
  check_ops("silu", "Sigmoid Mul", of(silu));
  check_ops("softplus", "Softplus", of(softplus));
  check_ops("hardswish", "HardSwish", of(hardswish));
  check_ops("hardsigmoid", "HardSigmoid", of(hardsigmoid));
  check_ops("relu6", "Clip", of(relu6));
  check_ops("selu", "Selu", of(selu));
  check_ops("gelu", "Div Erf Add Mul Mul | Gelu", [](auto& x) { return gelu(x[0]); });
  check_ops("gelu, tanh", "Mul Mul Mul Add Mul Tanh Add Mul Mul | Gelu",
            [](auto& x) { return gelu(x[0], Gelu::tanh); });
  check_ops("glu", "Slice Slice Sigmoid Mul", [](auto& x) { return glu(x[0]); });
  check_ops("clamp", "Clip", [](auto& x) { return clamp(x[0], {}, 2); });
  check_ops("cast", "Cast", [](auto& x) { return x[0].to(DType::i64); });
  check_ops("types", "Cast Mul", [](auto& x) { return x[0] * ones({4}, DType::i64); });
  check_ops("where", "Greater Where", [](auto& x) { return where(gt(x[0], 0), x[0], 1); });
  check_ops("ne", "Equal Not Where", [](auto& x) { return where(ne(x[0], 0), x[0], 1); });
  check_ops("atan", "Atan", of(atan));
  check_ops("sinh", "Sinh", of(sinh));
  check_ops("cosh", "Cosh", of(cosh));
  check_ops("log2", "Log Mul", of(log2));
  check_ops("log10", "Log Mul", of(log10));
  check_ops("log1p", "Add Sub Sub Log Abs Less Div Sub Where", of(log1p));
  check_ops("expm1", "Mul Exp Add Tanh Mul", of(expm1));
  check_ops("trunc", "Less Ceil Floor Where", of(trunc));
  check_ops("trunc of integers", "", texts(9), of(trunc));
  check_ops("floor of integers", "", texts(9), of(floor));
  check_ops("tanhshrink", "Tanh Sub", of(tanhshrink));
  check_ops("nan_to_num", "IsNaN IsInf IsInf Where Where Where",
            [](auto& x) { return nan_to_num(x[0]); });
  check_ops("isfinite", "Sub IsNaN Not Cast", of(isfinite));
  check_ops("lerp", "Mul Sub Mul Add", [](auto& x) { return lerp(x[0], square(x[0]), 0.3); });
  check_ops("remainder", "Mod Sign Mul Less Add Where", [](auto& x) { return remainder(x[0], 2); });
  check_ops("remainder of integers", "Mod", texts(9), [](auto& x) { return remainder(x[0], 4); });
  check_ops("floor_divide", "Mod Sign Mul Less Sub Div Sub Where Round Equal Div Where",
            [](auto& x) { return floor_divide(x[0], 0.3); });
  check_ops("floor_divide of integers", "Mod Sub Div", texts(9),
            [](auto& x) { return floor_divide(x[0], 4); });
  check_ops("bits of truth values", "Greater Less Or Cast", [](auto& x) {
    const Tensor above = x[0] > 1;
    return above | (x[0] < 0);
  });
  check_ops("logic", "Greater Less And Cast", [](auto& x) {
    const Tensor above = gt(x[0], 0);
    return logical_and(above, lt(x[0], 1));
  });
  // ONNX has neither Neg nor Pow of u8.
  auto bytes = [](const OnnxTensors& x) { return x[0].to(DType::u8); };
  check_ops("neg of bytes", "Cast Sub", texts(9), [&](auto& x) { return -bytes(x); });
  check_ops("pow of bytes", "Cast Cast Cast Pow Cast", texts(9),
            [&](auto& x) { return pow(bytes(x), 3); });
  check_ops("pow of two bytes", "Cast Cast Cast Pow Cast", texts(9), [&](auto& x) {
    const Tensor b = bytes(x);
    return pow(b, b);
  });
  check_real("LeakyRelu", "alpha", 0.25, [](auto& x) { return leaky_relu(x[0], 0.25); });
  check_real("Elu", "alpha", 0.5, [](auto& x) { return elu(x[0], 0.5); });
  check_real("Shrink", "bias", 0, [](auto& x) { return hardshrink(x[0], 0.25); });
  check_real("Shrink", "bias", 0.25, [](auto& x) { return softshrink(x[0], 0.25); });
  check_real("Shrink", "lambd", 0.25, [](auto& x) { return softshrink(x[0], 0.25); });
  const Fn bits = [](auto& x) { return x[0].to(DType::u8) ^ scalar(3, DType::u8); };
  CHECK(exported(bits, texts(9), {}, {.opset = 23}).ops() == Texts{"Cast", "BitwiseXor"});
  check_refused("bitwise_xor: bits of numbers that no comparison made need opset 23", bits,
                texts(9));
  const OnnxFile rest = exported([](auto& x) { return fmod(x[0], x[0]); });
  CHECK(rest.node("Mod").integer("fmod") == 1);
  const OnnxFile clip = exported([](auto& x) { return clamp(x[0], -1, {}); });
  REQUIRE(clip.node("Clip").inputs.size() == 3);
  CHECK(clip.tensors.at(clip.node("Clip").inputs[1]).values<float>() == std::vector<float>{-1});
  CHECK(clip.node("Clip").inputs[2].empty());
}

TEST_CASE("onnx: integers beyond the whole numbers of f64 are exact") {
  auto number = [](const std::string& op, size_t input, const Fn& fn) {
    const OnnxFile file = exported(fn, texts(9));
    const OnnxTensor& t = file.tensors.at(file.node(op).inputs.at(input));
    return t.type == kInt64 && t.shape.empty() ? t.values<int64_t>() : Ints();
  };
  CHECK(number("Expand", 0, [](auto& x) {
          return x[0] + full({x[0].size(0), 1}, kMost, DType::i64);
        }) == Ints{kMost});
  CHECK(number("Pad", 2, [](auto& x) { return pad(x[0], {1, 1}, kOdd); }) == Ints{kOdd});
  CHECK(number("Clip", 1, [](auto& x) { return clamp(x[0], -kOdd, kOdd); }) == Ints{-kOdd});
  CHECK(number("Clip", 2, [](auto& x) { return clamp(x[0], -kOdd, kOdd); }) == Ints{kOdd});
  CHECK(number("Range", 0, [](auto& x) { return x[0] + arange(kOdd, kOdd + x[0].size(1)); }) ==
        Ints{kOdd});
  const OnnxFile bytes =
      exported([](auto& x) { return clamp(x[0].to(DType::u8), -5, 7); }, texts(9));
  CHECK(bytes.node("Clip").inputs.at(1).empty());  // -5 as u8 is 251
  CHECK(bytes.tensors.at(bytes.node("Clip").inputs.at(2)).raw == "\7");
}

TEST_CASE("onnx: shapes") {
  check_ops("reshape", "Reshape", [](auto& x) { return reshape(x[0], {-1, 12}); });
  check_ops("transpose", "Transpose", [](auto& x) { return transpose(x[0], 1, 2); });
  check_ops("copy", "Transpose", [](auto& x) { return transpose(x[0], 1, 2).contiguous(); });
  check_ops("detach", "Mul", [](auto& x) { return x[0].detach().clone() * 2; });
  check_ops("expand", "Reshape Shape Concat Expand", [](auto& x) {
    return expand(unsqueeze(x[0], 1), {-1, 5, -1, -1});
  });
  check_ops("select", "Slice Squeeze", [](auto& x) { return select(x[0], 1, -1); });
  check_ops("flip", "Slice", [](auto& x) { return flip(x[0], 1); });
  check_ops("several", "Slice Squeeze", [](auto& x) { return slice(x[0], {{}, {1, 3}, 2}); });
  check_ops("squeeze", "Slice Reshape", lines(),
            [](auto& x) { return squeeze(slice(x[0], 1, 0, 1), 1); });
  // A batch of 1 would lose its axis.
  check_refused(
      "squeeze: its axis 0 has the sizes 2, 5, 3 in the examples, and would be dropped",
      [](auto& x) { return squeeze(slice(x[0], 1, 0, 1)); }, lines());
  check_refused(
      "squeeze: its axis 2 has the sizes 7, 12, 20", [](auto& x) { return squeeze(x[0], 2); },
      lines());
  check_ops("roll", "Slice Slice Concat", [](auto& x) { return roll(x[0], {-1}, {1}); });
  // An axis of any size may be shorter than the shift.
  check_ops("roll along an open size", "Shape Max Neg Mod Slice Slice Concat", lines(),
            [](auto& x) { return roll(x[0], {-2}, {2}); });
  check_ops("roll by an open size", "Shape Max Neg Mod Slice Slice Concat", lines(),
            [](auto& x) { return roll(x[0], {x[0].size(2)}, {2}); });
  check_ops("cat", "Concat", [](auto& x) { return cat({x[0], x[0]}, 2); });
  check_ops("stack", "Unsqueeze Unsqueeze Concat", [](auto& x) { return stack({x[0], x[0]}, 1); });
  check_ops("pad", "Pad", [](auto& x) { return pad(x[0], {1, 2}); });
  check_ops("reflect", "Pad", lines(), [](auto& x) {
    return pad(x[0], {1, 2}, PaddingMode::reflect);
  });
  check_ops("unfold", "Shape Add Squeeze Range Unsqueeze Add Gather Transpose", lines(),
            [](auto& x) { return unfold(x[0], 2, 3, 1); });
  check_ops("unfold of one size", "Unsqueeze Add Gather Transpose",
            [](auto& x) { return unfold(x[0], 1, 2, 1); });
  const OnnxFile steps = exported([](auto& x) { return unfold(x[0], 2, 3, 2); }, lines());
  CHECK(steps.outputs[0].shape == Texts{"N", "3", "size_2", "3"});
  check_ops("a weight's view", "Add",
            [](auto& x) { return x[0] + narrow(arange(0, 8, 1, DType::f32), 0, 0, 4); });
  const OnnxFile both =
      exported([](auto& x) { return slice(flatten(transpose(x[0], 0, 1), 0, 1), 0, 1, {}, 2); });
  CHECK(both.node("Reshape").inputs.size() == 2);
  const OnnxTensor& shape = both.tensors.at(both.node("Reshape").inputs[1]);
  CHECK(shape.type == kInt64);
  CHECK(shape.values<int64_t>() == Ints{-1, 4});
  const OnnxFile pads = exported([](auto& x) { return pad(x[0], {1, 2, 3, 4}); });
  CHECK(pads.tensors.at(pads.node("Pad").inputs[1]).values<int64_t>() == Ints{0, 3, 1, 0, 4, 2});
}

TEST_CASE("onnx: onnxruntime makes no slice of a range that runs backwards or begins below 0") {
  check_ops("from a size", "Shape Add Squeeze Neg Neg Neg Range Neg", texts(9),
            [](auto& x) { return arange(x[0].size(1) - 1, -1, -1); });
  check_ops("to a size", "Neg Shape Squeeze Neg Neg Range Neg", texts(9),
            [](auto& x) { return arange(-3, x[0].size(1)); });
}

/// Start, end and step of the only slice in a file; -1 for sizes that a node computes.
Ints bounds(const OnnxFile& file) {
  const test::OnnxNode& node = file.node("Slice");
  REQUIRE(node.inputs.size() == 5);
  Ints out;
  for (const size_t i : {1, 2, 4}) {
    const auto known = file.tensors.find(node.inputs[i]);
    out.push_back(known == file.tensors.end() ? -1 : known->second.values<int64_t>().at(0));
  }
  return out;
}

TEST_CASE("onnx: a slice of an open axis has the bounds that the program gave") {
  using Bound = std::optional<int64_t>;
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  auto of = [](Bound start, Bound end, int64_t step = 1) {
    return [=](auto& x) { return slice(x[0], 1, start, end, step); };
  };
  auto at = [&](const Fn& fn) { return bounds(exported(fn, texts(9))); };
  CHECK(at(of(-5, {})) == Ints{-5, kMost, 1});
  CHECK(at(of({}, -5)) == Ints{0, -5, 1});
  CHECK(at(of({}, -1, 2)) == Ints{0, -1, 2});
  CHECK(at(of(0, 30)) == Ints{0, 30, 1});
  CHECK(at(of({}, {}, -2)) == Ints{kMost, kLeast, -2});
  CHECK(at(of(30, 3, -1)) == Ints{30, 3, -1});
  CHECK(at([](auto& x) { return slice(x[0], {{1, -1}, 0}); }) == Ints{1, -1, 1});
  CHECK(at([](auto& x) { return narrow(x[0], 1, 1, x[0].size(1) - 1); }) == Ints{1, kMost, 1});
  // The way back from the element before the first one is empty in Python, and not in ONNX.
  const OnnxFile back = exported(of(-5, 1, -2), texts(9));
  CHECK(back.ops() == Texts{"Slice", "Slice"});
  CHECK(back.tensors.at(back.node("Slice").inputs.at(1)).values<int64_t>() == Ints{2});
  CHECK(back.tensors.at(back.node("Slice").inputs.at(2)).values<int64_t>() == Ints{-4});
  // So a start must not lie before the first element for any size.
  auto back_from = [](int64_t before_end) {
    return [=](auto& x) { return slice(x[0], 1, x[0].size(1) - before_end, {}, -1); };
  };
  check_refused("slice: it runs backwards from 2, 7, 15 in the examples", back_from(5), texts(9));
  CHECK(exported(back_from(1), texts(9)).node("Slice").inputs.size() == 5);
  check_refused("slice: its axis 1 has the size 1 for the sizes 7, 12, 20", of({}, {}, 32),
                texts(9));
  CHECK(exported(of(-8, {}, 4), texts(9)).outputs[0].shape == Texts{"N", "2"});
  // A slice that is all of its input in the examples is not that input.
  const OnnxFile all = exported(
      [](auto& x) {
        const Tensor some = slice(x[0], 1, 0, 30);
        return cat({some, x[0] * 2}, 1);
      },
      texts(9));
  CHECK(all.node("Mul").inputs.at(0) == "input");
  CHECK(all.node("Concat").inputs.at(0) == all.node("Slice").outputs.at(0));
  // Beyond the axis in some examples: a size of its own.
  CHECK(exported(of(0, 15), texts(9)).outputs[0].shape == Texts{"N", "size_2"});
}

TEST_CASE("onnx: reductions, norms, indexing") {
  check_ops("sum of integers", "ReduceSum", texts(9), [](auto& x) { return sum(x[0], 1); });
  check_ops("square of integers", "Max Mul Cast Mul", texts(9),
            [](auto& x) { return square(relu(x[0])) * 0.5; });
  check_ops("sum", "ReduceSum", [](auto& x) { return sum(x[0], {1, 2}); });
  check_ops("mean", "ReduceMean", [](auto& x) { return mean(x[0], -1, true); });
  check_ops("amax", "ReduceMax", [](auto& x) { return amax(x[0], 1); });
  check_ops("argmax", "ArgMax", [](auto& x) { return argmax(x[0], 1); });
  check_ops("max", "ArgMax Reshape Cast GatherElements Reshape",
            [](auto& x) { return max(x[0], 1).values; });
  check_ops("norm", "ReduceL2", [](auto& x) { return norm(x[0], 2, 1); });
  check_ops("norm, 3", "Abs Pow ReduceSum Pow", [](auto& x) { return norm(x[0], 3, 1); });
  check_ops("largest", "Abs ReduceMax", [](auto& x) { return norm(x[0], test::kInf, 1); });
  for (const double p : {1., 2., 3., test::kInf})
    check_ops("norm of a negative number", "Mul ReduceSum Neg Abs",
              [p](auto& x) { return norm(-sum(square(x[0])), p); });
  check_refused("p = 0 cannot be exported", [](auto& x) { return norm(x[0], 0, 1); });
  check_ops("var", "ReduceMean Sub Mul ReduceSum Div", [](auto& x) { return var(x[0], 1); });
  check_ops("std of open sizes", "ReduceMean Sub Mul ReduceSum Shape Squeeze Cast Sub Max Div Sqrt",
            lines(), [](auto& x) { return std(x[0], 2); });
  check_ops("prod of open sizes", "ReduceProd", lines(), [](auto& x) { return prod(x[0], 2); });
  // onnxruntime computes ReduceProd of integers in f64.
  check_ops("prod of integers", "Cast Slice Slice Slice Mul Mul Reshape",
            [](auto& x) { return prod(x[0].to(DType::i64), 1); });
  check_ops("any", "Greater Cast ReduceMax", [](auto& x) { return any(gt(x[0], 0), 1); });
  check_ops("all", "Cast Cast ReduceMin", [](auto& x) { return all(x[0], 1); });
  check_ops("logsumexp", "ReduceLogSumExp", [](auto& x) { return logsumexp(x[0], 1); });
  check_ops("one_hot", "Unsqueeze Equal Cast", texts(9), [](auto& x) { return one_hot(x[0], 9); });
  check_ops("cumsum", "CumSum", [](auto& x) { return cumsum(x[0], 1); });
  check_ops("softmax", "Softmax", [](auto& x) { return softmax(x[0], -1); });
  check_ops("log_softmax", "LogSoftmax", lines(), [](auto& x) { return log_softmax(x[0], 1); });
  check_ops("topk", "TopK", [](auto& x) { return topk(x[0], 2, 1).values; });
  check_ops("sort", "TopK", [](auto& x) { return sort(x[0], 1).values; });
  check_ops("kthvalue", "TopK Slice Slice Reshape",
            [](auto& x) { return kthvalue(x[0], 2, 1).values; });
  check_ops("masked softmax", "Greater Where Softmax Where",
            [](auto& x) { return softmax(x[0], -1, gt(x[0], 0)); });
  check_ops("layer_norm", "Expand LayerNormalization", [](auto& x) { return layer_norm(x[0], 4); });
  check_ops("rms_norm", "Mul ReduceMean Add Sqrt Reciprocal Mul | Expand RMSNormalization",
            [](auto& x) { return rms_norm(x[0], 4); });
  check_ops("instance_norm", "Expand Expand InstanceNormalization",
            [](auto& x) { return instance_norm(x[0]); });
  check_ops("embedding", "Cast Gather", texts(8), [](auto& x) {
    return embedding(x[0], reshape(arange(0, 24, 1, DType::f32), {8, 3}));
  });
  const OnnxFile norm = exported([](auto& x) { return layer_norm(x[0], {3, 4}, {}, {}, 0.25); });
  CHECK(norm.node("LayerNormalization").integer("axis") == -2);
  CHECK(norm.node("LayerNormalization").real("epsilon") == 0.25F);
  for (const char* op : {"Softmax", "LogSoftmax"}) {
    const bool plain = op == std::string("Softmax");
    const OnnxFile file =
        exported([=](auto& x) { return plain ? softmax(x[0], 1) : log_softmax(x[0], 1); });
    CHECK(file.node(op).integer("axis") == 1);
  }
  const OnnxFile mean_file = exported([](auto& x) { return mean(x[0], {0, 2}, true); });
  CHECK(mean_file.node("ReduceMean").integers("axes") == Ints{0, 2});
  CHECK(mean_file.node("ReduceMean").integer("keepdims") == 1);
}

TEST_CASE("onnx: writing at indices") {
  auto at = [](const OnnxTensors& x) { return argmax(x[0], 1, true); };
  auto reduction = [](const Fn& fn, int opset = 17) {
    const OnnxFile file = exported(fn, cubes(), {}, {.opset = opset});
    const test::OnnxNode& node = file.node("ScatterElements");
    CHECK(node.inputs.size() == 3);
    CHECK(node.integer("axis") == 1);
    return node.text("reduction");
  };
  auto reduce = [&](ScatterReduce how, bool include_self = true) -> Fn {
    return [=](auto& x) { return scatter_reduce(x[0], 1, at(x), x[0] * 2, how, include_self); };
  };
  CHECK(reduction([&](auto& x) { return scatter(x[0], 1, at(x), x[0] * 2); }) == "none");
  CHECK(reduction([&](auto& x) { return scatter(x[0], 1, at(x), 7); }) == "none");
  CHECK(reduction([&](auto& x) { return scatter_add(x[0], 1, at(x), x[0] * 2); }) == "add");
  CHECK(reduction(reduce(ScatterReduce::sum)) == "add");
  CHECK(reduction(reduce(ScatterReduce::prod)) == "mul");
  CHECK(reduction(reduce(ScatterReduce::amax), 23) == "max");
  CHECK(reduction(reduce(ScatterReduce::amin), 23) == "min");
  CHECK(reduction(reduce(ScatterReduce::amin, false), 23) == "none");  // first
  check_refused("scatter_reduce: the largest and the smallest of elements need opset 23",
                reduce(ScatterReduce::amax));
  const Tensor rows = tensor({2, 0, 2});
  check_ops("index_add", "Mul Shape Concat Expand ScatterElements",
            [&](auto& x) { return index_add(x[0], 1, rows, x[0] * 3); });
  check_ops("index_add at a computed index",
            "ReduceMax Cast Clip Reshape Shape Concat Expand ScatterElements", [](auto& x) {
              const Tensor list = clamp(amax(x[0], {0, 2}).to(DType::i64), 0, 2);
              return index_add(x[0], 1, list, x[0]);
            });
  const Tensor i = tensor({0, 1}), j = tensor({2, 0});
  check_ops("index_put",
            "Shape Concat Expand Transpose Reshape Transpose Reshape Concat Expand ScatterElements "
            "Reshape Transpose",
            [&](auto& x) {
              return index_put(x[0], {Tensor(), i, j}, ones({2}));
            });
}

TEST_CASE("onnx: products that sum over leading axes") {
  Rng rng(1);
  const Tensor w = randn({3, 4, 5}, rng);
  check_ops("heads", "Transpose MatMul ReduceSum Reshape", [&](auto& x) {
    return einsum("n h c, h c o -> n o", {x[0], w});
  });
  check_ops("sum", "Reshape Transpose MatMul ReduceSum Reshape Transpose", [&](auto& x) {
    return einsum("n t h c, h c o -> n t o", {unsqueeze(x[0], 1), w});
  });
}

TEST_CASE("onnx: windows") {
  Rng rng(2);
  const Tensor w = randn({6, 2, 3, 2}, rng), b = randn({6}, rng),
               patches = randn({5, 4, 2, 2}, rng);
  const std::vector<OnnxTensors> pictures = {{randn({2, 4, 6, 8}, rng)},
                                             {randn({5, 4, 6, 8}, rng)}};
  const Conv2dOptions options{.stride = {2, 1}, .padding = {1, 0}, .dilation = {1, 2}, .groups = 2};
  const OnnxFile conv = exported([&](auto& x) { return conv2d(x[0], w, b, options); }, pictures);
  const test::OnnxNode& n = conv.node("Conv");
  CHECK(n.inputs.size() == 3);
  CHECK(n.integers("strides") == Ints{2, 1});
  CHECK(n.integers("pads") == Ints{1, 0, 1, 0});
  CHECK(n.integers("dilations") == Ints{1, 2});
  CHECK(n.integer("group") == 2);
  CHECK(conv.outputs[0].shape == Texts{"N", "6", "3", "6"});
  check_ops("patches", "Conv", pictures,
            [&](auto& x) { return conv2d(x[0], patches, {}, {.stride = 2}); });
  check_ops("max_pool", "MaxPool", pictures, [](auto& x) { return max_pool2d(x[0]); });
  check_ops("avg_pool", "Conv Div", pictures,
            [](auto& x) { return avg_pool2d(x[0], {.kernel = 2}); });
  check_ops("adaptive", "GlobalMaxPool", pictures,
            [](auto& x) { return adaptive_max_pool2d(x[0], 1); });
  check_ops("adaptive, 3", "MaxPool", pictures, [](auto& x) {
    return adaptive_max_pool2d(x[0], {3, 4});
  });
  check_ops("unfold", "Conv Reshape", pictures, [](auto& x) {
    return unfold(x[0], {.kernel = {2, 3}});
  });
  const Fn folded = [](auto& x) {
    return fold(unfold(x[0], {.kernel = 3, .padding = 1, .stride = 2}), {6, 8},
                {.kernel = 3, .padding = 1, .stride = 2});
  };
  check_ops("fold", "Conv Reshape Reshape ConvTranspose | Conv Reshape Col2Im", pictures, folded);
  const OnnxFile fold_file = exported(folded, pictures);
  CHECK(fold_file.node("ConvTranspose").integers("output_padding") == Ints{1, 1});
  CHECK(fold_file.tensors.at(fold_file.node("Conv").inputs[1]).shape == Ints{36, 1, 3, 3});
  const OnnxFile columns = exported(folded, pictures, {}, {.opset = 23});
  CHECK(columns.node("Col2Im").integers("strides") == Ints{2, 2});
  // 8, 12 and 20 rows are even, but the file has to take 9 too.
  const Fn rows = [](auto& x) {
    return fold(unfold(x[0], {.kernel = 3, .padding = 1, .stride = 2}), {x[0].size(2), 8},
                {.kernel = 3, .padding = 1, .stride = 2});
  };
  std::vector<OnnxTensors> high;
  for (const auto& [n, t] : {std::pair{2, 8}, {5, 12}, {3, 20}})
    high.push_back({randn({n, 4, t, 8}, rng)});
  check_refused("fold: the size 8, 12, 20 in the examples behind a stride of 2 needs opset 23",
                rows, high);
  CHECK(exported(rows, high, {}, {.opset = 23}).node("Col2Im").inputs.size() == 3);
  check_ops("adaptive mean", "ReduceMean", pictures,
            [](auto& x) { return adaptive_avg_pool2d(x[0], 1); });
  check_ops("resized", "Transpose MatMul Transpose", pictures, [](auto& x) {
    return interpolate(x[0], {.size = {{12, 8}}});
  });
  const Tensor wide = randn({4, 3, 3, 3}, rng);
  const OnnxFile up = exported(
      [&](auto& x) {
        return conv_transpose2d(x[0], wide, {}, {.stride = 2, .padding = 1, .output_padding = 1});
      },
      pictures);
  CHECK(up.node("ConvTranspose").integers("output_padding") == Ints{1, 1});
}

TEST_CASE("onnx: pooling with ceil_mode is padded for the windows that end behind the elements") {
  Rng rng(3);
  auto pictures = [&](int64_t side) {
    return std::vector<OnnxTensors>{{randn({2, 1, side, side}, rng)},
                                    {randn({5, 1, side, side}, rng)}};
  };
  auto pads = [&](const std::string& op, int64_t side, const Fn& fn) {
    return exported(fn, pictures(side)).node(op).integers("pads");
  };
  auto average = [](auto& x) { return avg_pool2d(x[0], {.kernel = 2, .ceil_mode = true}); };
  CHECK(pads("Conv", 3, average) == Ints{0, 0, 1, 1});  // two windows, the second over one element
  CHECK(pads("Conv", 3, [](auto& x) { return avg_pool2d(x[0], {.kernel = 2}); }) ==
        Ints{0, 0, 0, 0});
  // A third window of 2 would begin at 6, behind the elements and behind this padding.
  const Fn far = [](auto& x) {
    return max_pool2d(x[0], {.kernel = 2, .stride = 3, .padding = 1, .ceil_mode = true});
  };
  CHECK(pads("MaxPool", 5, far) == Ints{1, 1, 1, 1});
  CHECK(exported(far, pictures(5)).node("MaxPool").integer("ceil_mode") == 0);
  CHECK(exported([](auto& x) { return max_pool2d(x[0], {.kernel = 2, .ceil_mode = true}); },
                 pictures(5))
            .node("MaxPool")
            .integer("ceil_mode") == 1);
  // onnxruntime refuses padding of the kernel's size, without its dilation.
  const OnnxFile dilated = exported(
      [](auto& x) {
        return max_pool2d(x[0], {.kernel = 2, .stride = 4, .dilation = 2, .ceil_mode = true});
      },
      pictures(9));
  CHECK(dilated.ops() == Texts{"Pad", "MaxPool"});
  CHECK(dilated.tensors.at(dilated.node("Pad").inputs.at(1)).values<int64_t>() ==
        Ints{0, 0, 0, 0, 0, 0, 1, 1});
  CHECK(dilated.tensors.at(dilated.node("Pad").inputs.at(2)).values<float>() ==
        std::vector<float>{-std::numeric_limits<float>::infinity()});
  CHECK(dilated.node("MaxPool").integers("pads") == Ints{0, 0, 1, 1});
  std::vector<OnnxTensors> open;
  for (const int64_t t : {8, 12, 20}) open.push_back({randn({2, 3, t}, rng)});
  check_refused(
      "conv1d (part of avg_pool1d): average pooling with ceil_mode needs an axis 2 of one size in "
      "all",
      [](auto& x) { return avg_pool1d(x[0], {.kernel = 2, .ceil_mode = true}); }, open);
}

TEST_CASE("onnx: attention is an op of opset 23") {
  Rng rng(1);
  std::vector<OnnxTensors> heads;
  for (const auto& [n, t] : {std::pair{2, 7}, {3, 12}, {5, 20}})
    heads.push_back({randn({n, 6, t, 4}, rng), randn({n, 3, t, 4}, rng)});
  const Fn plain = [](auto& x) { return attention(x[0], x[1], x[1]); };
  CHECK(exported(plain, heads, {}, {.opset = 23}).ops() == Texts{"Attention"});
  // A head of keys serves two of queries.
  CHECK(exported(plain, heads).ops().front() == "Reshape");
  const OnnxFile causal = exported(
      [](auto& x) { return attention(x[0], x[1], x[1], {.mask = {.causal = 0}, .scale = 0.25}); },
      heads, {}, {.opset = 23});
  CHECK(causal.node("Attention").real("scale") == 0.25F);
  CHECK(causal.node("Attention").inputs.size() == 4);
  const Fn biased = [](auto& x) {
    return attention(x[0], x[1], x[1], {.mask = {.bias = zeros({1})}});
  };
  const Texts parts = exported(biased, heads, {}, {.opset = 23}).ops();
  CHECK(std::count(parts.begin(), parts.end(), "Attention") == 0);
}

TEST_CASE("onnx: recurrent layers run over any length") {
  Rng rng(1);
  const std::vector<OnnxTensors> examples = {{randn({2, 7, 3}, rng), tensor({4, 7})},
                                             {randn({3, 12, 3}, rng), tensor({1, 9, 12})},
                                             {randn({5, 20, 3}, rng), tensor({20, 7, 1, 3, 5})}};
  const nn::Lstm lstm(3, 4, rng, {.bidirectional = true});
  const NamedTensors state = nn::state_dict(lstm);
  const OnnxFile file =
      exported([&](auto& x) { return lstm(x[0], {.lengths = x[1]}).output; }, examples, state);
  CHECK(file.outputs[0].shape == Texts{"N", "T", "8"});
  const test::OnnxNode& forward = file.node("LSTM");
  CHECK(forward.integer("hidden_size") == 4);
  CHECK(forward.text("direction") == "forward");
  REQUIRE(forward.inputs.size() == 7);
  CHECK(!forward.inputs[4].empty());  // lengths
  CHECK(forward.inputs[5].empty());   // zeros at first
  CHECK(forward.outputs.size() == 3);
  for (const auto& entry : state) CHECK_MESSAGE(file.tensors.contains(entry.first), entry.first);
  const nn::Gru gru(3, 4, rng, {.bias = nn::Bias::no});
  const OnnxFile last =
      exported([&](auto& x) { return gru(x[0]).state.h; }, examples, nn::state_dict(gru));
  CHECK(last.outputs[0].shape == Texts{"1", "N", "4"});
  CHECK(last.node("GRU").integer("linear_before_reset") == 1);
  CHECK(last.node("GRU").inputs[3].empty());
}

TEST_CASE("onnx: a recurrent layer with one of its biases has zeros for the other") {
  Rng rng(1);
  const Tensor in = randn({12, 3}, rng), back = randn({12, 4}, rng), bias = ones({12});
  auto biases = [&](const Tensor& b_ih, const Tensor& b_hh) {
    const OnnxFile file = exported(
        [&](auto& x) {
          return rnn_states(RnnKind::gru, x[0], {in, back, b_ih, b_hh}).h;
        },
        {{randn({7, 2, 3}, rng)}, {randn({7, 5, 3}, rng)}});
    Ints out;  // the first element of each, 2 where nodes compute it
    for (const std::string& part : file.node("Concat").inputs)
      out.push_back(file.tensors.contains(part)
                        ? static_cast<int64_t>(file.tensors.at(part).values<float>().at(0))
                        : 2);
    return out;
  };
  CHECK(biases(bias, {}) == Ints{2, 0});
  CHECK(biases({}, bias) == Ints{0, 2});
  CHECK(biases(bias, bias) == Ints{2, 2});
}

}  // namespace
}  // namespace tern::test_forms

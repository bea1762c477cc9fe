// The export to ONNX: the file's structure, names, types and symbolic sizes, for single ops and for
// models, and what it refuses. What the files compute: tests/onnxruntime.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <filesystem>

#include "tern/core/base/rng.h"
#include "tern/core/io/atomic_file.h"
#include "tern/core/ops/attention/attention.h"
#include "tern/core/ops/convolution/conv.h"
#include "tern/core/ops/convolution/interpolate.h"
#include "tern/core/ops/convolution/pooling.h"
#include "tern/core/ops/einsum/einsum.h"
#include "tern/core/ops/elementwise/elementary.h"
#include "tern/core/ops/ops.h"
#include "tern/core/ops/scans/linear_scan.h"
#include "tern/core/ops/statistics/statistics.h"
#include "tern/core/tape/record.h"
#include "tern/models/airbench.h"
#include "tern/models/bert.h"
#include "tern/models/gmlp.h"
#include "tern/models/gpt.h"
#include "tern/models/resnet.h"
#include "tern/models/state_tensors.h"
#include "tern/models/vit.h"
#include "tern/onnx/onnx_step.h"
#include "tern/tests/onnx/onnx_reader.h"
#include "tern/tests/support/errors.h"
#include "tern/tests/support/tensors.h"

namespace tern::test_onnx {
namespace {

using test::contains, test::error_of, test::OnnxFile, test::OnnxTensor, test::TempDir;
using Texts = std::vector<std::string>;
using Ints = std::vector<int64_t>;
using Fn = std::function<Tensor(const OnnxTensors&)>;

constexpr uint64_t kFloat = 1, kInt64 = 7;

/// Examples of inputs (N, 3, 4) with N = 2 and 5.
std::vector<OnnxTensors> cubes() {
  Rng rng(1);
  return {{randn({2, 3, 4}, rng)}, {randn({5, 3, 4}, rng)}};
}

/// Token ids (N, T).
std::vector<OnnxTensors> texts(int64_t vocab) {
  Rng rng(1);
  return {{randint(0, vocab, {2, 7}, rng)},
          {randint(0, vocab, {5, 12}, rng)},
          {randint(0, vocab, {3, 20}, rng)}};
}

OnnxFile exported(const Fn& fn, const std::vector<OnnxTensors>& examples = cubes(),
                  const NamedTensors& state = {}, const OnnxOptions& options = {}) {
  const TempDir dir;
  export_onnx(
      dir / "model.onnx", [&](const OnnxTensors& x) { return OnnxTensors{fn(x)}; }, state, examples,
      options);
  return OnnxFile(dir / "model.onnx");
}

template <class M>
OnnxFile exported_model(const M& model, const std::vector<OnnxTensors>& examples,
                        const OnnxOptions& options = {}) {
  const TempDir dir;
  export_onnx(dir / "model.onnx", model, examples, options);
  return OnnxFile(dir / "model.onnx");
}

std::string refused(const Fn& fn, const std::vector<OnnxTensors>& examples = cubes(),
                    const NamedTensors& state = {}, const OnnxOptions& options = {}) {
  return error_of([&] { return exported(fn, examples, state, options).nodes.size(); });
}

struct Mlp {
  nn::Linear up, down;
  nn::Dropout dropout;
  explicit Mlp(Rng& rng) : up(4, 8, rng), down(8, 2, rng), dropout(0.5, rng) {}
  Tensor operator()(const Tensor& x) const {
    return down(dropout(up(x, {.activation = Activation::relu})));
  }
  static void fields(auto& m, auto&& visit) {
    visit("up", m.up), visit("down", m.down), visit("dropout", m.dropout);
  }
};

TEST_CASE("onnx: a model's file has its ops, its weights by name, and its sizes") {
  Rng rng(1);
  const Mlp model(rng);
  const OnnxFile file = exported_model(
      model, {{randn({2, 4}, rng)}, {randn({5, 4}, rng)}},
      {.inputs = {"x"}, .outputs = {"y"}, .sizes = {"batch"}, .metadata = {{"classes", "[]"}}});
  CHECK(file.ops() == Texts{"Transpose", "MatMul", "Add", "Relu", "Transpose", "MatMul", "Add"});
  CHECK(model.dropout.training);  // as before
  REQUIRE(file.inputs.size() == 1);
  CHECK(file.inputs[0].name == "x");
  CHECK(file.inputs[0].type == kFloat);
  CHECK(file.inputs[0].shape == Texts{"batch", "4"});
  CHECK(file.outputs[0].name == "y");
  CHECK(file.outputs[0].type == kFloat);
  CHECK(file.outputs[0].shape == Texts{"batch", "2"});
  CHECK(file.metadata == std::map<std::string, std::string>{{"classes", "[]"}});
  REQUIRE(file.tensors.size() == 4);
  const OnnxTensor& weight = file.tensors.at("up.weight");
  CHECK(weight.type == kFloat);
  CHECK(weight.shape == Ints{8, 4});
  CHECK(weight.values<float>() == model.up.weight.tensor().to_vector<float>());
  CHECK(file.nodes[0].inputs == Texts{"up.weight"});
  CHECK(file.nodes[0].integers("perm") == Ints{1, 0});
  CHECK(file.nodes[0].name == "up/Transpose_0");
}

/// Checks what an op becomes: its ONNX ops, separated by spaces.
void check_ops(const std::string& name, const std::string& ops,
               const std::vector<OnnxTensors>& examples, const Fn& fn) {
  CAPTURE(name);
  CHECK(fmt::format("{}", fmt::join(exported(fn, examples).ops(), " ")) == ops);
}
void check_ops(const std::string& name, const std::string& ops, const Fn& fn) {
  check_ops(name, ops, cubes(), fn);
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
  check_ops("gelu", "Div Erf Add Mul Mul", [](auto& x) { return gelu(x[0]); });
  check_ops("gelu, tanh", "Mul Mul Mul Add Mul Tanh Add Mul Mul",
            [](auto& x) { return gelu(x[0], Gelu::tanh); });
  check_ops("glu", "Slice Slice Sigmoid Mul", [](auto& x) { return glu(x[0]); });
  check_ops("clamp", "Clip", [](auto& x) { return clamp(x[0], {}, 2); });
  check_ops("cast", "Cast", [](auto& x) { return x[0].to(DType::i64); });
  check_ops("types", "Cast Mul", [](auto& x) { return x[0] * ones({4}, DType::i64); });
  check_ops("where", "Greater Where", [](auto& x) { return where(gt(x[0], 0), x[0], 1); });
  check_ops("ne", "Equal Not Where", [](auto& x) { return where(ne(x[0], 0), x[0], 1); });
  check_ops("logic", "Greater Less And Cast", [](auto& x) {
    const Tensor above = gt(x[0], 0);
    return logical_and(above, lt(x[0], 1));
  });
  const OnnxFile leaky = exported([](auto& x) { return leaky_relu(x[0], 0.25); });
  CHECK(leaky.node("LeakyRelu").real("alpha") == 0.25F);
  const OnnxFile elu_file = exported([](auto& x) { return elu(x[0], 0.5); });
  CHECK(elu_file.node("Elu").real("alpha") == 0.5F);
  const OnnxFile clip = exported([](auto& x) { return clamp(x[0], -1, {}); });
  REQUIRE(clip.node("Clip").inputs.size() == 3);
  CHECK(clip.tensors.at(clip.node("Clip").inputs[1]).values<float>() == std::vector<float>{-1});
  CHECK(clip.node("Clip").inputs[2].empty());
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
  check_ops("roll", "Slice Slice Concat", [](auto& x) { return roll(x[0], {-1}, {1}); });
  check_ops("cat", "Concat", [](auto& x) { return cat({x[0], x[0]}, 2); });
  check_ops("stack", "Unsqueeze Unsqueeze Concat", [](auto& x) { return stack({x[0], x[0]}, 1); });
  check_ops("pad", "Pad", [](auto& x) { return pad(x[0], {1, 2}); });
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

TEST_CASE("onnx: reductions, norms, indexing") {
  check_ops("sum of integers", "ReduceSum", texts(9), [](auto& x) { return sum(x[0], 1); });
  check_ops("square of integers", "Relu Mul Cast Mul", texts(9),
            [](auto& x) { return square(relu(x[0])) * 0.5; });
  check_ops("sum", "ReduceSum", [](auto& x) { return sum(x[0], {1, 2}); });
  check_ops("mean", "ReduceMean", [](auto& x) { return mean(x[0], -1, true); });
  check_ops("amax", "ReduceMax", [](auto& x) { return amax(x[0], 1); });
  check_ops("argmax", "ArgMax", [](auto& x) { return argmax(x[0], 1); });
  check_ops("max", "ArgMax Reshape Cast GatherElements Reshape",
            [](auto& x) { return max(x[0], 1).values; });
  check_ops("norm", "ReduceL2", [](auto& x) { return norm(x[0], 2, 1); });
  check_ops("logsumexp", "ReduceLogSumExp", [](auto& x) { return logsumexp(x[0], 1); });
  check_ops("one_hot", "Unsqueeze Equal Cast", texts(9), [](auto& x) { return one_hot(x[0], 9); });
  check_ops("cumsum", "CumSum", [](auto& x) { return cumsum(x[0], 1); });
  check_ops("softmax", "Softmax", [](auto& x) { return softmax(x[0], -1); });
  check_ops("log_softmax", "Transpose LogSoftmax Transpose",
            [](auto& x) { return log_softmax(x[0], 1); });
  check_ops("masked softmax", "Greater Where Softmax Where",
            [](auto& x) { return softmax(x[0], -1, gt(x[0], 0)); });
  check_ops("layer_norm", "Expand LayerNormalization", [](auto& x) { return layer_norm(x[0], 4); });
  check_ops("rms_norm", "Mul ReduceMean Add Sqrt Reciprocal Mul",
            [](auto& x) { return rms_norm(x[0], 4); });
  check_ops("embedding", "Cast Gather", texts(8), [](auto& x) {
    return embedding(x[0], reshape(arange(0, 24, 1, DType::f32), {8, 3}));
  });
  const OnnxFile norm = exported([](auto& x) { return layer_norm(x[0], {3, 4}, {}, {}, 0.25); });
  CHECK(norm.node("LayerNormalization").integer("axis") == -2);
  CHECK(norm.node("LayerNormalization").real("epsilon") == 0.25F);
  const OnnxFile mean_file = exported([](auto& x) { return mean(x[0], {0, 2}, true); });
  CHECK(mean_file.node("ReduceMean").integers("axes") == Ints{0, 2});
  CHECK(mean_file.node("ReduceMean").integer("keepdims") == 1);
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

/// The output's sizes, as the file names them.
Texts shape_of(const Fn& fn, const std::vector<OnnxTensors>& examples) {
  return exported(fn, examples).outputs[0].shape;
}

TEST_CASE("onnx: sizes that differ between the examples have names") {
  const std::vector<OnnxTensors> t = texts(9);
  CHECK(shape_of([](auto& x) { return x[0] + 1; }, t) == Texts{"N", "T"});
  CHECK(shape_of([](auto& x) { return flatten(x[0]); }, t) == Texts{"N*T"});
  CHECK(shape_of([](auto& x) { return cat({x[0], x[0]}, 1); }, t) == Texts{"N", "2*T"});
  CHECK(shape_of([](auto& x) { return pad(x[0], {1, 0}); }, t) == Texts{"N", "T+1"});
  CHECK(shape_of([](auto& x) { return slice(x[0], 1, 0, -2); }, t) == Texts{"N", "T-2"});
  CHECK(shape_of([](auto& x) { return arange(0, x[0].size(1)); }, t) == Texts{"T"});
  CHECK(shape_of([](auto& x) { return arange(0, x[0].size(0) + x[0].size(1)); }, t) ==
        Texts{"N+T"});
  CHECK(shape_of([](auto& x) { return arange(1, x[0].size(0) + x[0].size(1)); }, t) ==
        Texts{"N+T-1"});
  CHECK(exported([](auto& x) { return tril(x[0]); }, t).ops() ==
        Texts{"Shape", "Shape", "Concat", "Expand", "Trilu", "Cast", "Where"});
  const OnnxFile ratio = exported([](auto& x) { return x[0] / x[0].size(1); }, t);
  CHECK(ratio.ops() == Texts{"Cast", "Shape", "Squeeze", "Cast", "Div"});
  CHECK(ratio.node("Shape").integer("start") == 1);
  // Reshapes leave one size open and copy others; more are computed.
  const OnnxFile split = exported([](auto& x) { return unflatten(x[0], 0, {x[0].size(0), 1}); }, t);
  CHECK(split.ops() == Texts{"Reshape"});
  const OnnxFile swapped = exported(
      [](auto& x) {
        return reshape(x[0], {x[0].size(1), x[0].size(0)});
      },
      t);
  CHECK(swapped.ops() == Texts{"Shape", "Concat", "Reshape"});
  CHECK(swapped.node("Shape").integer("start") == 1);
  CHECK(swapped.node("Shape").integer("end") == 2);
  const OnnxFile full_file = exported(
      [](auto& x) {
        return x[0] * full({x[0].size(0) * x[0].size(1) * 2, 1, 1}, 3);
      },
      t);
  CHECK(full_file.ops() ==
        Texts{"Shape", "Shape", "Mul", "Mul", "Concat", "Expand", "Cast", "Mul"});
}

TEST_CASE("onnx: an ambiguous size is refused, and one more example helps") {
  Rng rng(1);
  auto with = [&](Ints sizes) {  // of N and T
    return OnnxTensors{randn({sizes[0], sizes[1]}, rng)};
  };
  const Fn twice = [](auto& x) { return full({2 * x[0].size(0)}, 1) * sum(x[0]); };
  const std::string error = refused(twice, {with({2, 5}), with({3, 7}), with({5, 11})});
  CHECK_MESSAGE(contains(error, "4, 6, 10"), error);
  CHECK_MESSAGE(contains(error, "2*N or T-1"), error);
  CHECK(
      exported(twice, {with({2, 5}), with({3, 7}), with({5, 11}), with({4, 6})}).outputs[0].shape ==
      Texts{"2*N"});
}

TEST_CASE("onnx: a size behind a stride is taken from the tensor that has it") {
  Rng rng(1);
  const Tensor w = randn({6, 3, 3}, rng);
  const Fn rows = [&](auto& x) {
    const Tensor y = conv1d(x[0], w, {}, {.stride = 2, .padding = 1});
    return y + full({y.size(2)}, 1);
  };
  auto with = [&](int64_t n, int64_t t) { return OnnxTensors{randn({n, 3, t}, rng)}; };
  const OnnxFile file = exported(rows, {with(2, 7), with(5, 12), with(3, 20)});
  CHECK(file.outputs[0].shape == Texts{"N", "6", "size_2"});
  CHECK(file.node("Shape").inputs == file.node("Conv").outputs);
  CHECK(file.node("Shape").integer("start") == 2);
  // 4, 6 and 10 steps could be 2 N here.
  const std::string error = refused(rows, {with(2, 7), with(3, 12), with(5, 20)});
  CHECK_MESSAGE(contains(error, "4, 6, 10 in the examples may be 2*N or"), error);
  const Tensor wide = randn({6, 3, 3}, rng);
  const std::string same =
      refused([&](auto& x) { return conv1d(x[0], wide, {}, {.stride = 32, .padding = 1}); },
              {with(2, 7), with(5, 12), with(3, 20)});
  CHECK_MESSAGE(contains(same, "conv1d: its axis 2 has the size 1 for the sizes 7, 12, 20"), same);
  const Fn slices = [](auto& x) { return slice(x[0], 1, {}, {}, 2) * 2; };
  CHECK(exported(slices, texts(9)).outputs[0].shape == Texts{"N", "size_2"});
}

TEST_CASE("onnx: what cannot be exported is refused with op and module") {
  Rng rng(1);
  const nn::Linear linear(4, 4, rng);
  const NamedTensors state = nn::state_dict(linear, "up");
  std::string error = refused([&](auto& x) { return cumprod(linear(x[0]), -1); }, cubes(), state);
  CHECK_MESSAGE(contains(error, "cumprod in module up: the export does not know this op"), error);
  error = refused([](auto& x) { return unfold(x[0], 2, 2, 1); });
  CHECK_MESSAGE(contains(error, "unfold: the export can write this op only where"), error);
  error = refused(
      [](auto& x) { return x[0] * tensor(x[0].template to_vector<float>(), x[0].shape()); });
  CHECK_MESSAGE(contains(error, "tensor: the export can write this op only where"), error);
  error = refused([](auto& x) { return x[0] * sum(x[0]).item(); });
  CHECK_MESSAGE(contains(error, "in mul differs between the examples"), error);
  error = refused([](auto& x) { return x[0] * (1.0 / x[0].size(0)); });
  CHECK_MESSAGE(contains(error, "in mul differs between the examples"), error);
  error = refused([](auto& x) {
    const Tensor y = x[0] * 2;
    y += 1;
    return y * 3;
  });
  CHECK_MESSAGE(contains(error, "in mul was written in place"), error);
  error = refused([](auto& x) {
    return not_differentiable(Fresh::view(x[0], slice(x[0].layout(), 2, 0, 2, 1))) * 3;
  });
  CHECK_MESSAGE(contains(error, "in mul is a view that no op made"), error);
  error = refused([](auto& x) { return x[0].size(0) == 2 ? exp(x[0]) : log(x[0]); });
  CHECK_MESSAGE(contains(error, "op 0 is exp in the first, but log in another"), error);
  error = refused([](auto& x) { return x[0].size(0) == 2 ? x[0] * 2 : x[0] * 2 * 2; });
  CHECK_MESSAGE(contains(error, "run different ops"), error);
  Rng noise(2);
  error = refused([&](auto& x) { return dropout(x[0], 0.5, noise); });
  CHECK_MESSAGE(contains(error, "dropout: it is in training; export in evaluation mode"), error);
  error = refused([](auto& x) { return batch_norm(x[0], {}, {}, {}, {}, {.training = true}); });
  CHECK_MESSAGE(contains(error, "batch_norm: it is in training"), error);
  const Tensor count = zeros({1});
  error = refused(
      [&](auto& x) {
        const Tensor y = x[0] + count;
        NoGradGuard no_grad;
        add_(count, ones({1}));
        return y;
      },
      cubes(), {{"count", count}});
  CHECK_MESSAGE(contains(error, "is count, which the model writes to"), error);
  // Ops that no output needs are no matter.
  CHECK(exported([](auto& x) {
          static_cast<void>(cumprod(x[0], -1));
          return x[0] * 2;
        }).ops() == Texts{"Mul"});
}

TEST_CASE("onnx: arguments are checked, and an old file stays") {
  Rng rng(1);
  const Fn twice = [](auto& x) { return x[0] * 2; };
  const Tensor a = randn({2, 3}, rng), b = randn({5, 3}, rng);
  CHECK(contains(refused(twice, {{a}}), "at least two examples, got 1"));
  CHECK(contains(refused(twice, {{a}, {b, b}}), "one example has 1 inputs, another 2"));
  CHECK(contains(refused(twice, {{a}, {b.to(DType::f64)}}), "the same type"));
  CHECK(contains(refused(twice, {{ones({2, 3})}, {ones({5, 3})}}), "input is 1 everywhere"));
  CHECK(contains(refused(twice, {{a}, {b}}, {{"w", b}}, {.inputs = {"w"}}),
                 "'w' is empty or is used"));
  CHECK(contains(refused(twice, {{a}, {b}}, {}, {.inputs = {"x", "z"}}), "2 names for 1 inputs"));
  CHECK(contains(refused(twice, {{a}, {b}}, {}, {.outputs = {"x", "z"}}), "2 names for 1 outputs"));
  CHECK(
      contains(refused(twice, {{a}, {b}}, {}, {.sizes = {"N", "C"}}), "2 sizes have names, but 1"));
  CHECK(contains(refused(twice, {{a}, {b}}, {}, {.opset = 18}), "tern writes 17 and 23"));
  CHECK(contains(refused(twice, {{a}, {randn({3, 3}, rng)}}), "N is 2, 3 in the examples"));
  CHECK(contains(refused(twice, {{a}, {b}, {a}}), "N is 2, 5, 2 in the examples"));
  CHECK(contains(refused(twice, {{a}, {randn({5, 7}, rng)}}), "(N and T); give three examples"));
  CHECK(contains(refused(twice, texts(9), {}, {.sizes = {"T"}}), "two sizes have the name T"));
  const std::string nothing = error_of([&] {
    export_onnx("none.onnx", [](const OnnxTensors&) { return OnnxTensors(); }, NamedTensors(),
                {{a}, {b}});
  });
  CHECK_MESSAGE(contains(nothing, "returns no outputs"), nothing);
  const TempDir dir;
  const std::string path = test::write_file(dir / "model.onnx", "old");
  auto fn = [](const OnnxTensors& x) { return OnnxTensors{cumprod(x[0], -1)}; };
  CHECK_THROWS_AS(export_onnx(path, fn, NamedTensors(), {{a}, {b}}), Error);
  CHECK(test::read_file(path) == "old");
  CHECK_THROWS_AS(export_onnx(dir / "none/model.onnx",
                              [](const OnnxTensors& x) { return OnnxTensors{x[0] * 2}; },
                              NamedTensors(), {{a}, {b}}),
                  WriteError);
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(dir.path())) files += entry.exists();
  CHECK(files == 1);
}

/// The names of parameters and buffers that are in the file, against those of the model.
template <class M>
void check_weights(const M& model, const OnnxFile& file, const std::set<std::string>& unused = {}) {
  for (const auto& entry : nn::state_dict(model)) {
    const std::string& name = entry.first;
    if (nn::is_batch_count(name) || unused.contains(name)) continue;
    CAPTURE(name);
    REQUIRE(file.tensors.contains(name));
    CHECK(file.tensors.at(name).template values<float>() ==
          entry.second.template to_vector<float>());
  }
}

TEST_CASE("onnx: models of pictures") {
  Rng rng(1);
  const std::vector<OnnxTensors> pictures = {{randn({2, 3, 32, 32}, rng)},
                                             {randn({4, 3, 32, 32}, rng)}};
  auto check_model = [&](const auto& model) {
    const OnnxFile file = exported_model(model, pictures);
    CHECK(file.outputs[0].shape == Texts{"N", "10"});
    check_weights(model, file);
  };
  check_model(models::Gmlp({.patch = 8, .dim = 16, .layers = 2, .fc_dim = 0}, rng));
  check_model(models::Vit(
      {.image = 32, .patch = 8, .dim = 12, .layers = 2, .heads = 3, .classes = 10}, rng));
  check_model(models::ResNet({.layers = {1, 1}, .classes = 10, .width = 4}, rng));
  check_model(models::Airbench({.widths = {8, 8}}, rng));
}

TEST_CASE("onnx: models of text") {
  Rng rng(1);
  const models::GptOptions small{.vocab = 20, .context = 32, .dim = 16, .layers = 2, .heads = 2};
  for (const models::GptOptions& o : {small, models::llama_form(small)}) {
    const models::Gpt gpt(o, rng);
    const OnnxFile file = exported_model(gpt, texts(20), {.inputs = {"tokens"}});
    CHECK(file.inputs[0].type == kInt64);
    CHECK(file.inputs[0].shape == Texts{"N", "T"});
    CHECK(file.outputs[0].shape == Texts{"N", "T", "20"});
    check_weights(gpt, file);
  }
  const models::Bert bert({.vocab = 20,
                           .dim = 16,
                           .layers = 1,
                           .heads = 2,
                           .ffn = 16,
                           .positions = 32,
                           .next_sentence = false},
                          rng);
  const TempDir dir;
  std::vector<OnnxTensors> examples = texts(20);
  examples[0].push_back(tensor({4, 7}));
  examples[1].push_back(tensor({12, 7, 1, 3, 5}));
  examples[2].push_back(tensor({20, 1, 9}));
  export_onnx(dir / "bert.onnx", bert,
              [&](const OnnxTensors& x) {
                return OnnxTensors{
                    bert.words(bert.bert({.tokens = x[0], .mask = nn::Mask::lengths(x[1])}))};
              },
              examples, {.inputs = {"tokens", "lengths"}, .outputs = {"words"}});
  const OnnxFile file(dir / "bert.onnx");
  CHECK(file.inputs[1].shape == Texts{"N"});
  CHECK(file.outputs[0].shape == Texts{"N", "T", "20"});
  check_weights(bert, file);
}

TEST_CASE("onnx: opset 23 has ops that 17 writes as their parts") {
  Rng rng(1);
  const Tensor w = randn({4}, rng);
  auto ops = [](const Fn& fn, int opset, const std::vector<OnnxTensors>& examples = cubes()) {
    const OnnxFile file = exported(fn, examples, {}, {.opset = opset});
    CHECK(file.opset == static_cast<uint64_t>(opset));
    return file.ops();
  };
  const Fn norm = [&](auto& x) { return rms_norm(x[0], 4, w); };
  CHECK(ops(norm, 17) == Texts{"Mul", "ReduceMean", "Add", "Sqrt", "Reciprocal", "Mul", "Mul"});
  CHECK(ops(norm, 23) == Texts{"RMSNormalization"});
  CHECK(ops([](auto& x) { return gelu(x[0], Gelu::tanh); }, 23) == Texts{"Gelu"});
  const OnnxFile mean_file =
      exported([](auto& x) { return mean(x[0], 1); }, cubes(), {}, {.opset = 23});
  CHECK(mean_file.node("ReduceMean").inputs.size() == 2);
  std::vector<OnnxTensors> heads;
  for (const auto& [n, t] : {std::pair{2, 7}, {3, 12}, {5, 20}})
    heads.push_back({randn({n, 6, t, 4}, rng), randn({n, 3, t, 4}, rng)});
  const Fn plain = [](auto& x) { return attention(x[0], x[1], x[1]); };
  CHECK(ops(plain, 23, heads) == Texts{"Attention"});
  CHECK(ops(plain, 17, heads).front() == "Reshape");  // a head of keys serves two of queries
  const OnnxFile causal = exported(
      [](auto& x) { return attention(x[0], x[1], x[1], {.mask = {.causal = 0}, .scale = 0.25}); },
      heads, {}, {.opset = 23});
  CHECK(causal.node("Attention").real("scale") == 0.25F);
  CHECK(causal.node("Attention").inputs.size() == 4);
  const Fn biased = [](auto& x) {
    return attention(x[0], x[1], x[1], {.mask = {.bias = zeros({1})}});
  };
  const Texts parts = ops(biased, 23, heads);
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

TEST_CASE("onnx: a step with a state has the state's tensors as inputs and outputs") {
  Rng rng(1);
  const models::Gpt gpt(
      {.vocab = 20, .context = 32, .dim = 16, .layers = 2, .heads = 2, .dropout = 0}, rng);
  NoGradGuard no_grad;
  auto example = [&](int64_t texts, int64_t past, int64_t tokens) {
    return OnnxStepExample<models::GptState>{{randint(0, 20, {texts, tokens}, rng)},
                                             gpt.encode(randint(0, 20, {texts, past}, rng))};
  };
  auto step = [&](const OnnxTensors& x, const models::GptState& state) {
    auto y = gpt.extend(state, x[0]);
    return std::pair(OnnxTensors{y.logits}, y.state);
  };
  const TempDir dir;
  const std::string said =
      export_onnx_step(dir / "gpt.onnx", gpt, step,
                       std::vector{example(3, 4, 2), example(2, 3, 5), example(5, 11, 7)},
                       {.inputs = {"tokens"}, .outputs = {"logits"}, .sizes = {"N", "T", "P"}});
  CHECK(said ==
        "tokens i64 (N, T), past.0.keys ... past.1.values f32 (N, 2, P, 8) to logits f32 (N, T, "
        "20), present.0.keys ... present.1.values f32 (N, 2, T+P, 8)");
  const OnnxFile file(dir / "gpt.onnx");
  Texts inputs, outputs;
  for (const test::OnnxInfo& i : file.inputs) inputs.push_back(i.name);
  for (const test::OnnxInfo& o : file.outputs) outputs.push_back(o.name);
  CHECK(inputs == Texts{"tokens", "past.0.keys", "past.0.values", "past.1.keys", "past.1.values"});
  CHECK(outputs == Texts{"logits", "present.0.keys", "present.0.values", "present.1.keys",
                         "present.1.values"});
  CHECK(file.inputs[2].shape == Texts{"N", "2", "P", "8"});
}

TEST_CASE(
    "onnx: inputs of every type and no axis, outputs without elements, one weight of two names") {
  Rng rng(1);
  const Tensor w = randn({9, 6}, rng);
  const TempDir dir;
  auto fn = [&](const OnnxTensors& x) {
    const Tensor y = embedding(x[0], w) * x[2] + unsqueeze(x[1].to(DType::f32), 1);
    return OnnxTensors{matmul(y, transpose(w, 0, 1)), narrow(y, 1, 6, 0),
                       reshape(narrow(y, 1, 6, 0), {x[0].size(0), 2, 0}), x[2], x[3]};
  };
  auto example = [&](int64_t n) {
    return OnnxTensors{randint(0, 9, {n}, rng), randint(0, 256, {n}, rng).to(DType::u8),
                       reshape(randn({1}, rng), {}), randn({n}, rng).to(DType::f64)};
  };
  const std::string said =
      export_onnx(dir / "all.onnx", fn, {{"table", w}, {"head", w}}, {example(2), example(4)});
  CHECK(said ==
        "input_0 i64 (N), input_1 u8 (N), input_2 f32 (), input_3 f64 (N) to output_0 f32 (N, 9), "
        "output_1 f32 (N, 0), output_2 f32 (N, 2, 0), output_3 f32 (), output_4 f64 (N)");
  const OnnxFile file(dir / "all.onnx");
  CHECK(file.tensors.contains("table") != file.tensors.contains("head"));
  CHECK(file.node("Reshape").inputs.size() == 2);
}

TEST_CASE("onnx: weights in a file of their own") {
  Rng rng(1);
  const nn::Linear linear(16, 32, rng);
  const TempDir dir;
  export_onnx(dir / "apart.onnx", linear, {{randn({2, 16}, rng)}, {randn({5, 16}, rng)}},
              {.separate_weights = true});
  const OnnxFile file(dir / "apart.onnx");
  CHECK(file.tensors.at("weight").values<float>() == linear.weight.tensor().to_vector<float>());
  CHECK(file.tensors.at("bias").values<float>() == linear.bias.tensor().to_vector<float>());
  CHECK(std::filesystem::file_size(dir / "apart.onnx") < 1024);
  CHECK(std::filesystem::file_size(dir / "apart.onnx.data") == 4096);  // the bias is small
}

}  // namespace
}  // namespace tern::test_onnx

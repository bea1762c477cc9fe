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
#include "tern/tests/onnx/exported.h"
#include "tern/tests/support/tensors.h"

namespace tern::test_onnx {
namespace {

using test::check_refused, test::cubes, test::exported, test::Ints, test::Texts, test::texts;
using test::contains, test::error_of, test::OnnxFile, test::OnnxTensor, test::TempDir;
using Fn = test::OnnxFn;

constexpr uint64_t kFloat = 1, kInt64 = 7;

template <class M>
OnnxFile exported_model(const M& model, const std::vector<OnnxTensors>& examples,
                        const OnnxOptions& options = {}) {
  const TempDir dir;
  export_onnx(dir / "model.onnx", model, examples, options);
  return OnnxFile(dir / "model.onnx");
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
  check_refused("4, 6, 10 in the examples may be 2*N or T-1", twice,
                {with({2, 5}), with({3, 7}), with({5, 11})});
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
  check_refused("4, 6, 10 in the examples may be 2*N or", rows,
                {with(2, 7), with(3, 12), with(5, 20)});
  // 4, 6 and 10 steps are N itself here, by chance.
  check_refused("4, 6, 10 in the examples may be N or size_2", rows,
                {with(4, 7), with(6, 12), with(10, 20)});
  const OnnxFile chance =
      exported([&](auto& x) { return conv1d(x[0], w, {}, {.stride = 2, .padding = 1}); },
               {with(4, 7), with(6, 12), with(10, 20)});
  CHECK(chance.inputs[0].shape == Texts{"N", "3", "T"});
  CHECK(chance.outputs[0].shape == Texts{"?", "6", "?"});
  const Tensor wide = randn({6, 3, 3}, rng);
  check_refused("conv1d: its axis 2 has the size 1 for the sizes 7, 12, 20",
                [&](auto& x) { return conv1d(x[0], wide, {}, {.stride = 32, .padding = 1}); },
                {with(2, 7), with(5, 12), with(3, 20)});
  const Fn slices = [](auto& x) { return slice(x[0], 1, {}, {}, 2) * 2; };
  CHECK(exported(slices, texts(9)).outputs[0].shape == Texts{"N", "size_2"});
}

TEST_CASE("onnx: what cannot be exported is refused with op and module") {
  Rng rng(1);
  const nn::Linear linear(4, 4, rng);
  const NamedTensors state = nn::state_dict(linear, "up");
  check_refused(
      "cumprod in module up: the export does not know this op",
      [&](auto& x) { return cumprod(linear(x[0]), -1); }, cubes(), state);
  check_refused("diagonal: the export can write this op only where",
                [](auto& x) { return diagonal(x[0], 0, 1, 2); });
  check_refused("tensor: the export can write this op only where", [](auto& x) {
    return x[0] * tensor(x[0].template to_vector<float>(), x[0].shape());
  });
  check_refused("in mul differs between the examples",
                [](auto& x) { return x[0] * sum(x[0]).item(); });
  check_refused("in mul differs between the examples",
                [](auto& x) { return x[0] * (1.0 / x[0].size(0)); });
  check_refused("in mul was written in place", [](auto& x) {
    const Tensor y = x[0] * 2;
    y += 1;
    return y * 3;
  });
  check_refused("in mul is a view that no op made", [](auto& x) {
    return not_differentiable(Fresh::view(x[0], slice(x[0].layout(), 2, 0, 2, 1))) * 3;
  });
  check_refused("op 0 is exp in the first, but log in another",
                [](auto& x) { return x[0].size(0) == 2 ? exp(x[0]) : log(x[0]); });
  check_refused("run different ops",
                [](auto& x) { return x[0].size(0) == 2 ? x[0] * 2 : x[0] * 2 * 2; });
  check_refused("tensor (part of interpolate): the export can write this op only where",
                [](auto& x) { return interpolate(x[0], {.scale_factor = 2.}); },
                {{randn({2, 3, 7}, rng)}, {randn({2, 3, 14}, rng)}});
  check_refused("3 ops in the first, but 9 in another, as in a loop over an axis", [](auto& x) {
    Tensor y = select(x[0], 0, 0);
    for (int64_t i = 0; i < 2 * x[0].size(0) - 2; ++i) y = exp(y);
    return y;
  });
  Rng noise(2);
  check_refused("dropout: it is in training; export in evaluation mode",
                [&](auto& x) { return dropout(x[0], 0.5, noise); });
  check_refused("batch_norm: it is in training, or has no running statistics",
                [](auto& x) { return batch_norm(x[0], {}, {}, {}, {}, {.training = true}); });
  const Tensor count = zeros({1});
  check_refused("is count, which the model writes to",
                [&](auto& x) {
                  const Tensor y = x[0] + count;
                  NoGradGuard no_grad;
                  add_(count, ones({1}));
                  return y;
                },
                cubes(), {{"count", count}});
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
  check_refused("at least two examples, got 1", twice, {{a}});
  check_refused("one example has 1 inputs, another 2", twice, {{a}, {b, b}});
  check_refused("the same type", twice, {{a}, {b.to(DType::f64)}});
  check_refused("input is 1 everywhere", twice, {{ones({2, 3})}, {ones({5, 3})}});
  check_refused("x is the same in all examples", [](auto& x) { return x[0] * sum(x[0]).item(); },
                {{a}, {a.clone()}}, {}, {.inputs = {"x"}});
  check_refused("input_1 is the same in all", twice, {{a, a}, {b, a}});
  CHECK(exported(twice, {{a}, {a * 2}}).ops() == Texts{"Mul"});
  check_refused("'w' is empty or is used", twice, {{a}, {b}}, {{"w", b}}, {.inputs = {"w"}});
  // Default names count too, and nodes get other names than the given ones.
  check_refused("'output' is empty or is used", twice, {{a}, {b}}, {}, {.inputs = {"output"}});
  check_refused("'output' is empty or is used", twice, {{a}, {b}}, {{"output", b}});
  check_refused("'w' is empty or is used", twice, {{a}, {b}}, {{"w", a}, {"w", b}});
  check_refused("the weight 'w' is undefined", twice, {{a}, {b}}, {{"w", Tensor()}});
  const OnnxFile slashes =
      exported(twice, {{a}, {b}}, {}, {.inputs = {"/Mul_0"}, .outputs = {"/constant_0"}});
  CHECK(slashes.node("Mul").inputs == Texts{"/Mul_0", "/constant_1"});
  CHECK(slashes.node("Mul").outputs == Texts{"/Mul_1"});
  check_refused("the name of size 0 is empty", twice, {{a}, {b}}, {}, {.sizes = {""}});
  CHECK(exported([](auto& x) { return slice(x[0], 1, {}, {}, 2); }, texts(9), {},
                 {.sizes = {"N", "size_2"}})
            .outputs[0]
            .shape == Texts{"N", "size_3"});
  check_refused("2 names for 1 inputs", twice, {{a}, {b}}, {}, {.inputs = {"x", "z"}});
  check_refused("2 names for 1 outputs", twice, {{a}, {b}}, {}, {.outputs = {"x", "z"}});
  check_refused("2 sizes have names, but 1", twice, {{a}, {b}}, {}, {.sizes = {"N", "C"}});
  check_refused("tern writes 17 and 23", twice, {{a}, {b}}, {}, {.opset = 18});
  check_refused("N is 2, 3 in the examples", twice, {{a}, {randn({3, 3}, rng)}});
  check_refused("N is 2, 5, 2 in the examples", twice, {{a}, {b}, {a}});
  check_refused("(N and T); give three examples", twice, {{a}, {randn({5, 7}, rng)}});
  check_refused("two sizes have the name T", twice, texts(9), {}, {.sizes = {"T"}});
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

/// A state with a number beside its tensors.
struct Counted {
  Tensor sum;
  int64_t tokens = 0;
};
Counted map_tensors(const Counted& state, const auto& fn) {
  return {fn("past.sum", state.sum), state.tokens};
}

TEST_CASE("onnx: a step reads what is no tensor from each example's own state") {
  Rng rng(1);
  const nn::Linear linear(4, 4, rng);
  auto example = [&](int64_t n, int64_t tokens) {
    return OnnxStepExample<Counted>{{randn({n, 4}, rng)}, {randn({n, tokens, 4}, rng), tokens}};
  };
  auto step = [&](const OnnxTensors& x, const Counted& state) {
    const Tensor mean = sum(state.sum, 1) / state.tokens;
    return std::pair(OnnxTensors{linear(x[0]) + mean}, state);
  };
  const TempDir dir;
  export_onnx_step(dir / "mean.onnx", linear, step,
                   std::vector{example(2, 7), example(5, 12), example(3, 20)},
                   {.inputs = {"x"}, .outputs = {"y"}});
  // The divisor is a size of the file's, not the first example's 7.
  const OnnxFile file(dir / "mean.onnx");
  CHECK(file.node("Shape").inputs == Texts{"past.sum"});
  CHECK(file.node("Shape").integer("start") == 1);
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

TEST_CASE("onnx: of two files that belong together both change, or none") {
  const TempDir dir;
  const std::string first = test::write_file(dir / "encoder.onnx", "old"),
                    second = test::write_file(dir / "decoder.onnx", "old");
  auto files_in = [&] {
    return std::distance(std::filesystem::directory_iterator(dir.path()), {});
  };
  auto write = [&](const Fn& fn, bool apart) {
    AtomicFiles files;
    const OnnxOptions options{.separate_weights = apart, .files = &files};
    export_onnx(
        first, [](const OnnxTensors& x) { return OnnxTensors{x[0] * 2}; }, NamedTensors(),
        test::cubes(), options);
    CHECK(test::read_file(first) == "old");
    export_onnx(
        second, [&](const OnnxTensors& x) { return OnnxTensors{fn(x)}; }, NamedTensors(),
        test::cubes(), options);
    files.commit();
  };
  for (bool apart : {false, true}) {
    CHECK_THROWS_AS(write([](auto& x) { return cumprod(x[0], -1); }, apart), Error);
    CHECK(test::read_file(first) == "old");
    CHECK(test::read_file(second) == "old");
    CHECK(files_in() == 2);
  }
  write([](auto& x) { return x[0] * 3; }, false);
  CHECK(OnnxFile(first).ops() == Texts{"Mul"});
  CHECK(OnnxFile(second).ops() == Texts{"Mul"});
  CHECK(files_in() == 2);
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

// check_module on every layer of nn and on modules with one fault each. The models of the zoo:
// tests/models/test_zoo.cpp.
#include <doctest/doctest.h>

#include <functional>

#include "tern/core/base/rng.h"
#include "tern/core/tape/record.h"
#include "tern/nn/nn.h"
#include "tern/tests/support/model_checks.h"

namespace tern::test::test_check_module {
namespace {

using Tensors = std::vector<Tensor>;

/// A row of the table: a name and the check of one module. A new module needs only a new line.
struct Row {
  std::string name;
  std::function<void(Rng&)> check;
};

Tensor ids(const Shape& shape, int64_t words, Rng& rng) { return randint(1, words, shape, rng); }

Tensor lengths(const std::vector<int64_t>& n) { return tensor(n, {std::ssize(n)}); }

const Shape kSequence = {3, 5, 8};
const nn::CheckModuleOptions kMixes = {.batch = nn::BatchRule::mixed_in_training};
/// For an output (B, T, H) followed by states (layers, B, H).
const nn::CheckModuleOptions kStates = {.output_axes = {0, 1, 1}};

/// A layer that takes one tensor of this shape.
template <class Make>
Row row(const std::string& name, const Shape& shape, const nn::CheckModuleOptions& options,
        Make make) {
  return {name, [=](Rng& rng) { nn::check_module(make(rng), {randn(shape, rng)}, options); }};
}
template <class Make>
Row row(const std::string& name, const Shape& shape, Make make) {
  return row(name, shape, nn::CheckModuleOptions(), make);
}

template <class M>
Row stateless(const std::string& name, const Shape& shape = kSequence) {
  return row(name, shape, [](Rng&) { return M(); });
}

Tensors all_of(const nn::RnnOutput& y) { return {y.output, y.state.h, y.state.c}; }
Tensors all_of(const Attended& y) { return {y.context, y.weights}; }
Tensors all_of(const nn::RnnState& y) { return {y.h, y.c}; }

std::vector<Row> small_layers() {
  using namespace nn;
  return {
      row("Linear", kSequence, [](Rng& r) { return Linear(8, 4, r); }),
      row("Linear without bias", {2, 8}, [](Rng& r) { return Linear(8, 1, r, Bias::no); }),
      {"Bilinear",
       [](Rng& r) {
         check_module(Bilinear(4, 3, 2, r), {randn({2, 5, 4}, r), randn({2, 5, 3}, r)});
       }},
      row("LayerNorm", kSequence, [](Rng&) { return LayerNorm({8}); }),
      row("LayerNorm of two axes", kSequence,
          [](Rng&) {
            return LayerNorm({5, 8});
          }),
      row("RmsNorm", kSequence, [](Rng&) { return RmsNorm({8}); }),
      row("GroupNorm", {2, 4, 3, 3}, [](Rng&) { return GroupNorm(2, 4); }),
      row("BatchNorm2d", {4, 3, 2, 5}, kMixes, [](Rng&) { return BatchNorm2d(3); }),
      row("Conv1d", {2, 4, 7},
          [](Rng& r) { return Conv1d(4, 6, 3, r, {.padding = 1, .groups = 2}); }),
      row("Conv2d", {2, 3, 6, 7},
          [](Rng& r) { return Conv2d(3, 4, 3, r, {.stride = 2, .padding = 1}); }),
      row("Conv2d of patches", {2, 3, 8, 8},
          [](Rng& r) { return Conv2d(3, 4, 4, r, {.stride = 4}); }),
      row("Dropout", kSequence, [](Rng& r) { return Dropout(0.3, r); }),
      row("DropPath", {6, 2, 3}, [](Rng& r) { return DropPath(0.3, r); }),
      row("LearnedPositions", kSequence, [](Rng& r) { return LearnedPositions(6, 8, r); }),
      row("PositionWiseFfn", kSequence,
          [](Rng& r) { return PositionWiseFfn(8, 16, r, Activation::gelu, 0.2); }),
      row("TinyAttention", kSequence, [](Rng& r) { return TinyAttention(8, 6, 4, r); }),
      row("AttentionLayer", {2, 4, 5}, [](Rng& r) { return AttentionLayer(4, 6, 3, r); }),
      stateless<Identity>("Identity"),
      stateless<Relu>("Relu"),
      stateless<nn::Gelu>("Gelu"),
      stateless<GeluTanh>("GeluTanh"),
      stateless<Silu>("Silu"),
      stateless<Tanh>("Tanh"),
      stateless<Sigmoid>("Sigmoid"),
      stateless<Softplus>("Softplus"),
      stateless<LeakyRelu>("LeakyRelu"),
      stateless<Elu>("Elu"),
      stateless<Flatten>("Flatten"),
      {"Embedding",
       [](Rng& rng) {
         check_module(Embedding(9, 4, rng), {ids({3, 5}, 9, rng)});
       }},
      {"Sequential",
       [](Rng& rng) {
         Sequential mlp(Linear(8, 6, rng), Tanh(), Dropout(0.2, rng), Linear(6, 2, rng));
         check_module(mlp, {randn(kSequence, rng)});
       }},
  };
}

// x (B, T, C) with lengths: output and states.
template <class M>
Row recurrent(std::string name, nn::RnnOptions options) {
  auto call = [](const M& m, const Tensors& x) { return all_of(m(x[0], {.lengths = x[1]})); };
  return {std::move(name), [=](Rng& rng) {
            nn::check_module(M(4, 3, rng, options), call,
                             {randn({3, 5, 4}, rng), lengths({5, 2, 4})}, kStates);
          }};
}

std::vector<Row> recurrent_layers() {
  using namespace nn;
  return {
      recurrent<Rnn>("Rnn", {}),
      recurrent<Gru>("Gru", {.layers = 2, .bidirectional = true, .dropout = 0.2}),
      recurrent<Lstm>("Lstm", {.layers = 2, .bidirectional = true, .dropout = 0.2}),
      recurrent<Lstm>("Lstm without bias", {.bias = Bias::no}),
      {"RnnCell",
       [](Rng& rng) {
         check_module(RnnCell(4, 3, rng), {randn({2, 4}, rng), randn({2, 3}, rng)});
       }},
      {"GruCell",
       [](Rng& rng) {
         check_module(GruCell(4, 3, rng), {randn({2, 4}, rng), randn({2, 3}, rng)});
       }},
      {"LstmCell",
       [](Rng& rng) {
         auto call = [](const LstmCell& m, const Tensors& x) {
           return all_of(m(x[0], RnnState{x[1], x[2]}));
         };
         check_module(LstmCell(4, 3, rng), call,
                      {randn({2, 4}, rng), randn({2, 3}, rng), randn({2, 3}, rng)});
       }},
  };
}

// query, key and value with a mask by lengths.
template <class M>
Row attention(std::string name, std::function<M(Rng&)> make) {
  auto call = [](const M& m, const Tensors& x) {
    return all_of(m(x[0], x[1], x[2], nn::Mask::lengths(x[3])));
  };
  return {std::move(name), [=](Rng& rng) {
            nn::check_module(make(rng), call,
                             {randn({2, 3, 4}, rng), randn({2, 5, 4}, rng), randn({2, 5, 6}, rng),
                              lengths({5, 3})});
          }};
}

std::vector<Row> attention_layers() {
  using namespace nn;
  return {
      attention<DotAttention>("DotAttention", [](Rng& r) { return DotAttention({}, 0.2, r); }),
      attention<ScaledDotAttention>("ScaledDotAttention",
                                    [](Rng& r) { return ScaledDotAttention({}, 0, r); }),
      attention<GeneralAttention>(
          "GeneralAttention", [](Rng& r) { return GeneralAttention(GeneralScore(4, 4, r), 0, r); }),
      attention<AdditiveAttention>(
          "AdditiveAttention",
          [](Rng& r) { return AdditiveAttention(AdditiveScore(4, 4, 3, r), 0.2, r); }),
      attention<CosineAttention>("CosineAttention",
                                 [](Rng& r) { return CosineAttention({.sharpness = 2}, 0, r); }),
      attention<LocationAttention>(
          "LocationAttention",
          [](Rng& r) { return LocationAttention(LocationScore(4, 6, r), 0, r); }),
      {"ContentAttention",
       [](Rng& rng) {
         auto call = [](const ContentAttention<>& m, const Tensors& x) { return all_of(m(x[0])); };
         check_module(ContentAttention<>(3, 4, rng), call, {randn({2, 5, 4}, rng)});
       }},
      {"ContextAttention",
       [](Rng& rng) {
         auto call = [](const ContextAttention<>& m, const Tensors& x) {
           return all_of(m(x[0], x[1]));
         };
         check_module(ContextAttention<>(rng), call,
                      {randn({2, 3, 4}, rng), randn({2, 5, 4}, rng)});
       }},
      {"MultiHeadAttention",
       [](Rng& rng) {
         auto call = [](const MultiHeadAttention& m, const Tensors& x) {
           return all_of(m.with_weights(x[0], x[1], x[2], Mask::lengths(x[3])));
         };
         check_module(MultiHeadAttention(8, rng, {.heads = 4, .kv_heads = 2, .dropout = 0.1}), call,
                      {randn({2, 3, 8}, rng), randn({2, 5, 8}, rng), randn({2, 5, 8}, rng),
                       lengths({5, 3})});
       }},
      {"MultiHeadAttention, causal",
       [](Rng& rng) {
         auto call = [](const MultiHeadAttention& m, const Tensors& x) {
           return m(x[0], Mask::causal());
         };
         check_module(MultiHeadAttention(8, rng, {.heads = 2, .bias = Bias::no}), call,
                      {randn(kSequence, rng)});
       }},
  };
}

Row gating(std::string name, nn::SpatialGatingOptions options) {
  return row("SpatialGatingUnit, " + name, kSequence,
             [=](Rng& r) { return nn::SpatialGatingUnit(8, 5, r, options); });
}

std::vector<Row> blocks() {
  using namespace nn;
  const TransformerLayerOptions post = {.dim = 8, .heads = 2, .ffn = 12},
                                pre = {.dim = 8,
                                       .heads = 4,
                                       .ffn = 12,
                                       .kv_heads = 2,
                                       .activation = Activation::gelu,
                                       .norm_first = true};
  auto decoder = [](const auto& m, const Tensors& x) { return m(x[0], x[1]); };
  return {
      gating("full", {}),
      gating("unsplit", {.gate = Gate::linear, .split = false}),
      gating("additive, heads", {.gate = Gate::additive, .heads = 2}),
      gating("causal", {.causal = true}),
      gating("Toeplitz", {.heads = 2, .matrix = SpatialMatrix::toeplitz, .causal = true}),
      gating("circulant", {.matrix = SpatialMatrix::circulant}),
      row("TransformerEncoderLayer", kSequence,
          [=](Rng& r) { return TransformerEncoderLayer(post, r); }),
      row("TransformerEncoder", kSequence, [=](Rng& r) { return TransformerEncoder(2, pre, r); }),
      {"TransformerDecoderLayer",
       [=](Rng& rng) {
         check_module(TransformerDecoderLayer(pre, rng), decoder,
                      {randn({2, 4, 8}, rng), randn({2, 5, 8}, rng)});
       }},
      {"TransformerDecoder",
       [=](Rng& rng) {
         check_module(TransformerDecoder(2, post, rng), decoder,
                      {randn({2, 4, 8}, rng), randn({2, 5, 8}, rng)});
       }},
  };
}

void check_rows(const std::vector<Row>& rows) {
  uint64_t seed = 0;
  for (const Row& r : rows) {
    CAPTURE(r.name);
    Rng rng(++seed);
    CHECK_NOTHROW(r.check(rng));
  }
}

/// The message of the error that the check throws.
std::string words(const std::function<void()>& check) {
  try {
    check();
  } catch (const Error& e) {
    return e.what();
  }
  return "no fault";
}

template <class M>
std::string fault_of(const M& module, const Tensors& inputs,
                     const nn::CheckModuleOptions& options = {}) {
  return words([&] { nn::check_module(module, inputs, options); });
}

bool has(const std::string& text, const std::string& part) {
  const bool found = text.find(part) != std::string::npos;
  if (!found) MESSAGE(text);
  return found;
}

}  // namespace

TEST_CASE("check module: the layers of nn") {
  check_rows(small_layers());
  check_rows(recurrent_layers());
  check_rows(attention_layers());
  check_rows(blocks());
}

// ---- Faults ------------------------------------------------------------------------------------
namespace {

/// y = x W, and more fields for the faults below.
struct Faulty {
  nn::Linear up;
  nn::Parameter scale;
  nn::Buffer seen;
  nn::TrainingMode training = true;
  mutable Rng rng;
  explicit Faulty(Rng& r) : up(4, 4, r), scale(ones({4})), seen(zeros({4})), rng(r.split()) {}
};

struct ForgottenField : Faulty {
  using Faulty::Faulty;
  Tensor operator()(const Tensor& x) const { return up(x) * scale; }
  static void fields(auto& m, auto&& visit) { visit("up", m.up); }
};

struct UnusedField : Faulty {
  using Faulty::Faulty;
  Tensor operator()(const Tensor& x) const { return up(x); }
  static void fields(auto& m, auto&& visit) {
    visit("up", m.up);
    visit("scale", m.scale);
  }
};

struct UnusedModule : Faulty {
  nn::Linear extra;
  explicit UnusedModule(Rng& rng) : Faulty(rng), extra(4, 4, rng) {}
  Tensor operator()(const Tensor& x) const { return up(x); }
  static void fields(auto& m, auto&& visit) {
    visit("up", m.up);
    visit("extra", m.extra);
  }
};

/// x^2 with the wrong gradient x.
Tensor wrong_square(const Tensor& x) {
  Op op("wrong_square", x);
  Tensor y;
  {
    NoGradGuard no_grad;
    y = x.detach() * x.detach();
  }
  return op.record(Fresh::adopt(y), [x = save(x)](const Tensor& dy) { return dy * x.get(); });
}

struct WrongGradient : Faulty {
  using Faulty::Faulty;
  Tensor operator()(const Tensor& x) const { return up(x) * wrong_square(scale); }
  static void fields(auto& m, auto&& visit) {
    visit("up", m.up);
    visit("scale", m.scale);
  }
};

/// Reads its input as if it were contiguous.
struct IgnoresStrides {
  Tensor operator()(const Tensor& x) const {
    Tensor c = x.is_contiguous() ? x : view_of(x);
    return c * 2;
  }
  static Tensor view_of(const Tensor& x) {
    return Tensor(Fresh::view(x, Layout::contiguous(x.shape())).ref());
  }
  static void fields(auto&, auto&&) {}
};

/// Subtracts the mean of the batch.
struct MixesBatch {
  nn::TrainingMode training = true;
  bool always = false;
  Tensor operator()(const Tensor& x) const { return training || always ? x - mean(x, 0, true) : x; }
  static void fields(auto& m, auto&& visit) { visit("training", m.training); }
};

struct ForgottenMode : Faulty {
  using Faulty::Faulty;
  Tensor operator()(const Tensor& x) const { return training ? dropout(x, 0.5, rng) : x; }
  static void fields(auto& m, auto&& visit) { visit("rng", m.rng); }
};

struct ForgottenRng : Faulty {
  using Faulty::Faulty;
  Tensor operator()(const Tensor& x) const { return training ? dropout(x, 0.5, rng) : x; }
  static void fields(auto& m, auto&& visit) { visit("training", m.training); }
};

/// Adds a running mean, kept in training.
struct ForgottenBuffer : Faulty {
  using Faulty::Faulty;
  Tensor operator()(const Tensor& x) const {
    if (!training) return up(x) + seen.tensor().to(x.dtype());
    NoGradGuard no_grad;
    copy_(seen, mean(x.detach(), Dims{0, 1}).to(seen.dtype()));
    EnableGradGuard again;
    return up(x);
  }
  static void fields(auto& m, auto&& visit) {
    visit("up", m.up);
    visit("training", m.training);
  }
};

struct EvaluationWrites : ForgottenBuffer {
  using ForgottenBuffer::ForgottenBuffer;
  Tensor operator()(const Tensor& x) const {
    NoGradGuard no_grad;
    add_(seen, ones({4}, seen.dtype()));
    EnableGradGuard again;
    return up(x);
  }
  static void fields(auto& m, auto&& visit) {
    visit("up", m.up);
    visit("seen", m.seen);
    visit("training", m.training);
  }
};

/// A layer behind a shared pointer: all copies share it.
struct Shares {
  std::shared_ptr<nn::Linear> up;
  Tensor operator()(const Tensor& x) const { return (*up)(x); }
  static void fields(auto& m, auto&& visit) { visit("up", *m.up); }
};

}  // namespace

TEST_CASE("check module: every fault is reported with its own message") {
  Rng rng(0);
  const Tensors x = {randn({3, 2, 4}, rng)};
  std::string text = fault_of(ForgottenField(rng), x);
  CHECK(
      has(text, "fields: the output depends on a parameter of shape (4,) that `fields` does not"));
  text = fault_of(UnusedField(rng), x);
  CHECK(has(text, "fields: the output does not depend on parameter 'scale' of shape (4,)"));
  CHECK(fault_of(UnusedField(rng), x, {.unused = {"scale"}}) == "no fault");
  text = fault_of(UnusedField(rng), x, {.unused = {"scale", "no.such"}});
  CHECK(has(text, "fields: .unused lists 'no.such', but no parameter has that name or prefix"));
  // A module's name means all its parameters; a part of a name means none.
  CHECK(fault_of(UnusedModule(rng), x, {.unused = {"extra"}}) == "no fault");
  CHECK(fault_of(UnusedModule(rng), x, {.unused = {"extra.weight", "extra.bias"}}) == "no fault");
  CHECK(has(fault_of(UnusedModule(rng), x, {.unused = {"ext"}}), "lists 'ext'"));
  CHECK(has(fault_of(UnusedModule(rng), x, {.unused = {"extra.bias"}}), "'extra.weight'"));
  text = fault_of(WrongGradient(rng), x);
  CHECK(has(text, "gradients: gradcheck: parameter 'scale' of shape (4,), element 0"));
  text = fault_of(IgnoresStrides(), x);
  CHECK(has(text, "strides: with transposed inputs output 0 of shape (3, 2, 4), element 1"));
  text = fault_of(MixesBatch{}, x);
  CHECK(has(text,
            "batch: in training, row 0 of 3 has another result when it runs by itself: output 0"));
  CHECK(has(text, "BatchRule::mixed_in_training"));
  CHECK(fault_of(MixesBatch{}, x, kMixes) == "no fault");
  text = fault_of(MixesBatch{.always = true}, x, kMixes);
  CHECK(has(text, "batch: in evaluation, row 0 of 3"));
  CHECK(fault_of(MixesBatch{.always = true}, x, {.batch = nn::BatchRule::mixed}) == "no fault");
  text = fault_of(ForgottenMode(rng), x);
  CHECK(has(text, "determinism: two evaluations differ: output 0"));
  text = fault_of(ForgottenRng(rng), x);
  CHECK(has(text, "determinism: training from the same state of generators and buffers differs"));
  text = fault_of(ForgottenBuffer(rng), x);
  CHECK(has(text, "save and load: in evaluation the loaded module differs from the saved one"));
  text = fault_of(EvaluationWrites(rng), x);
  CHECK(has(text, "determinism: evaluation changes 'seen'"));
}

TEST_CASE("check module: shared weights of copies are found and restored") {
  Rng rng(0);
  Shares module{std::make_shared<nn::Linear>(4, 2, rng)};
  const Tensor before = module.up->weight.tensor().detach().clone();
  const std::string text = fault_of(module, {randn({3, 4}, rng)});
  CHECK(has(text, "copies: a write to 'up.weight' of a copy changes 'up.weight'"));
  CHECK(same(module.up->weight, before));
}

TEST_CASE("check module: does not change the module") {
  Rng rng(0);
  const nn::Sequential model(nn::Conv2d(3, 4, 3, rng), nn::BatchNorm2d(4), nn::Dropout(0.5, rng));
  const NamedTensors state = nn::state_dict(model), drawn = nn::generator_state(model);
  std::vector<Tensor> before;
  for (const auto& [name, t] : state) before.push_back(t.clone());
  nn::check_module(model, {randn({2, 3, 4, 4}, rng)}, kMixes);
  for (size_t i = 0; i < before.size(); ++i) CHECK(same(state[i].second, before[i]));
  CHECK(same(nn::generator_state(model)[0].second, drawn[0].second));
  CHECK(model.get<2>().training);
  CHECK_FALSE(nn::named_parameters(model)[0].second.grad().defined());
}

TEST_CASE("check module: reports what it cannot check") {
  Rng rng(0);
  const nn::Linear layer(4, 2, rng);
  CHECK(has(fault_of(layer, {randn({1, 4}, rng)}), "a batch of 1 rows cannot show"));
  CHECK(has(fault_of(layer, {randn({2, 4}, rng), randn({2, 4}, rng), randn({2, 4}, rng)}),
            "cannot be called with 3 tensors"));
  auto first = [](const nn::Linear& m, const Tensors& x) { return m(x[0]); };
  const Tensors uneven = {randn({2, 4}, rng), randn({3, 4}, rng)};
  CHECK(
      has(words([&] { nn::check_module(layer, first, uneven); }), "input 1 has 3 rows, others 2"));
  nn::check_module(layer, first, uneven, {.input_axes = {0, nn::kNoBatch}});
}

TEST_CASE("gradcheck: an exception of the function leaves the inputs unchanged") {
  const Tensor x = tensor({1, 2}, {2}, DType::f64).set_requires_grad();
  for (int last : {1, 2, 3}) {
    int calls = 0;
    const auto fn = [&](const std::vector<Tensor>& in) {
      check(++calls <= last, "too many calls");
      return square(in[0]);
    };
    CHECK_THROWS_WITH_AS(gradcheck(fn, {x}), "too many calls", Error);
    CHECK(x.to_vector<double>() == std::vector<double>{1, 2});
  }
}

TEST_CASE("gradcheck: checks evenly spread elements, and names them in errors") {
  Rng rng(0);
  const Tensor x = randn({100}, rng, DType::f64).set_requires_grad();
  int calls = 0;
  auto fn = [&](const Tensors& in) {
    ++calls;
    return in[0] * 2;
  };
  gradcheck(fn, {x}, {.most = 7});
  CHECK(calls == 1 + 2 * 7);
  auto wrong = [](const Tensors& in) { return wrong_square(in[0]); };
  CHECK(has(words([&] { gradcheck(wrong, {x}, {.names = {"the weight"}}); }),
            "gradcheck: the weight of shape (100,), element 0: the gradient is"));
}

}  // namespace tern::test::test_check_module

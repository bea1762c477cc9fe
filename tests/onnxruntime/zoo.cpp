// onnx_zoo FOLDER: exports small models of every kind to FOLDER/17 and FOLDER/23, by opset, with
// inputs of sizes that were not recorded and the outputs of tern for them. check.py compares these
// with onnxruntime's outputs.
#include <fmt/core.h>

#include <cmath>
#include <filesystem>
#include <functional>

#include "tern/core/base/rng.h"
#include "tern/core/io/safetensors.h"
#include "tern/core/ops/convolution/conv.h"
#include "tern/core/ops/convolution/interpolate.h"
#include "tern/core/ops/convolution/padding.h"
#include "tern/core/ops/convolution/pooling.h"
#include "tern/core/ops/einsum/einsum.h"
#include "tern/core/ops/elementwise/elementary.h"
#include "tern/core/ops/indexing/indexing.h"
#include "tern/models/airbench.h"
#include "tern/models/bert.h"
#include "tern/models/gmlp.h"
#include "tern/models/gmlp_text.h"
#include "tern/models/resnet.h"
#include "tern/models/seq2seq.h"
#include "tern/models/state_tensors.h"
#include "tern/models/vit.h"
#include "tern/onnx/onnx_step.h"

namespace tern {
namespace {

std::string folder;
int opset = 17;

/// Random weights, also where models start with zeros and ones.
template <class M>
void disturb(const M& model, Rng& rng) {
  NoGradGuard no_grad;
  for (const auto& [name, t] : nn::state_dict(model)) {
    if (!is_float(t.dtype())) continue;
    if (name.ends_with("running_var"))
      copy_(t, uniform(t.shape(), 0.5, 1.5, rng));
    else
      add_(t, randn(t.shape(), rng), 0.05);
  }
}

using Inputs = std::function<OnnxTensors(int64_t, int64_t)>;  // of N and T
using Sizes = std::vector<std::pair<int64_t, int64_t>>;

void save_case(const std::string& path, size_t k, const OnnxTensors& in, const OnnxTensors& out) {
  SafeTensors file;
  auto add = [&](const char* kind, const OnnxTensors& list) {
    for (size_t i = 0; i < list.size(); ++i)
      file.tensors.emplace_back(fmt::format("{}.{:03}", kind, i), list[i].contiguous());
  };
  add("in", in), add("out", out);
  save_safetensors(fmt::format("{}.{}.safetensors", path, k), file);
}

const Sizes kRecorded = {{2, 7}, {5, 12}, {3, 20}};

template <class M, class Fn>
void run(const std::string& name, const M& model, const Fn& fn, const Inputs& inputs,
         const Sizes& tried, OnnxOptions options = {}) {
  Rng rng(7);
  disturb(model, rng);
  std::vector<OnnxTensors> examples;
  for (const auto& [n, t] : kRecorded) examples.push_back(inputs(n, t));
  const std::string path = folder + "/" + name;
  options.opset = opset;
  const std::string what = export_onnx(path + ".onnx", model, fn, examples, options);
  const nn::EvalScope evaluating(model);
  NoGradGuard no_grad;
  for (size_t k = 0; k < tried.size(); ++k) {
    const OnnxTensors in = inputs(tried[k].first, tried[k].second);
    save_case(path, k, in, fn(in));
  }
  fmt::print("{}: {}\n", name, what);
}

/// The same for a step with a state. `example(n, t)` gives inputs and the state before.
template <class M, class Step, class Example>
void run_step(const std::string& name, const M& model, const Step& step, const Example& example,
              const Sizes& tried, OnnxOptions options) {
  Rng rng(7);
  disturb(model, rng);
  const nn::EvalScope evaluating(model);
  NoGradGuard no_grad;
  std::vector<decltype(example(1, 1))> examples;
  for (const auto& [n, t] : kRecorded) examples.push_back(example(n, t));
  const std::string path = folder + "/" + name;
  options.opset = opset;
  const std::string what = export_onnx_step(path + ".onnx", model, step, examples, options);
  for (size_t k = 0; k < tried.size(); ++k) {
    const auto [inputs, state] = example(tried[k].first, tried[k].second);
    OnnxTensors in = inputs;
    map_tensors(state, [&](const std::string&, const Tensor& t) { return in.emplace_back(t); });
    auto [out, after] = step(inputs, state);
    OnnxTensors all = out;
    map_tensors(after, [&](const std::string& tensor, const Tensor& t) {
      if (tensor.starts_with("past.")) all.push_back(t);
      return t;
    });
    save_case(path, k, in, all);
  }
  fmt::print("{}: {}\n", name, what);
}

/// A model of pictures (N, 3, side, side).
template <class M>
void run_pictures(const std::string& name, const M& model, int64_t side = 32) {
  auto rng = std::make_shared<Rng>(3);
  run(
      name, model, [&](const OnnxTensors& x) { return OnnxTensors{model(x[0])}; },
      [=](int64_t n, int64_t) {
        return OnnxTensors{randn({n, 3, side, side}, *rng)};
      },
      {{1, 0}, {5, 0}, {16, 0}}, {.inputs = {"images"}, .outputs = {"logits"}});
}

const Sizes kTexts = {{1, 16}, {4, 1}, {7, 23}};

Inputs texts(int64_t vocab) {
  auto rng = std::make_shared<Rng>(3);
  return [=](int64_t n, int64_t t) { return OnnxTensors{randint(0, vocab, {n, t}, *rng)}; };
}

Inputs texts_with_lengths(int64_t vocab) {
  auto rng = std::make_shared<Rng>(3);
  return [=](int64_t n, int64_t t) {
    Tensor lengths = randint(1, t + 1, {n}, *rng);
    return OnnxTensors{randint(0, vocab, {n, t}, *rng), lengths};
  };
}

/// A block of MobileNetV2: expands, convolves each channel by itself, projects, adds.
struct InvertedResidual {
  nn::Conv2d expand, depthwise, project;
  nn::BatchNorm2d norm1, norm2, norm3;
  explicit InvertedResidual(Rng& rng)
      : expand(16, 64, 1, rng, {}, nn::Bias::no),
        depthwise(64, 64, 3, rng, {.padding = 1, .groups = 64}, nn::Bias::no),
        project(64, 16, 1, rng, {}, nn::Bias::no),
        norm1(64),
        norm2(64),
        norm3(16) {}
  Tensor operator()(const Tensor& x) const {
    return x + norm3(project(relu6(norm2(depthwise(relu6(norm1(expand(x))))))));
  }
  static void fields(auto& m, auto&& visit) {
    visit("expand", m.expand), visit("depthwise", m.depthwise), visit("project", m.project);
    visit("norm1", m.norm1), visit("norm2", m.norm2), visit("norm3", m.norm3);
  }
};

struct MobileNet {
  nn::Conv2d stem;
  std::vector<InvertedResidual> blocks;
  nn::Linear head;
  explicit MobileNet(Rng& rng)
      : stem(3, 16, 3, rng, {.stride = 2, .padding = 1}), head(16, 10, rng) {
    for (int i = 0; i < 2; ++i) blocks.emplace_back(rng);
  }
  Tensor operator()(const Tensor& images) const {
    Tensor x = hardswish(stem(images));
    for (const InvertedResidual& block : blocks) x = block(x);
    return head(flatten(adaptive_avg_pool2d(avg_pool2d(x, {.kernel = 2}), 1), 1));
  }
  static void fields(auto& m, auto&& visit) {
    visit("stem", m.stem), visit("blocks", m.blocks), visit("head", m.head);
  }
};

void pictures() {
  Rng rng(1);
  run_pictures("mobilenet", MobileNet(rng));
  run_pictures("gmlp", models::Gmlp({.patch = 8, .dim = 48, .layers = 2}, rng));
  run_pictures(
      "gmlp-heads",
      models::Gmlp({.patch = 8, .dim = 64, .layers = 2, .attention_dim = 16, .gate = {.heads = 4}},
                   rng));
  run_pictures("gmlp-stem", models::Gmlp(models::gmlp_options("gmlp-stem"), rng));
  run_pictures("gmlp-hybrid", models::Gmlp(models::gmlp_options("gmlp-hybrid"), rng));
  run_pictures("vit-hybrid", models::Vit(models::vit_options("vit-hybrid"), rng));
  run_pictures(
      "vit",
      models::Vit({.image = 32, .patch = 8, .dim = 48, .layers = 2, .heads = 3, .classes = 10},
                  rng));
  run_pictures("resnet18", models::ResNet({.classes = 10, .width = 16}, rng), 64);
  run_pictures("resnet-small",
               models::ResNet(
                   {.layers = {1, 1, 1}, .classes = 10, .width = 16, .small_pictures = true}, rng));
  run_pictures("airbench94", models::Airbench(models::airbench_options("airbench94"), rng));
}

/// Sources (N, S) and lengths (N).
OnnxTensors sources(int64_t n, int64_t longest, Rng& rng) {
  return {randint(0, 90, {n, longest}, rng), randint(1, longest + 1, {n}, rng)};
}

/// A model that translates: its encoder, and a step of its decoder after t tokens.
template <class M>
void run_translation(const std::string& name, const M& model,
                     const std::vector<std::string>& sizes) {
  auto rng = std::make_shared<Rng>(6);
  auto encode = [&](const OnnxTensors& x) {
    OnnxTensors out;
    map_tensors(model.encode(x[0], x[1]), [&](const std::string& tensor, const Tensor& t) {
      if (tensor != "lengths") out.push_back(t);
      return t;
    });
    return out;
  };
  run(name + "-encoder", model, encode, [&](int64_t n, int64_t t) { return sources(n, t, *rng); },
      kTexts, {.inputs = {"source", "lengths"}, .sizes = {"N", "S"}});
  auto example = [&](int64_t n, int64_t t) {
    const OnnxTensors source = sources(n, 4 + 5 * t % 17, *rng);
    auto state = model.encode(source[0], source[1]);
    auto tokens = [&] { return randint(0, 70, {n}, *rng); };
    for (int64_t i = 0; i < t; ++i) state = model.step(state, tokens()).state;
    return OnnxStepExample<decltype(state)>{{tokens()}, state};
  };
  auto step = [&](const OnnxTensors& x, const auto& state) {
    auto y = model.step(state, x[0]);
    return std::pair(OnnxTensors{y.logits}, y.state);
  };
  run_step(name + "-step", model, step, example, {{1, 16}, {4, 1}, {7, 20}},
           {.inputs = {"tokens"}, .outputs = {"logits"}, .sizes = sizes});
}

/// The forms that no model above needs, each as an output.
void single_ops() {
  Rng rng(5);
  const nn::Linear model(6, 6, rng);
  auto ops = [](const OnnxTensors& in) {
    const Tensor &x = in[0], &ids = in[1], positive = abs(x) + 0.1;
    const Tensor seen = gt(x, 0);
    OnnxTensors y = {
        abs(x),          sign(x),       floor(x),       ceil(x), round(x * 3), reciprocal(positive),
        rsqrt(positive), log(positive), sqrt(positive), tan(x),  softsign(x),  mish(x)};
    auto add = [&](std::initializer_list<Tensor> more) { y.insert(y.end(), more); };
    add({log_sigmoid(x), leaky_relu(x, 0.1), elu(x, 0.5), celu(x, 0.5), selu(x), hardsigmoid(x),
         hardswish(x), softplus(x), glu(x), gelu(x), gelu(x, Gelu::tanh), clamp(x, -0.5, {})});
    add({pow(positive, 1.5), pow(positive, x), minimum(x, 0.1), maximum(x, square(x)), -x,
         where(logical_and(seen, lt(x, 1)), x, 2), where(logical_not(seen), x, x * 2),
         where(ne(ids, 3), ids, 0), logical_xor(seen, le(x, 0.5)), eq(ids, 2), ge(x, 0)});
    add({flip(x, {0, 2}), roll(x, {1, -2}, {1, 2}), pad(x, {1, 2, 0, 1}, 3), tril(x), triu(x, 1),
         stack({x, x * 2}, 1), slice(x, {{}, {0, {}, 2}, -1}), slice(x, 1, {}, {}, -1),
         slice(x, 2, -2, {}), repeat_interleave(x, 2, 1),
         expand(unsqueeze(x, 0), {3, -1, -1, -1})});
    add({sum(x, {0, 2}), sum(ids, -1, true), amax(x, 1), amin(x, {1, 2}), norm(x, 2, 2),
         norm(x, 1, 0), logsumexp(x, 1), cumsum(x, 1), argmax(x, 2), argmin(x, 1, true),
         max(x, 2).values, min(x, 1).indices, log_softmax(x, 1), softmax(x, -1, seen),
         log_softmax(x, -1, seen), layer_norm(x, 6), x / x.size(1)});
    add({one_hot(ids, 6), index_select(x, 2, tensor({4, 0})), gather(x, 2, unsqueeze(ids, -1)),
         full({x.size(1), 2}, 3), arange(1, x.size(1)), einsum("n t c, n s c -> n t s", {x, x}),
         einsum("n t c, n t d -> c d", {x, x}), einsum("n t c, n t d -> n d", {x, x}),
         einsum("n t c, c -> t", {x, select(select(x, 0, 0), 0, 0)}), x.to(DType::f64) * 2,
         ids.to(DType::f32)});
    // Divisions next to a whole quotient differ by rounding, which x itself rarely meets.
    const Tensor far = x * 3, low = x - 0.5;
    add({remainder(far, 2), remainder(far, -0.7), floor_divide(far, 0.7), floor_divide(far, -2),
         fmod(far, 0.7), remainder(ids - 3, 4), floor_divide(ids - 3, 4), floor_divide(ids, -2),
         fmod(ids - 3, 4), remainder(far, positive), trunc(far), trunc(ids), floor(ids)});
    add({log1p(positive),
         log1p(x * 1e-6),
         expm1(x),
         expm1(x * 1e-6),
         log2(positive),
         log10(positive),
         atan(x),
         sinh(x),
         cosh(x),
         tanhshrink(x),
         softshrink(x),
         hardshrink(x),
         lerp(x, positive, 0.3),
         lerp(x, positive, sigmoid(x)),
         nan_to_num(log(low), 7),
         nan_to_num(x / relu(x), 0, 3, -2),
         isfinite(log(low)),
         (x > 0) & (x < 1),
         (x > 0) | (x < -1),
         (x > 0) ^ (low > 0)});
    add({var(x, 1), var(x, {1, 2}, 0, true), std(x, 2), std(x), any(seen, 2), all(seen, {1, 2}),
         any(ids, 1, true), -ids.to(DType::u8), pow(ids.to(DType::u8), 3), pow(x, 0), norm(x, 3, 2),
         norm(x, HUGE_VAL, 1), norm(x, -HUGE_VAL, 1, true)});
    const Tensor rank = argsort(x, 2), first = slice(rank, 2, 0, 4);
    add({scatter(x, 2, rank, x * 2), scatter(x, 2, first, positive), scatter(x, 2, first, 7),
         scatter_add(x, 2, unsqueeze(ids, -1), positive),
         index_add(x, 2, tensor({2, 0, 2}), slice(x, 2, 0, 3), 2),
         index_add(x, 1, clamp(ids[0], 0, 0), x),
         index_put(x, {Tensor(), Tensor(), tensor({1, 4})}, scalar(9)),
         index_put(x, {Tensor(), Tensor(), tensor({1, 1})}, ones({2}), true),
         scatter(ids, 1, argsort(ids, 1), ids * 2)});
    auto reduced = [&](ScatterReduce how, bool include_self) {
      return scatter_reduce(x, 2, slice(remainder(rank, 3), 2, 0, 4), positive, how, include_self);
    };
    for (bool self : {true, false})
      add({reduced(ScatterReduce::sum, self), reduced(ScatterReduce::mean, self),
           reduced(ScatterReduce::prod, self)});
    if (opset == 23)
      add({reduced(ScatterReduce::amax, true), reduced(ScatterReduce::amin, false),
           ids.to(DType::u8) ^ scalar(5, DType::u8), ids & scalar(3, DType::i64),
           ids | scalar(8, DType::i64)});
    add({unfold(x, 2, 3, 2), unfold(x, 0, 1, 1), unfold(cat({x, x, x}, 1), 1, 3, 1)});
    return y;
  };
  auto source = std::make_shared<Rng>(6);
  run(
      "single-ops", model, ops,
      [=](int64_t n, int64_t t) {
        return OnnxTensors{randn({n, t, 6}, *source), randint(0, 6, {n, t}, *source)};
      },
      kTexts);
  const Tensor wide = randn({4, 3, 3, 3}, rng), deep = randn({6, 2, 3, 3}, rng);
  auto windows = [=](const OnnxTensors& in) {
    const Tensor& x = in[0];
    return OnnxTensors{
        conv_transpose2d(x, wide, {}, {.stride = 2, .padding = 1, .output_padding = 1}),
        conv2d(x, deep, {}, {.stride = 2, .padding = 2, .dilation = 2, .groups = 2}),
        conv2d(x, deep, {}, {.padding = 1, .groups = 2, .padding_mode = PaddingMode::reflect}),
        max_pool2d(x, {.kernel = 3, .stride = 2, .padding = 1, .ceil_mode = true}),
        max_pool2d(x, {.kernel = 2, .stride = 3, .padding = 1, .ceil_mode = true}),
        max_pool2d(x, {.kernel = 2, .stride = 4, .dilation = 2, .ceil_mode = true}),
        avg_pool2d(x, {.kernel = 3, .stride = 2, .padding = 1}),
        avg_pool2d(x, {.kernel = 3, .stride = 2, .ceil_mode = true}),
        avg_pool2d(x, {.kernel = 2,
                       .stride = 3,
                       .padding = 1,
                       .ceil_mode = true,
                       .count_include_pad = false}),
        adaptive_avg_pool2d(x, 3),
        interpolate(x, {.size = {{11, 5}}, .mode = Interpolation::bilinear}),
        group_norm(x, 2),
        prelu(x, tensor({0.1F, 0.2F, 0.3F, 0.4F})),
        adaptive_max_pool2d(x, {2, 5}),
        instance_norm(x),
        instance_norm(x, {}, {}, tensor({1.F, 2.F, 3.F, 4.F}), tensor({5.F, 6.F, 7.F, 8.F})),
        unfold(x, {.kernel = {3, 2}, .dilation = {1, 2}, .padding = {1, 0}, .stride = {2, 1}}),
        fold(unfold(x, {.kernel = 3, .padding = 1, .stride = 2}), {8, 10},
             {.kernel = 3, .padding = 1, .stride = 2}),
        fold(unfold(x, {.kernel = {3, 2}, .dilation = {1, 2}, .padding = {1, 0}, .stride = {2, 1}}),
             {8, 10}, {.kernel = {3, 2}, .dilation = {1, 2}, .padding = {1, 0}, .stride = {2, 1}})};
  };
  run("windows", model, windows,
      [=](int64_t n, int64_t) {
        return OnnxTensors{randn({n, 4, 8, 10}, *source)};
      },
      {{1, 0}, {5, 0}, {16, 0}});
}

/// Windows of pictures of any side.
void open_windows() {
  Rng rng(5);
  const nn::Linear model(6, 6, rng);
  auto source = std::make_shared<Rng>(6);
  auto fn = [](const OnnxTensors& in) {
    const Tensor& x = in[0];
    return OnnxTensors{roll(x, {-2, 3}, {3, 2}),
                       pad(x, {1, 2, 2, 1}, PaddingMode::reflect),
                       pad(x, {1, 2, 2, 1}, PaddingMode::replicate),
                       instance_norm(x),
                       std(x, {2, 3}),
                       unfold(x, {.kernel = 3, .stride = {1, 2}}),
                       unfold(x, 3, 3, 2)};
  };
  run("open-windows", model, fn,
      [=](int64_t n, int64_t t) {
        return OnnxTensors{randn({n, 4, 8, t}, *source)};
      },
      {{1, 16}, {4, 6}, {7, 23}});
}

/// Ranges and rolls of an axis that may be shorter and longer than in the examples, integers that
/// f64 cannot hold, and recurrent layers with one bias.
void any_length() {
  Rng rng(5);
  const nn::Linear model(3, 16, rng), back(4, 16, rng);
  auto source = std::make_shared<Rng>(6);
  auto inputs = [=](int64_t n, int64_t t) {
    return OnnxTensors{randn({n, t, 3}, *source), randint(0, 3, {n, t}, *source)};
  };
  const Sizes tried = {{1, 3}, {4, 1}, {7, 64}};
  auto ranges = [](const OnnxTensors& in) {
    const Tensor &x = in[0], &ids = in[1];
    return OnnxTensors{slice(x, 1, -5, {}),
                       slice(x, 1, {}, -5),
                       slice(x, 1, {}, -1, 2),
                       slice(x, 1, 0, 30),
                       slice(x, 1, 10, -2),
                       slice(x, 1, 30, 3, -1),
                       slice(x, 1, -5, {}, -1),
                       slice(x, 1, -5, 1, -2),
                       slice(x, 1, -2, -9, -3),
                       slice(x, 1, -5, -1, -1),
                       slice(x, {{}, {-9, -2}, 1}),
                       x * 2,
                       ids};
  };
  run("ranges", model, ranges, inputs, tried);
  auto fn = [&](const OnnxTensors& in) {
    const Tensor &x = in[0], &ids = in[1], steps = transpose(x, 0, 1);
    auto layer = [&](const Tensor& b_ih, const Tensor& b_hh) {
      return rnn_states(RnnKind::lstm, steps, {model.weight, back.weight, b_ih, b_hh}).h;
    };
    const int64_t odd = (int64_t{1} << 53) + 1, t = x.size(1);
    return OnnxTensors{slice(x, 1, 0, t - 1),
                       roll(x, {5}, {1}),
                       roll(x, {-5, 2}, {1, 2}),
                       roll(x, {t + 1}, {1}),
                       ids + full({t}, INT64_MAX, DType::i64),
                       pad(ids, {1, 2}, odd),
                       clamp(ids * INT64_MAX, odd, INT64_MAX),
                       layer(model.bias, {}),
                       layer({}, back.bias),
                       index_select(x, 1, arange(t - 1, -1, -1)),
                       index_select(ids, 1, arange(t - 2, -1, -2) + 1),
                       prod(x, 1),
                       prod(one_hot(ids, 3) + (int64_t{1} << 27), 2),
                       var(x, 1, 2)};
  };
  run("any-length", model, fn, inputs, tried);
}

void run_ntm(const std::string& name, const models::NtmOptions& options) {
  Rng rng(4);
  const models::Ntm model(options, rng);
  auto source = std::make_shared<Rng>(6);
  auto example = [&](int64_t n, int64_t t) {
    return OnnxStepExample<models::NtmState>{
        {randn({n, options.inputs}, *source)},
        model.run(randn({n, t, options.inputs}, *source)).state};
  };
  auto step = [&](const OnnxTensors& x, const models::NtmState& state) {
    models::NtmRun y = model.run(unsqueeze(x[0], 1), {.state = state});
    return std::pair(OnnxTensors{squeeze(y.output, 1)}, y.state);
  };
  run_step(name, model, step, example, kTexts, {.inputs = {"x"}, .outputs = {"y"}});
}

/// Recurrent layers over sequences of any length.
void recurrent() {
  run_ntm("ntm-step", {.inputs = 5, .outputs = 4, .locations = 8, .width = 6, .hidden = 16});
  run_ntm("ntm-heads-step", {.inputs = 5,
                             .outputs = 4,
                             .locations = 8,
                             .width = 6,
                             .hidden = 16,
                             .controller = models::NtmController::feed_forward,
                             .layers = 2,
                             .read_heads = 2,
                             .write_heads = 2});
  Rng rng(5);
  const models::LstmBaseline baseline(5, 4, rng, 16, 3);
  auto source = std::make_shared<Rng>(6);
  run(
      "lstm-baseline", baseline, [&](const OnnxTensors& x) { return OnnxTensors{baseline(x[0])}; },
      [=](int64_t n, int64_t t) {
        return OnnxTensors{randn({n, t, 5}, *source)};
      },
      kTexts);
  const models::LstmSeq2Seq seq2seq({.source_vocab = 90,
                                     .target_vocab = 70,
                                     .embed = 24,
                                     .hidden = 32,
                                     .layers = 2,
                                     .reverse_source = true},
                                    rng);
  run(
      "seq2seq", seq2seq,
      [&](const OnnxTensors& x) { return OnnxTensors{seq2seq(x[0], x[1], x[2])}; },
      [=](int64_t n, int64_t t) {
        OnnxTensors x = sources(n, t, *source);
        x.push_back(randint(0, 70, {n, 2 * t + 1}, *source));
        return x;
      },
      kTexts, {.inputs = {"source", "lengths", "target"}});
  run_translation("seq2seq", seq2seq, {"N"});
  models::BahdanauOptions o{.source_vocab = 90, .target_vocab = 70, .embed = 24, .hidden = 32};
  run_translation("bahdanau", models::Bahdanau(o, rng), {"N", "S"});
  o.form = models::BahdanauForm::d2l;
  o.layers = 2;
  run_translation("bahdanau-d2l", models::Bahdanau(o, rng), {"N", "S"});
}

/// A model of a user: sounds (N, 12, T) to letters, by a strided convolution, recurrent layers of
/// every kind in both directions, and einsum.
struct Speech {
  nn::Conv1d stem;
  nn::Gru gru;
  nn::Lstm lstm;
  nn::Rnn rnn;
  nn::Parameter mix;
  explicit Speech(Rng& rng)
      : stem(12, 16, 3, rng, {.stride = 2, .padding = 1}),
        gru(16, 10, rng, {.layers = 2, .bidirectional = true}),
        lstm(20, 12, rng, {.bidirectional = true, .bias = nn::Bias::no}),
        rnn(24, 8, rng, {}, nn::RnnNonlinearity::relu),
        mix(randn({2, 4, 9}, rng)) {}
  Tensor operator()(const Tensor& sounds) const {
    const Tensor x = transpose(relu(stem(sounds)), 1, 2);
    const Tensor y = rnn(lstm(gru(x).output).output).output;  // (N, T / 2, 8)
    return log_softmax(einsum("n t h c, h c o -> n t o", {unflatten(y, 2, {2, 4}), mix}), -1);
  }
  static void fields(auto& m, auto&& visit) {
    visit("stem", m.stem), visit("gru", m.gru), visit("lstm", m.lstm), visit("rnn", m.rnn);
    visit("mix", m.mix);
  }
};

void own_models() {
  Rng rng(8);
  auto source = std::make_shared<Rng>(9);
  const Speech speech(rng);
  run(
      "speech", speech, [&](const OnnxTensors& x) { return OnnxTensors{speech(x[0])}; },
      [=](int64_t n, int64_t t) {
        return OnnxTensors{randn({n, 12, t}, *source)};
      },
      {{1, 16}, {4, 1}, {7, 24}});
  // Inputs of every type, a scalar, outputs without elements, one weight under two names.
  const nn::Embedding table(9, 6, rng);
  auto mixed = [&](const OnnxTensors& in) {
    const Tensor &ids = in[0], &bytes = in[1], &scale = in[2], &wide = in[3];
    const Tensor x = table(ids);  // (N, T, 6)
    const Tensor t = x * scale + unsqueeze(bytes.to(DType::f32) / 255, 2);
    return OnnxTensors{matmul(t, transpose(table.weight, 0, 1)),
                       index(x, {tensor({1, 0}), tensor({0, 2})}),
                       topk(t, 3, -1).values,
                       topk(t, 3, -1).indices,
                       sort(ids, 1, true).values,
                       masked_fill(t, unsqueeze(bytes, 2), -1),
                       narrow(t, 2, 6, 0),
                       reshape(narrow(t, 2, 6, 0), {ids.size(0), ids.size(1), 0, 2}),
                       wide * 2 + 1,
                       ids,
                       scale};
  };
  run("inputs", table, mixed,
      [=](int64_t n, int64_t t) {
        return OnnxTensors{randint(0, 9, {n, t}, *source),
                           randint(0, 256, {n, t}, *source).to(DType::u8),
                           reshape(randn({1}, *source), {}), randn({t, 2}, *source).to(DType::f64)};
      },
      {{2, 16}, {4, 3}, {7, 23}});
}

void encoders() {
  Rng rng(2);
  const models::Bert bert(
      {.vocab = 90, .dim = 48, .layers = 2, .heads = 4, .ffn = 96, .positions = 64}, rng);
  run("bert", bert,
      [&](const OnnxTensors& x) {
        const Tensor hidden = bert.bert({.tokens = x[0], .mask = nn::Mask::lengths(x[1])});
        const models::Bert::Output y = bert.heads(hidden);
        return OnnxTensors{y.words, y.next};
      },
      texts_with_lengths(90), kTexts,
      {.inputs = {"tokens", "lengths"}, .outputs = {"words", "next"}});
  const nn::TransformerEncoder encoder(2, {.dim = 48, .heads = 4, .ffn = 96}, rng);
  auto source = std::make_shared<Rng>(4);
  run(
      "encoder-layers", encoder, [&](const OnnxTensors& x) { return OnnxTensors{encoder(x[0])}; },
      [=](int64_t n, int64_t t) {
        return OnnxTensors{randn({n, t, 48}, *source)};
      },
      kTexts);
  models::TransformerOptions o{
      .source_vocab = 90, .target_vocab = 70, .encoder_layers = 2, .decoder_layers = 2};
  o.layer = {.dim = 48, .heads = 4, .ffn = 96};
  const models::Transformer translate(o, rng);
  run(
      "transformer", translate,
      [&](const OnnxTensors& x) { return OnnxTensors{translate(x[0], x[1], x[2])}; },
      [=](int64_t n, int64_t t) {
        return OnnxTensors{randint(0, 90, {n, t}, *source), randint(1, t + 1, {n}, *source),
                           randint(0, 70, {n, 2 * t + 1}, *source)};
      },
      kTexts, {.inputs = {"source", "lengths", "target"}});
  run_translation("transformer", translate, {"N", "S", "P"});
}

/// The next t tokens of texts with other numbers of tokens in caches.
void gpt_step(const std::string& name, const models::Gpt& gpt) {
  auto rng = std::make_shared<Rng>(5);
  auto example = [&](int64_t n, int64_t t) {
    return OnnxStepExample<models::GptState>{{randint(0, 80, {n, t}, *rng)},
                                             gpt.encode(randint(0, 80, {n, 3 + 3 * t % 17}, *rng))};
  };
  auto step = [&](const OnnxTensors& x, const models::GptState& state) {
    models::Gpt::Step y = gpt.extend(state, x[0]);
    return std::pair(OnnxTensors{y.logits}, y.state);
  };
  run_step(name, gpt, step, example, {{1, 16}, {4, 1}, {7, 19}},
           {.inputs = {"tokens"}, .outputs = {"logits"}, .sizes = {"N", "T", "P"}});
}

void decoders() {
  Rng rng(3);
  auto run_gpt = [&](const std::string& name, const models::GptOptions& o) {
    const models::Gpt gpt(o, rng);
    run(name, gpt, [&](const OnnxTensors& x) { return OnnxTensors{gpt(x[0])}; }, texts(80), kTexts,
        {.inputs = {"tokens"}, .outputs = {"logits"}});
    gpt_step(name + "-step", gpt);
  };
  models::GptOptions gpt2{.vocab = 80, .context = 64, .dim = 48, .layers = 2, .heads = 4};
  run_gpt("gpt2", gpt2);
  models::GptOptions llama = models::llama_form(gpt2);
  llama.kv_heads = 2;
  run_gpt("llama", llama);
  llama.qk_norm = true;
  llama.window = 5;
  llama.window_layers = {true, false};
  run_gpt("llama-window", llama);
  const models::GmlpLanguageModel text({.vocab = 80, .context = 32, .dim = 32, .layers = 2}, rng);
  run(
      "gmlp-text", text, [&](const OnnxTensors& x) { return OnnxTensors{text(x[0])}; }, texts(80),
      kTexts);
}

}  // namespace
}  // namespace tern

int main(int argc, char** argv) {
  if (argc != 2) return fmt::print(stderr, "usage: onnx_zoo FOLDER\n"), 2;
  for (const int opset : {17, 23}) {
    tern::opset = opset;
    tern::folder = fmt::format("{}/{}", argv[1], opset);
    std::filesystem::create_directories(tern::folder);
    tern::pictures();
    tern::encoders();
    tern::decoders();
    tern::recurrent();
    tern::own_models();
    tern::single_ops();
    tern::open_windows();
    tern::any_length();
  }
}

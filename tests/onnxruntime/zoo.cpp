// onnx_zoo FOLDER: exports small models of every kind to FOLDER, with inputs of sizes that were not
// recorded and the outputs of tern for them. check.py compares these with onnxruntime's outputs.
#include <fmt/core.h>

#include <filesystem>
#include <functional>

#include "tern/core/base/rng.h"
#include "tern/core/io/safetensors.h"
#include "tern/core/ops/convolution/conv.h"
#include "tern/core/ops/convolution/interpolate.h"
#include "tern/core/ops/convolution/pooling.h"
#include "tern/core/ops/elementwise/elementary.h"
#include "tern/models/airbench.h"
#include "tern/models/bert.h"
#include "tern/models/gmlp.h"
#include "tern/models/gmlp_text.h"
#include "tern/models/gpt.h"
#include "tern/models/ntm.h"
#include "tern/models/resnet.h"
#include "tern/models/transformer.h"
#include "tern/models/vit.h"
#include "tern/onnx/onnx.h"

namespace tern {
namespace {

std::string folder;

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

template <class M, class Fn>
void run(const std::string& name, const M& model, const Fn& fn, const Inputs& inputs,
         const Sizes& tried, const OnnxOptions& options = {}) {
  Rng rng(7);
  disturb(model, rng);
  std::vector<OnnxTensors> examples;
  for (const auto& [n, t] : Sizes{{2, 11}, {3, 7}}) examples.push_back(inputs(n, t));
  const std::string path = folder + "/" + name;
  export_onnx(path + ".onnx", model, fn, examples, options);
  const nn::EvalScope evaluating(model);
  NoGradGuard no_grad;
  for (size_t k = 0; k < tried.size(); ++k) {
    SafeTensors file;
    const OnnxTensors in = inputs(tried[k].first, tried[k].second);
    for (size_t i = 0; i < in.size(); ++i)
      file.tensors.emplace_back(fmt::format("in.{:03}", i), in[i].contiguous());
    const OnnxTensors out = fn(in);
    for (size_t i = 0; i < out.size(); ++i)
      file.tensors.emplace_back(fmt::format("out.{:03}", i), out[i].contiguous());
    save_safetensors(fmt::format("{}.{}.safetensors", path, k), file);
  }
  fmt::print("{}\n", name);
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

/// A step of a translation: tokens (N), the source's lengths, then for each decoder layer its keys
/// and values (N, H, T, D) and the projected source (N, S, 2 D).
void transformer_step(const models::Transformer& model) {
  const size_t layers = model.transformer.decoder.layers.size();
  auto fn = [&model, layers](const OnnxTensors& x) {
    models::TransformerState state{{}, x[1], x[2].size(2)};
    for (size_t i = 0; i < layers; ++i) {
      nn::DecoderLayerState& layer = state.layers.emplace_back();
      layer.self.append(x[2 + 3 * i], x[3 + 3 * i]);
      layer.memory = x[4 + 3 * i];
    }
    models::Transformer::Step y = model.step(state, x[0]);
    OnnxTensors out{y.logits};
    for (const nn::DecoderLayerState& layer : y.state.layers) {
      out.push_back(layer.self.keys());
      out.push_back(layer.self.values());
    }
    return out;
  };
  auto rng = std::make_shared<Rng>(6);
  const auto& o = model.options.layer;
  run("transformer-step", model, fn,
      [=](int64_t n, int64_t t) {
        const int64_t source = 60 - 2 * t;  // no multiple of t, nor t plus a number
        OnnxTensors in{randint(0, 70, {n}, *rng), randint(1, source + 1, {n}, *rng)};
        for (size_t i = 0; i < layers; ++i) {
          for (int k = 0; k < 2; ++k) in.push_back(randn({n, o.heads, t, o.dim / o.heads}, *rng));
          in.push_back(randn({n, source, 2 * o.dim}, *rng));
        }
        return in;
      },
      kTexts, {.inputs = {"tokens", "lengths"}, .outputs = {"logits"}, .sizes = {"N", "T", "S"}});
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
         full({x.size(1), 2}, 3), arange(1, x.size(1)), x.to(DType::f64) * 2, ids.to(DType::f32)});
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
        avg_pool2d(x, {.kernel = 3, .stride = 2, .padding = 1}),
        adaptive_avg_pool2d(x, 3),
        interpolate(x, {.size = {{11, 5}}, .mode = Interpolation::bilinear}),
        group_norm(x, 2),
        prelu(x, tensor({0.1F, 0.2F, 0.3F, 0.4F}))};
  };
  run("windows", model, windows,
      [=](int64_t n, int64_t) {
        return OnnxTensors{randn({n, 4, 8, 10}, *source)};
      },
      {{1, 0}, {5, 0}, {16, 0}});
}

/// A Neural Turing Machine over two tokens: loops over time are unrolled.
void ntm() {
  Rng rng(4);
  const models::Ntm model({.inputs = 5, .outputs = 4, .locations = 8, .width = 6, .hidden = 16},
                          rng);
  auto source = std::make_shared<Rng>(6);
  run(
      "ntm-two-tokens", model, [&](const OnnxTensors& x) { return OnnxTensors{model(x[0])}; },
      [=](int64_t n, int64_t) {
        return OnnxTensors{randn({n, 2, 5}, *source)};
      },
      {{1, 0}, {5, 0}, {16, 0}});
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
      "transformer-encoder", encoder,
      [&](const OnnxTensors& x) { return OnnxTensors{encoder(x[0])}; },
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
  transformer_step(translate);
}

/// One step of a GPT: tokens (N), then keys and values (N, G, T, D) of each layer.
void gpt_step(const std::string& name, const models::Gpt& gpt) {
  const size_t layers = gpt.body.blocks.size();
  auto fn = [&gpt, layers](const OnnxTensors& x) {
    models::GptState state{std::vector<nn::KeyValueCache>(layers), x[0].size(0), x[1].size(2)};
    for (size_t i = 0; i < layers; ++i) state.layers[i].append(x[1 + 2 * i], x[2 + 2 * i]);
    models::Gpt::Step y = gpt.step(state, x[0]);
    OnnxTensors out{y.logits};
    for (const nn::KeyValueCache& cache : y.state.layers) {
      out.push_back(cache.keys());
      out.push_back(cache.values());
    }
    return out;
  };
  auto rng = std::make_shared<Rng>(5);
  const models::GptOptions& o = gpt.options;
  const int64_t groups = o.kv_heads ? o.kv_heads : o.heads;
  run(
      name, gpt, fn,
      [=](int64_t n, int64_t t) {
        OnnxTensors in{randint(0, 80, {n}, *rng)};
        for (size_t i = 0; i < 2 * layers; ++i)
          in.push_back(randn({n, groups, t, o.head_channels()}, *rng));
        return in;
      },
      kTexts);
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
  tern::folder = argv[1];
  std::filesystem::create_directories(tern::folder);
  tern::pictures();
  tern::encoders();
  tern::decoders();
  tern::ntm();
  tern::single_ops();
}

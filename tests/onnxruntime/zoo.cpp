// onnx_zoo FOLDER: exports small models of every kind to FOLDER, with inputs of sizes that were not
// recorded and the outputs of tern for them. check.py compares these with onnxruntime's outputs.
#include <fmt/core.h>

#include <filesystem>
#include <functional>

#include "tern/core/base/rng.h"
#include "tern/core/io/safetensors.h"
#include "tern/models/airbench.h"
#include "tern/models/bert.h"
#include "tern/models/gmlp.h"
#include "tern/models/gmlp_text.h"
#include "tern/models/gpt.h"
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

void pictures() {
  Rng rng(1);
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
}

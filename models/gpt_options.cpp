// Configurations of published models by name, and their numbers of weights.
#include <cmath>

#include "tern/models/gpt.h"
#include "tern/models/parts.h"

namespace tern::models {
namespace {

/// Llama's form with the sizes that every configuration names.
GptOptions llama(GptOptions sizes, double eps, bool tie_head) {
  GptOptions o = llama_form(std::move(sizes));
  o.eps = eps;
  o.tie_head = tie_head;
  return o;
}

// clang-format off
GptOptions smollm(int64_t context, double rope_base) {
  GptOptions o = llama({.vocab = 49152, .context = context, .dim = 576, .layers = 30, .heads = 9,
                        .kv_heads = 3, .ffn_dim = 1536}, 1e-5, true);
  o.rope_base = rope_base;
  return o;
}

GptOptions llama_3_2() {
  GptOptions o = llama({.vocab = 128256, .context = 131072, .dim = 2048, .layers = 16, .heads = 32,
                        .kv_heads = 8, .ffn_dim = 8192}, 1e-5, true);
  o.rope_base = 5e5;
  o.rope_scaling = {.kind = RopeScaling::Kind::llama3, .factor = 32};
  return o;
}

GptOptions qwen2_5() {
  GptOptions o = llama({.vocab = 151936, .context = 32768, .dim = 896, .layers = 24, .heads = 14,
                        .kv_heads = 2, .ffn_dim = 4864}, 1e-6, true);
  o.rope_base = 1e6;
  o.qkv_bias = nn::Bias::yes;
  return o;
}

GptOptions qwen3() {
  GptOptions o = llama({.vocab = 151936, .context = 40960, .dim = 1024, .layers = 28, .heads = 16,
                        .kv_heads = 8, .head_dim = 128, .ffn_dim = 3072}, 1e-6, true);
  o.rope_base = 1e6;
  o.qk_norm = true;
  return o;
}

GptOptions mistral() {
  GptOptions o = llama({.vocab = 32000, .context = 32768, .dim = 4096, .layers = 32, .heads = 32,
                        .kv_heads = 8, .ffn_dim = 14336}, 1e-5, false);
  o.window = 4096;
  return o;
}

GptOptions gemma_3() {
  GptOptions o = llama({.vocab = 262144, .context = 32768, .dim = 640, .layers = 18, .heads = 4,
                        .kv_heads = 1, .head_dim = 256, .ffn_dim = 2048}, 1e-6, true);
  o.ffn = GptFfn::geglu;
  o.post_norms = o.qk_norm = true;
  o.norm_offset = 1;
  o.embed_scale = std::sqrt(640.0);
  o.rope_base = 1e6;
  o.window_rope_base = 1e4;
  o.window = 512;
  for (int64_t layer = 0; layer < o.layers; ++layer) o.window_layers.push_back(layer % 6 != 5);
  return o;
}

GptOptions pythia() {
  GptOptions o =
      llama({.vocab = 50304, .context = 2048, .dim = 768, .layers = 12, .heads = 12}, 1e-5, false);
  o.norm = GptNorm::layer;
  o.ffn = GptFfn::gelu_erf;
  o.bias = nn::Bias::yes;
  o.parallel = true;
  o.rotary_share = 0.25;
  return o;
}

using Configurations = std::vector<std::pair<std::string, GptOptions>>;

const Configurations& known_gpts() {
  static const Configurations kConfigurations = {
      {"gpt2", {}},
      {"gpt2-medium", {.dim = 1024, .layers = 24, .heads = 16}},
      {"gpt2-large", {.dim = 1280, .layers = 36, .heads = 20}},
      {"gpt2-xl", {.dim = 1600, .layers = 48, .heads = 25}},
      {"smollm-135m", smollm(2048, 1e4)},
      {"smollm2-135m", smollm(8192, 1e5)},
      {"tinyllama-1.1b", llama({.vocab = 32000, .context = 2048, .dim = 2048, .layers = 22,
                                .heads = 32, .kv_heads = 4, .ffn_dim = 5632}, 1e-5, false)},
      {"llama-7b", llama({.vocab = 32000, .context = 2048, .dim = 4096, .layers = 32, .heads = 32,
                          .ffn_dim = 11008}, 1e-6, false)},
      {"llama-3.2-1b", llama_3_2()},
      {"qwen2.5-0.5b", qwen2_5()},
      {"qwen3-0.6b", qwen3()},
      {"mistral-7b", mistral()},
      {"gemma-3-270m", gemma_3()},
      {"pythia-160m", pythia()},
  };
  return kConfigurations;
}

// clang-format on
}  // namespace

GptOptions gpt_options(const std::string& name) { return options_named("gpt", name, known_gpts()); }

std::vector<std::string> gpt_names() { return names_of(known_gpts()); }

GptOptions llama_form(GptOptions o) {
  o.names = GptNames::llama;
  o.positions = GptPositions::rotary;
  o.norm = GptNorm::rms;
  o.ffn = GptFfn::swiglu;
  o.bias = nn::Bias::no;
  o.tie_head = false;
  o.dropout = 0;
  o.eps = 1e-6;
  return o;
}

int64_t gpt_weights(const GptOptions& o) {
  check_options(o);
  // In f64, which has all integers up to 2^53, so that no sizes can overflow.
  auto number = [](int64_t n) { return static_cast<double>(n); };
  auto matrix = [](double in, double out, nn::Bias bias) {
    return (in + (bias == nn::Bias::yes ? 1 : 0)) * out;
  };
  const double dim = number(o.dim), ffn = o.ffn_dim ? number(o.ffn_dim) : 4 * dim;
  const double head = number(o.head_channels()), queries = number(o.heads) * head;
  const double keys = number(o.kv_heads ? o.kv_heads : o.heads) * head;
  const bool gated = o.ffn == GptFfn::swiglu || o.ffn == GptFfn::geglu;
  const double norm = o.norm == GptNorm::rms || o.bias == nn::Bias::no ? dim : 2 * dim;
  const double attention = matrix(dim, queries + 2 * keys, o.qkv_bias.value_or(o.bias)) +
                           matrix(queries, dim, o.out_bias.value_or(o.bias)) +
                           (o.qk_norm ? 2 * head : 0);
  const double mlp = (gated ? 2 : 1) * matrix(dim, ffn, o.bias) + matrix(ffn, dim, o.bias);
  const double tables = (o.tie_head ? 1 : 2) * number(o.vocab) +
                        (o.positions == GptPositions::learned ? number(o.context) : 0);
  const double sum =
      tables * dim + number(o.layers) * ((o.post_norms ? 4 : 2) * norm + attention + mlp) + norm;
  check(sum < 0x1p53, "Gpt: a model of these sizes has {:.3g} weights", sum);
  return static_cast<int64_t>(sum);
}

}  // namespace tern::models

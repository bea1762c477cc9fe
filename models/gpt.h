// Causal language models: GPT-2 ("Language Models are Unsupervised Multitask Learners", Radford et
// al. 2019), and with other options Llama ("LLaMA", Touvron et al. 2023) and the families after it.
// B texts, T tokens, D channels, V words.
//
//   x = dropout(embed(tokens) + positions)
//   x = x + dropout(attention(norm(x)));  x = x + dropout(ffn(norm(x)))      L times, causal
//   logits = head(norm(x))                                                   at t: for token t + 1
//
// | part | GPT-2 | Llama |
// |---|---|---|
// | positions | learned, added to the embedding | rotary, in each attention (halves of a head) |
// | norm | LayerNorm | RMSNorm |
// | ffn | W2 gelu_tanh(W1 x) | W2 (silu(Wg x) * (W1 x)), SwiGLU |
// | heads of keys and values | same as heads | fewer: grouped queries |
// | biases | everywhere | nowhere |
// | head | the embedding table | its own matrix, or the table |
//
// Each part is an option of its own. Other families are Llama's form with other options:
//
// | family | options |
// |---|---|
// | Llama 3.1, 3.2 | rope_scaling llama3 |
// | Mistral | window |
// | Qwen 2, 2.5 | qkv_bias; window in the layers of window_layers |
// | Qwen 3 | qk_norm, head_dim |
// | SmolLM 3 | rotary_layers: three of four layers turn |
// | Phi-3, 3.5, 4 mini | window, rotary_share; rope_scaling longrope |
// | Gemma 3 | geglu, post_norms, norm_offset, embed_scale, qk_norm, head_dim, window_rope_base |
// | GPT-NeoX, Pythia | norm layer, ffn gelu_erf, bias, parallel, rotary_share 0.25 |
//
// Names and matrix layout are those of transformers:
// GPT2LMHeadModel's (transformer.h.0.attn.c_attn.weight, whose Conv1D stores (in, out)) or
// LlamaForCausalLM's (model.layers.0.self_attn.q_proj.weight). Parts that the original lacks get
// names of ours: model.embed_positions, mlp.c_gate.
//
//   NoGradGuard guard;
//   nn::set_training(model, false);
//   auto state = model.encode(narrow(prompt, 1, 0, n - 1));    // prompt (1, n)
//   decoding::sample(model, state, {.top_p = 0.9, .begin = last, .end = kEnd}, rng);
//
// Packed weights are several times as fast: decode/packed_gpt.h.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "tern/nn/nn.h"

namespace tern::models {

enum class GptNames { gpt2, llama };
enum class GptPositions { learned, rotary };
enum class GptNorm { layer, rms };
/// W2 f(W1 x) with f the tanh form of GELU or its exact form (erf); or gated,
/// W2 (f(Wg x) * (W1 x)), with f SiLU or GELU (tanh).
enum class GptFfn { gelu, gelu_erf, swiglu, geglu };
using nn::RopeScaling;

struct GptOptions {
  int64_t vocab = 50257;
  int64_t context = 1024;  ///< largest number of tokens
  int64_t dim = 768, layers = 12, heads = 12;
  int64_t kv_heads = 0;                                              ///< 0: same as heads
  int64_t head_dim = 0;                                              ///< 0: dim / heads
  int64_t ffn_dim = 0;                                               ///< 0: four times dim
  double dropout = 0.1;                                              ///< on outputs of sublayers
  std::optional<double> embed_dropout = {}, attention_dropout = {};  ///< default: dropout
  GptNames names = GptNames::gpt2;
  GptPositions positions = GptPositions::learned;
  GptNorm norm = GptNorm::layer;
  GptFfn ffn = GptFfn::gelu;
  nn::Bias bias = nn::Bias::yes;          ///< of matrices and of LayerNorm
  std::optional<nn::Bias> qkv_bias = {};  ///< of queries, keys and values; default: bias
  std::optional<nn::Bias> out_bias = {};  ///< of the attention's last matrix; default: bias
  bool tie_head = true;                   ///< the head is the embedding table
  double eps = 1e-5;                      ///< of the norms
  double norm_offset = 0;                 ///< RMSNorm multiplies by its weight plus this
  bool qk_norm = false;                   ///< RMSNorm of each head's queries and keys
  bool parallel = false;                  ///< x + attention(norm1(x)) + ffn(norm2(x))
  bool post_norms = false;                ///< x + norm(attention(norm1(x))), also for the ffn
  double embed_scale = 1;                 ///< factor of the embedding's rows
  double rope_base = 1e4;
  RopeScaling rope_scaling = {};
  double rotary_share = 1;               ///< share of a head's channels that are turned
  std::vector<bool> rotary_layers = {};  ///< whether layer i turns; empty: all do
  int64_t window = 0;                    ///< tokens that a token sees, with itself; 0: all
  std::vector<bool> window_layers = {};  ///< whether layer i has the window; empty: all
  double window_rope_base = 0;           ///< of layers with the window, unscaled; 0: as others
  nn::Recompute recompute = nn::Recompute::none;  ///< of the blocks

  int64_t head_channels() const { return head_dim ? head_dim : dim / heads; }
};

/// Error, with the values, if no model can be made of the options, or if one changes nothing
/// because another is missing: window_layers and window_rope_base need a window, norm_offset needs
/// norm rms or qk_norm, and all that turns channels needs rotary positions.
void check_options(const GptOptions& options);

/// Published models by name: gpt2 (124,439,808 weights), gpt2-medium, gpt2-large, gpt2-xl; with
/// Llama's names smollm-135m, smollm2-135m, tinyllama-1.1b, llama-7b, llama-3.2-1b, qwen2.5-0.5b,
/// qwen3-0.6b, mistral-7b (v0.1), gemma-3-270m, pythia-160m. Models of one size may differ in what
/// weights do not show: smollm-135m and smollm2-135m in rope_base.
GptOptions gpt_options(const std::string& name);
std::vector<std::string> gpt_names();
/// GptOptions() in Llama's form: its names, rotary positions, RMSNorm with eps 1e-6, SwiGLU, no
/// biases, a separate head, no dropout.
GptOptions llama_form(GptOptions options = {});
/// The number of weights of a model with these options, without creating it.
int64_t gpt_weights(const GptOptions& options);

/// A linear layer whose matrix is stored as (out, in) or transposed, (in, out).
struct GptLinear {
  nn::Parameter weight, bias;
  bool transposed;

  /// The weight starts in N(0, std^2), the bias at 0.
  GptLinear(GptNames names, int64_t in, int64_t out, nn::Bias bias, double std, Rng& rng);
  Tensor operator()(const Tensor& x, const LinearOptions& options = {}) const;
  static void fields(auto& m, auto&& visit) {
    visit("weight", m.weight);
    visit("bias", m.bias);
  }
};

using GptNormLayer = std::variant<nn::LayerNorm, nn::RmsNorm>;

struct GptAttention {
  GptNames names;
  HeadCounts counts;
  int64_t window;                                   ///< 0: all tokens
  std::optional<nn::RotaryOptions> turn;            ///< rotary positions
  std::optional<GptLinear> c_attn;                  ///< GPT-2: q, k and v in one
  std::optional<GptLinear> q_proj, k_proj, v_proj;  ///< Llama
  std::optional<nn::RmsNorm> q_norm, k_norm;        ///< of one head
  GptLinear out;
  double dropout;
  nn::TrainingMode training = true;
  mutable Rng rng;  // drawing does not count as a change of the layer

  GptAttention(const GptOptions& options, int64_t layer, Rng& rng);
  /// x (B, T, D) -> the heads side by side, before the matrix `out`. With a cache, x are the next
  /// tokens, which are added to it. `weights`, if given, receives (B, H, T, S).
  Tensor operator()(const Tensor& x, nn::KeyValueCache* cache, Tensor* weights) const;
  static void fields(auto& m, auto&& visit) {
    visit("c_attn", m.c_attn);
    visit("q_proj", m.q_proj);
    visit("k_proj", m.k_proj);
    visit("v_proj", m.v_proj);
    visit("q_norm", m.q_norm);
    visit("k_norm", m.k_norm);
    visit(m.names == GptNames::gpt2 ? "c_proj" : "o_proj", m.out);
    visit("training", m.training);
    visit("rng", m.rng);
  }

 private:
  /// The channels of q, k and v on the last axis.
  std::array<Tensor, 3> project(const Tensor& x) const;
  AttentionOptions options(int64_t before) const;
};

struct GptMlp {
  GptNames names;
  GptFfn kind;
  std::optional<GptLinear> gate;
  GptLinear up, down;

  GptMlp(const GptOptions& options, Rng& rng);
  /// The hidden units (B, T, ffn_dim), before the matrix `down`.
  Tensor operator()(const Tensor& x) const;
  static void fields(auto& m, auto&& visit) {
    const bool gpt2 = m.names == GptNames::gpt2;
    visit(gpt2 ? "c_gate" : "gate_proj", m.gate);
    visit(gpt2 ? "c_fc" : "up_proj", m.up);
    visit(gpt2 ? "c_proj" : "down_proj", m.down);
  }
};

struct GptBlock {
  GptNames names;
  GptNormLayer norm1, norm2;
  std::optional<GptNormLayer> post_norm1, post_norm2;
  GptAttention attention;
  GptMlp mlp;
  nn::Dropout dropout;
  bool parallel;

  GptBlock(const GptOptions& options, int64_t layer, Rng& rng);
  Tensor operator()(const Tensor& x, nn::KeyValueCache* cache = nullptr,
                    Tensor* weights = nullptr) const;
  static void fields(auto& m, auto&& visit) {
    const bool gpt2 = m.names == GptNames::gpt2;
    visit(gpt2 ? "ln_1" : "input_layernorm", m.norm1);
    visit(gpt2 ? "attn" : "self_attn", m.attention);
    // In Gemma the name of Llama's second norm is that of the norm behind the attention.
    visit(gpt2 ? "ln_1_post" : "post_attention_layernorm", m.post_norm1);
    visit(gpt2           ? "ln_2"
          : m.post_norm1 ? "pre_feedforward_layernorm"
                         : "post_attention_layernorm",
          m.norm2);
    visit(gpt2 ? "ln_2_post" : "post_feedforward_layernorm", m.post_norm2);
    visit("mlp", m.mlp);
    visit("dropout", m.dropout);
  }

 private:
  Tensor add(const Tensor& x, const GptLinear& matrix, const Tensor& h,
             const std::optional<GptNormLayer>& post_norm) const;
};

/// The state of decoding; a value.
struct GptState {
  std::vector<nn::KeyValueCache> layers;
  int64_t texts = 0;
  int64_t position = 0;  ///< number of tokens so far

  int64_t batch() const { return texts; }
  /// The state of texts rows[0], rows[1], ... (i64).
  GptState select_rows(const Tensor& rows) const;
};

/// The model up to the head, named `transformer` or `model`.
struct GptBody {
  GptNames names;
  nn::Parameter embed, positions;
  nn::Dropout dropout;
  std::vector<GptBlock> blocks;
  GptNormLayer norm;

  GptBody(const GptOptions& options, Rng& rng);
  static void fields(auto& m, auto&& visit) {
    const bool gpt2 = m.names == GptNames::gpt2;
    visit(gpt2 ? "wte.weight" : "embed_tokens.weight", m.embed);
    visit(gpt2 ? "wpe.weight" : "embed_positions.weight", m.positions);
    visit("drop", m.dropout);
    visit(gpt2 ? "h" : "layers", m.blocks);
    visit(gpt2 ? "ln_f" : "norm", m.norm);
  }
};

/// Matrices start in N(0, 0.02^2); the last one of each sublayer in N(0, 0.02^2 / (2 L)).
struct Gpt {
  GptOptions options;
  GptBody body;
  nn::Parameter head;  ///< (V, D); undefined if tied to the table

  Gpt(const GptOptions& options, Rng& rng);

  /// Logits (B, T, V) of tokens i64 (B, T), T <= context.
  Tensor operator()(const Tensor& tokens) const;
  /// cross_entropy of these logits and labels i64 (B, T). Uses less memory: it does not store the
  /// logits (linear_cross_entropy).
  Tensor loss(const Tensor& tokens, const Tensor& labels,
              const CrossEntropyOptions& options = {}) const;
  struct Output {
    Tensor logits;
    std::vector<Tensor> attention;  ///< (B, H, T, T) per layer
  };
  Output attend(const Tensor& tokens) const;

  /// The state after tokens (B, T); T may be 0.
  GptState encode(const Tensor& tokens) const;
  struct Step {
    Tensor logits;  ///< (B, V), for the next token; of extend (B, T, V)
    GptState state;
  };
  /// The logits after each of the next tokens, i64 (B, T).
  Step extend(const GptState& state, const Tensor& tokens) const;
  /// One token per text, i64 (B). Error after the last token of the context.
  Step step(const GptState& state, const Tensor& tokens) const;

  static void fields(auto& m, auto&& visit) {
    visit(m.options.names == GptNames::gpt2 ? "transformer" : "model", m.body);
    visit("lm_head.weight", m.options.tie_head ? m.body.embed : m.head);
  }

 private:
  Tensor run(const Tensor& tokens, GptState* state, std::vector<Tensor>* weights) const;
  const Tensor& head_matrix() const { return options.tie_head ? body.embed : head; }
  Tensor logits(const Tensor& x) const;
};

/// Loads tensors with transformers' names (safetensors, GGUF, PyTorch), and takes those that have
/// no other owner. Names may lack "transformer." or "model."; a tied head may be missing; buffers
/// of old files (attn.bias, attn.masked_bias, rotary_emb.inv_freq) are skipped. A model with
/// Llama's names also takes Phi-3's, which stack q, k and v, and gate and up, and GPT-NeoX's, which
/// interleave q, k and v. If the state does not fit, an Error lists all differences, and the model
/// does not change.
///
/// Weights say nothing of rope_base, rope_scaling, rotary_share, window, eps, embed_scale, heads of
/// the same total width or the activation. With others than those of the training the model loads
/// and gives worse texts: take them from the config.json beside the file.
void load_gpt_state(NamedTensors state, Gpt& model);
/// A model in evaluation mode with the weights of `state`. Neither draws random weights nor takes
/// memory for them beside those of the state (nn/unfilled.h).
Gpt gpt_from(const GptOptions& options, NamedTensors state);
/// The number of the layer that a tensor of a file belongs to, by its name: 3 for
/// "model.layers.3.mlp.up_proj.weight"; -1 for those outside of the layers.
int64_t gpt_layer_of(std::string_view name);
/// Whether a tensor of a file is the table of embeddings, or the head, by its name.
bool is_gpt_table(std::string_view name);
bool is_gpt_head(std::string_view name);
/// Error unless these rows are equal, for a model with one matrix for both.
void check_tied(const Tensor& table, const Tensor& head);
/// load_gpt_state() of one layer's tensors.
void load_gpt_layer(NamedTensors state, Gpt& model, int64_t layer);
/// load_gpt_state() of a safetensors file. IoError, which names the file.
void load_gpt_weights(const std::string& path, Gpt& model);

}  // namespace tern::models

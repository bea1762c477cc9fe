// Causal language models: GPT-2 ("Language Models are Unsupervised Multitask Learners", Radford et
// al. 2019), and with other options Llama ("LLaMA", Touvron et al. 2023). B texts, T tokens, D
// channels, V words.
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
// Each part is an option of its own. Names and matrix layout are those of transformers:
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

#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tern/nn/nn.h"

namespace tern::models {

enum class GptNames { gpt2, llama };
enum class GptPositions { learned, rotary };
enum class GptNorm { layer, rms };
enum class GptFfn { gelu, swiglu };

struct GptOptions {
  int64_t vocab = 50257;
  int64_t context = 1024;  ///< largest number of tokens
  int64_t dim = 768, layers = 12, heads = 12;
  int64_t kv_heads = 0;                                              ///< 0: same as heads
  int64_t ffn_dim = 0;                                               ///< 0: four times dim
  double dropout = 0.1;                                              ///< on outputs of sublayers
  std::optional<double> embed_dropout = {}, attention_dropout = {};  ///< default: dropout
  GptNames names = GptNames::gpt2;
  GptPositions positions = GptPositions::learned;
  GptNorm norm = GptNorm::layer;
  GptFfn ffn = GptFfn::gelu;
  nn::Bias bias = nn::Bias::yes;  ///< of matrices and of LayerNorm
  bool tie_head = true;           ///< the head is the embedding table
  double eps = 1e-5;              ///< of the norms
  double rope_base = 1e4;
  nn::Recompute recompute = nn::Recompute::none;  ///< of the blocks
};

/// Sizes by name: gpt2 (124,439,808 weights), gpt2-medium, gpt2-large, gpt2-xl; in Llama's form
/// smollm-135m, tinyllama-1.1b, llama-7b.
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
  GptLinear(const GptOptions& options, int64_t in, int64_t out, double std, Rng& rng);
  Tensor operator()(const Tensor& x, const LinearOptions& options = {}) const;
  static void fields(auto& m, auto&& visit) {
    visit("weight", m.weight);
    visit("bias", m.bias);
  }
};

using GptNormLayer = std::variant<nn::LayerNorm, nn::RmsNorm>;

struct GptAttention {
  GptNames names;
  GptPositions positions;
  double rope_base;
  HeadCounts counts;
  std::optional<GptLinear> c_attn;                  ///< GPT-2: q, k and v in one
  std::optional<GptLinear> q_proj, k_proj, v_proj;  ///< Llama
  GptLinear out;
  double dropout;
  nn::TrainingMode training = true;
  mutable Rng rng;  // drawing does not count as a change of the layer

  GptAttention(const GptOptions& options, Rng& rng);
  /// x (B, T, D) -> the heads side by side (B, T, D), before the matrix `out`. With a cache, x are
  /// the next tokens, which are added to it. `weights`, if given, receives (B, H, T, S).
  Tensor operator()(const Tensor& x, nn::KeyValueCache* cache, Tensor* weights) const;
  static void fields(auto& m, auto&& visit) {
    visit("c_attn", m.c_attn);
    visit("q_proj", m.q_proj);
    visit("k_proj", m.k_proj);
    visit("v_proj", m.v_proj);
    visit(m.names == GptNames::gpt2 ? "c_proj" : "o_proj", m.out);
    visit("training", m.training);
    visit("rng", m.rng);
  }

 private:
  AttentionOptions options(int64_t before) const;
};

struct GptMlp {
  GptNames names;
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
  GptAttention attention;
  GptMlp mlp;
  nn::Dropout dropout;

  GptBlock(const GptOptions& options, Rng& rng);
  Tensor operator()(const Tensor& x, nn::KeyValueCache* cache = nullptr,
                    Tensor* weights = nullptr) const;
  static void fields(auto& m, auto&& visit) {
    const bool gpt2 = m.names == GptNames::gpt2;
    visit(gpt2 ? "ln_1" : "input_layernorm", m.norm1);
    visit(gpt2 ? "attn" : "self_attn", m.attention);
    visit(gpt2 ? "ln_2" : "post_attention_layernorm", m.norm2);
    visit("mlp", m.mlp);
    visit("dropout", m.dropout);
  }

 private:
  Tensor add(const Tensor& x, const GptLinear& matrix, const Tensor& h) const;
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
    Tensor logits;  ///< (B, V), for the next token
    GptState state;
  };
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

/// Loads a file of transformers. Names may lack "transformer." or "model."; a tied head may be
/// missing; buffers of old files (attn.bias, attn.masked_bias, rotary_emb.inv_freq) are skipped. If
/// the file does not fit, an IoError lists all differences and the model does not change.
void load_gpt_weights(const std::string& path, Gpt& model);

}  // namespace tern::models

// config.json of causal language models: every member is used, or harmless, or reported as unknown,
// or refused; and what tern writes is what it reads.
#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "tern/core/base/error.h"
#include "tern/pretrained/gpt_config.h"
#include "tern/tests/support/damaged_json.h"
#include "tern/tests/support/data_files.h"
#include "tern/tests/support/errors.h"

namespace tern::test_gpt_config {
using models::GptOptions;
using Kind = models::RopeScaling::Kind;
using nlohmann::json;
using pretrained::read_gpt_config, pretrained::write_gpt_config;
using test::contains;
using Names = std::vector<std::string>;

namespace {

const std::string kLlama = R"({"model_type": "llama", "hidden_size": 32, "num_attention_heads": 4,
  "num_key_value_heads": 2, "intermediate_size": 64, "num_hidden_layers": 2, "vocab_size": 318})";
const std::string kGpt2 = R"({"model_type": "gpt2", "n_embd": 32, "n_head": 4, "n_layer": 2})";

/// The configuration with one changed or added member.
std::string with(const std::string& fine, const char* key, const char* value) {
  json changed = json::parse(fine);
  changed[key] = json::parse(value);
  return changed.dump();
}

struct Row {
  const char *key, *value, *said;  // said: the error, "" for a member that is accepted
};

void check_rows(const std::string& fine, const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    CAPTURE(row.key);
    CAPTURE(row.value);
    Names unknown;
    const std::string said =
        test::error_of([&] { unknown = read_gpt_config(with(fine, row.key, row.value)).unknown; });
    CAPTURE(said);
    CHECK(said.empty() == std::string(row.said).empty());
    CHECK(contains(said, row.said));
    CHECK(unknown.empty());
  }
}

}  // namespace

TEST_CASE("config.json of a Llama: members that change results are used or refused by name") {
  check_rows(
      kLlama,
      {{"rope_scaling", R"({"type": "dynamic", "factor": 2.0})", "rope_scaling.type: it is \"dyn"},
       {"rope_scaling", R"({"rope_type": "yarn", "beta_fast": 0.5})", "beta_slow 1, beta_fast 0.5"},
       {"rope_scaling", R"({"rope_type": "yarn", "mscale": 1.0})", "rope_scaling.mscale"},
       {"rope_scaling", R"({"rope_type": "longrope", "factor": 2.0})", "it has no short_factor"},
       {"rope_scaling", R"({"rope_type": "longrope", "short_factor": [1], "long_factor": [1, 2]})",
        "a positive divisor for each of 4 pairs"},
       {"rope_scaling", R"({"rope_type": "llama3", "factor": 8.0})", "low_freq_factor"},
       {"rope_scaling", R"({"type": "linear"})", "rope_scaling: it has no factor"},
       {"rope_scaling", R"({"factor": 4.0})", "it has rope_scaling.factor, which tern does not"},
       {"rope_scaling", R"({"rope_type": "default", "mscale": 1})", "rope_scaling.mscale"},
       {"rope_scaling", "7", "rope_scaling: expected an object, got 7"},
       {"rope_parameters", R"({"rope_type": "ntk"})", "rope_parameters.rope_type: it is"},
       {"rope_scaling", R"({"rope_type": "yarn", "factor": 8.0})", ""},
       {"partial_rotary_factor", "0", "rotary"},
       {"head_dim", "-4", "head"},
       {"hidden_act", "\"gelu\"", "hidden_act: it is \"gelu\"; only \"silu\" is known"},
       {"layer_types", R"(["full_attention", "sliding_attention"])", "layer_types[1]: there is no"},
       {"layer_types", R"(["full_attention", "linear_attention"])", "linear_attention is not"},
       {"quantization_config", R"({"bits": 4})", "quantization_config: it is {\"bits\":4}"},
       {"pruned_heads", R"({"0": [1]})", "pruned_heads: it is"},
       {"is_encoder_decoder", "true", "is_encoder_decoder: it is true"},
       {"add_cross_attention", "true", "add_cross_attention: it is true"},
       {"num_attention_heads", "0", "heads"},
       {"model_type", "\"mamba\"", "model_type is mamba; gemma3_text"},
       {"rope_scaling", "null", ""},
       {"rope_scaling", R"({"type": "default"})", ""},
       {"rope_parameters", R"({"rope_type": "default", "rope_theta": 500000.0})", ""},
       {"head_dim", "8", ""},
       {"hidden_act", "\"swish\"", ""},
       {"sliding_window", "16", "sliding_window: transformers' Llama ignores it"},
       {"sliding_window", "2048", ""},  // the whole context
       {"sliding_window", "null", ""},
       {"layer_types", R"(["full_attention", "full_attention"])", ""},
       {"pruned_heads", "{}", ""},
       {"pretraining_tp", "2", ""},  // only the order of computation
       {"is_llama_config", "true", ""},
       {"tie_word_embeddings", "true", ""}});
}

TEST_CASE("config.json of a Gemma 3: members that change results are used or refused by name") {
  const std::string gemma =
      R"({"model_type": "gemma3_text", "hidden_size": 32, "num_attention_heads": 4, "head_dim": 16,
          "num_hidden_layers": 7, "query_pre_attn_scalar": 16, "vocab_size": 318})";
  check_rows(gemma, {{"hidden_activation", "\"gelu\"", "hidden_activation: it is \"gelu\""},
                     {"use_bidirectional_attention", "true", "use_bidirectional_attention: it is"},
                     {"final_logit_softcapping", "30.0", "final_logit_softcapping: it is 30"},
                     {"attn_logit_softcapping", "50.0", "attn_logit_softcapping: it is 50"},
                     {"query_pre_attn_scalar", "8", "query_pre_attn_scalar: only head_dim, 16, is"},
                     {"sliding_window_pattern", "0", "sliding_window_pattern is 0"},
                     {"rope_parameters",
                      R"({"sliding_attention": {"rope_type": "linear", "factor": 2},
                          "full_attention": {"rope_type": "default"}})",
                      "rope_parameters.sliding_attention.rope_type: it is \"linear\""},
                     {"rope_scaling", R"({"rope_type": "linear", "factor": 8.0})", ""},
                     {"attn_logit_softcapping", "null", ""}});
  const GptOptions o = read_gpt_config(gemma).options;
  CHECK(o.tie_head);
  CHECK(o.norm_offset == 1);
  CHECK(o.embed_scale == std::sqrt(32.0));
  CHECK(o.window_layers == std::vector<bool>{true, true, true, true, true, false, true});
  CHECK(o.rope_base == 1e6);
  CHECK(o.window_rope_base == 1e4);
  // A window of the whole context: the layers keep their own positions.
  CHECK(read_gpt_config(with(gemma, "max_position_embeddings", "512")).options.window == 4096);
  const GptOptions open = read_gpt_config(with(gemma, "sliding_window", "null")).options;
  CHECK(open.window == 0);
  CHECK(open.window_rope_base == 0);
}

TEST_CASE("config.json of a GPT-2: members that change results are used or refused by name") {
  check_rows(kGpt2, {{"activation_function", "\"relu\"", "activation_function: it is"},
                     {"scale_attn_weights", "false", "scale_attn_weights: it is false"},
                     {"scale_attn_by_inverse_layer_idx", "true", "layer_idx: it is true"},
                     {"n_embd", "\"x\"", "n_embd: \"x\" is not an integer"},
                     {"n_embd", "0", "0"},
                     {"n_positions", "1e77", "n_positions"},
                     {"activation_function", "\"gelu_pytorch_tanh\"", ""},
                     {"reorder_and_upcast_attn", "true", ""},
                     {"n_ctx", "1024", ""}});
}

TEST_CASE("config.json: values reach the options") {
  const auto options = [](const char* key, const char* value) {
    return read_gpt_config(with(kLlama, key, value)).options;
  };
  const GptOptions plain = read_gpt_config(kLlama).options;
  CHECK(plain.kv_heads == 2);
  CHECK(plain.ffn_dim == 64);
  CHECK(plain.context == 2048);
  CHECK(plain.rope_base == 1e4);
  CHECK(plain.eps == 1e-6);
  CHECK_FALSE(plain.tie_head);
  CHECK(plain.bias == nn::Bias::no);
  CHECK(options("tie_word_embeddings", "true").tie_head);
  CHECK(options("head_dim", "16").head_dim == 16);
  CHECK(options("head_dim", "8").head_dim == 0);  // the default
  CHECK(options("rope_theta", "5e5").rope_base == 5e5);
  CHECK(options("rope_parameters", R"({"rope_theta": 7.0})").rope_base == 7);
  CHECK(options("partial_rotary_factor", "0.5").rotary_share == 0.5);
  CHECK(options("mlp_bias", "true").bias == nn::Bias::yes);
  CHECK(options("attention_bias", "true").qkv_bias == nn::Bias::yes);
  CHECK(options("attention_bias", "true").out_bias == nn::Bias::yes);
  CHECK(options("attention_bias", "true").bias == nn::Bias::no);
  const GptOptions linear = options("rope_scaling", R"({"type": "linear", "factor": 4})");
  CHECK(linear.rope_scaling.kind == models::RopeScaling::Kind::linear);
  CHECK(linear.rope_scaling.factor == 4);
  const GptOptions llama3 = options("rope_scaling", R"({"rope_type": "llama3", "factor": 32,
      "low_freq_factor": 1, "high_freq_factor": 4, "original_max_position_embeddings": 8192})");
  CHECK(llama3.rope_scaling.kind == models::RopeScaling::Kind::llama3);
  CHECK(llama3.rope_scaling.factor == 32);
  CHECK(llama3.rope_scaling.original_context == 8192);
}

TEST_CASE("config.json: families differ where transformers' models do") {
  const auto family = [](const char* name, const char* key = "dtype",
                         const char* value = "\"float32\"") {
    return read_gpt_config(with(with(kLlama, "model_type", name), key, value)).options;
  };
  const GptOptions qwen2 = family("\"qwen2\"");
  CHECK(qwen2.qkv_bias == nn::Bias::yes);
  CHECK(qwen2.out_bias == nn::Bias::no);
  CHECK(qwen2.window == 0);  // it has a window, but does not use it
  const GptOptions windows =
      read_gpt_config(
          with(with(with(with(kLlama, "model_type", "\"qwen2\""), "use_sliding_window", "true"),
                    "max_window_layers", "1"),
               "sliding_window", "16"))
          .options;
  CHECK(windows.window == 16);
  CHECK(windows.window_layers == std::vector<bool>{false, true});
  const GptOptions qwen3 = family("\"qwen3\"");
  CHECK(qwen3.qk_norm);
  CHECK(qwen3.head_dim == 128);
  CHECK(qwen3.qkv_bias == nn::Bias::no);
  const GptOptions mistral = family("\"mistral\"");
  CHECK(mistral.window == 4096);
  CHECK(family("\"mistral\"", "sliding_window", "null").window == 0);
  CHECK(family("\"mistral\"", "sliding_window", "64").window == 64);
  CHECK(family("\"mistral\"", "sliding_window", "131072").window == 0);  // the whole context
  CHECK(family("\"smollm3\"", "no_rope_layers", "[1, 0]").rotary_layers ==
        std::vector<bool>{true, false});
  const std::string smollm3 =
      with(with(kLlama, "model_type", "\"smollm3\""), "sliding_window", "9");
  CHECK(read_gpt_config(smollm3).options.window == 0);
  CHECK(
      read_gpt_config(with(with(smollm3, "use_sliding_window", "true"), "no_rope_layers", "[0, 1]"))
          .options.window_layers == std::vector<bool>{true, false});
  CHECK(family("\"phi3\"", "resid_pdrop", "0.5").dropout == 0.5);
  const GptOptions neox = family("\"gpt_neox\"", "rotary_pct", "0.5");
  CHECK(neox.parallel);
  CHECK(neox.ffn == models::GptFfn::gelu_erf);
  CHECK(neox.norm == models::GptNorm::layer);
  CHECK(neox.rotary_share == 0.5);
  CHECK(family("\"gpt_neox\"", "partial_rotary_factor", "0.5").rotary_share == 0.5);
  const std::string both =
      with(with(kLlama, "model_type", "\"gpt_neox\""), "rotary_emb_base", "500");
  CHECK(read_gpt_config(with(both, "rope_theta", "500")).options.rope_base == 500);
  CHECK(contains(test::error_of([&] { read_gpt_config(with(both, "rope_theta", "600")); }),
                 "contradicts rotary_emb_base"));
}

TEST_CASE("config.json: dropout stands where transformers' models have it") {
  const auto family = [](const char* name, const char* key, const char* value) {
    return read_gpt_config(with(with(kLlama, "model_type", name), key, value)).options;
  };
  // residual connections, embeddings, attention
  const auto dropouts = [](const GptOptions& o) {
    return std::vector<double>{o.dropout, o.embed_dropout.value_or(o.dropout),
                               o.attention_dropout.value_or(o.dropout)};
  };
  using Dropouts = std::vector<double>;
  for (const char* name : {"\"llama\"", "\"mistral\"", "\"qwen2\"", "\"smollm3\"", "\"phi3\""}) {
    CAPTURE(name);
    CHECK(dropouts(family(name, "attention_dropout", "0.25")) == Dropouts{0, 0, 0.25});
    // A program that sets `dropout` of a model without any means all three.
    CHECK_FALSE(family(name, "attention_dropout", "0.0").attention_dropout.has_value());
    CHECK_FALSE(family(name, "attention_dropout", "0.0").embed_dropout.has_value());
  }
  CHECK(dropouts(family("\"phi3\"", "resid_pdrop", "0.5")) == Dropouts{0.5, 0, 0});
  CHECK(dropouts(family("\"gpt_neox\"", "hidden_dropout", "0.5")) == Dropouts{0.5, 0.5, 0});
  // Another Llama's resid_pdrop changes nothing in transformers.
  CHECK(read_gpt_config(with(kLlama, "resid_pdrop", "0.5")).unknown == Names{"resid_pdrop"});
  CHECK(dropouts(read_gpt_config(with(kLlama, "resid_pdrop", "0.5")).options) == Dropouts{0, 0, 0});
  for (const char* name : {"\"llama\"", "\"phi3\"", "\"gpt_neox\"", "\"gpt2\""})
    for (const double p : {0.0, 0.125}) {
      CAPTURE(name);
      const std::string from =
          with(with(name == std::string("\"gpt2\"") ? kGpt2 : kLlama, "model_type", name),
               "attention_dropout", "0.25");
      const pretrained::GptConfig c = read_gpt_config(pretrained::with_dropout(from, p));
      CHECK(dropouts(c.options) == Dropouts{p, p, p});
    }
}

TEST_CASE("config.json: the end tokens are one or several") {
  using Ids = std::vector<int64_t>;
  CHECK(read_gpt_config(kLlama).ends.empty());
  CHECK(read_gpt_config(with(kLlama, "eos_token_id", "2")).ends == Ids{2});
  CHECK(read_gpt_config(with(kLlama, "eos_token_id", "[5, 7]")).ends == Ids{5, 7});
  CHECK(pretrained::end_tokens(R"({"eos_token_id": [1], "temperature": 0.6})") == Ids{1});
}

TEST_CASE("config.json: unknown members are named") {
  CHECK(read_gpt_config(with(kLlama, "embd_scale", "2.0")).unknown == Names{"embd_scale"});
  CHECK(read_gpt_config(with(kGpt2, "parallel_residual", "true")).unknown ==
        Names{"parallel_residual"});
  const std::string folder = std::string(TERN_SOURCE_DIR) + "/tests/reference/gpt/";
  for (const std::string name : {"gpt2", "llama", "llama_tied"})  // transformers wrote them
    CHECK(read_gpt_config(test::read_file(folder + name + "/config.json")).unknown.empty());
}

TEST_CASE("config.json: what is written is read again") {
  GptOptions base = models::llama_form({.vocab = 300,
                                        .context = 64,
                                        .dim = 32,
                                        .layers = 2,
                                        .heads = 4,
                                        .kv_heads = 2,
                                        .ffn_dim = 48});
  const auto changed = [&](auto change) {
    GptOptions o = base;
    change(o);
    return o;
  };
  const std::vector<GptOptions> all = {
      {.vocab = 300, .context = 64, .dim = 32, .layers = 2, .heads = 4, .ffn_dim = 48},
      {.dropout = 0.2, .embed_dropout = 0, .attention_dropout = 0.3},
      base,
      changed([](GptOptions& o) { o.dropout = 0.2; }),
      changed([](GptOptions& o) { o.attention_dropout = 0.2; }),
      changed(
          [](GptOptions& o) { o.dropout = 0.2, o.embed_dropout = 0, o.attention_dropout = 0.3; }),
      changed([](GptOptions& o) { o.tie_head = true, o.rope_base = 5e5; }),
      changed([](GptOptions& o) { o.qkv_bias = o.out_bias = nn::Bias::yes; }),
      changed([](GptOptions& o) { o.qkv_bias = nn::Bias::yes, o.out_bias = nn::Bias::no; }),
      changed([](GptOptions& o) { o.qk_norm = true, o.head_dim = 16; }),
      changed([](GptOptions& o) { o.window = 16; }),
      changed([](GptOptions& o) {
        o.ffn = models::GptFfn::geglu;
        o.post_norms = o.qk_norm = o.tie_head = true;
        o.head_dim = 16, o.norm_offset = 1, o.embed_scale = std::sqrt(32.0);
        o.window = 16, o.window_layers = {true, false};
        o.rope_base = 3e5, o.window_rope_base = 700;
        o.rope_scaling = {.kind = Kind::linear, .factor = 8};
      }),
      changed([](GptOptions& o) { o.rope_scaling = {.kind = Kind::llama3, .factor = 8}; }),
      changed([](GptOptions& o) {
        o.rope_scaling = {.kind = Kind::yarn, .factor = 2, .original_context = 32};
        o.rope_scaling.beta_slow = 0.5, o.rope_scaling.attention_factor = 1.25;
      }),
      changed([](GptOptions& o) {
        o.rope_scaling = {.kind = Kind::longrope,
                          .factor = 2,
                          .original_context = 32,
                          .shorter = {1, 1, 1.5, 2},
                          .longer = {1, 2, 3, 4}};
      })};
  for (const GptOptions& o : all) {
    const auto text = write_gpt_config(o, 3);
    REQUIRE(text.has_value());
    CAPTURE(*text);
    const pretrained::GptConfig c = read_gpt_config(*text);
    CHECK(c.unknown.empty());
    CHECK(c.ends == std::vector<int64_t>{3});
    const GptOptions& r = c.options;
    const auto facts = [](const GptOptions& x) {
      return std::tuple(x.vocab, x.context, x.dim, x.layers, x.heads, x.head_channels(), x.ffn_dim,
                        x.dropout, x.embed_dropout.value_or(x.dropout),
                        x.attention_dropout.value_or(x.dropout), x.names, x.positions, x.norm,
                        x.ffn, x.bias, x.qkv_bias.value_or(x.bias), x.out_bias.value_or(x.bias),
                        x.tie_head, x.eps, x.qk_norm, x.rope_base, x.rope_scaling, x.window,
                        x.window_rope_base, x.post_norms, x.norm_offset, x.embed_scale);
    };
    CHECK((facts(r) == facts(o)));
    if (!o.window_layers.empty()) CHECK(r.window_layers == o.window_layers);
    CHECK((r.kv_heads ? r.kv_heads : r.heads) == (o.kv_heads ? o.kv_heads : o.heads));
  }
}

TEST_CASE("config.json: nothing is written for options that no written family has") {
  using models::GptFfn, nn::Bias;
  const auto written = [](const GptOptions& base, auto... changes) {
    GptOptions o = base;
    (changes(o), ...);
    return write_gpt_config(o, {}).has_value();
  };
  const GptOptions gpt2 = {.layers = 2, .heads = 12};
  const GptOptions llama = models::llama_form({.dim = 32, .layers = 2, .heads = 4});
  CHECK(written(gpt2));
  CHECK(written(llama));
  const auto qk_norm = [](GptOptions& o) { o.qk_norm = true; };
  const auto no_qkv_bias = [](GptOptions& o) { o.qkv_bias = Bias::no; };
  const auto no_out_bias = [](GptOptions& o) { o.out_bias = Bias::no; };
  const auto bias = [](GptOptions& o) { o.bias = Bias::yes; };
  const auto some_windows = [](GptOptions& o) { o.window = 8, o.window_layers = {true, false}; };
  const auto offset = [](GptOptions& o) { o.norm_offset = 1; };
  const auto unturned = [](GptOptions& o) { o.rotary_layers = {true, false}; };
  for (const GptOptions& base : {gpt2, llama}) {
    CAPTURE(base.names == models::GptNames::gpt2);
    CHECK_FALSE(written(base, [](GptOptions& o) { o.parallel = true; }));
    CHECK_FALSE(written(base, [](GptOptions& o) { o.embed_scale = 2; }));
    CHECK_FALSE(written(base, [](GptOptions& o) { o.post_norms = true; }));
    CHECK_FALSE(written(base, [](GptOptions& o) { o.ffn = GptFfn::gelu_erf; }));
    CHECK_FALSE(written(base, qk_norm, bias));
    CHECK_FALSE(written(base, bias, no_qkv_bias));
    CHECK_FALSE(written(base, some_windows));
  }
  CHECK_FALSE(written(gpt2, [](GptOptions& o) { o.kv_heads = 2; }));
  CHECK_FALSE(written(gpt2, [](GptOptions& o) { o.bias = Bias::no; }));
  CHECK_FALSE(written(gpt2, [](GptOptions& o) { o.window = 8; }));
  CHECK_FALSE(written({.dim = 32, .layers = 2, .heads = 3, .head_dim = 16}));
  CHECK_FALSE(written(llama, [](GptOptions& o) { o.ffn = GptFfn::geglu; }));
  CHECK_FALSE(written(llama, offset));
  CHECK_FALSE(written(llama, unturned));
  CHECK_FALSE(written(llama, [](GptOptions& o) { o.rotary_share = 0.5; }));
  CHECK_FALSE(written(llama, [](GptOptions& o) { o.norm = models::GptNorm::layer; }));
  CHECK_FALSE(written(llama, bias, no_out_bias));
  CHECK_FALSE(written(llama, qk_norm, [](GptOptions& o) { o.qkv_bias = Bias::yes; }));
}

TEST_CASE("config.json: what a SmolLM3 leaves out") {
  const GptOptions o = read_gpt_config(R"({"model_type": "smollm3"})").options;
  CHECK(o.tie_head);  // transformers' defaults
  CHECK(o.rope_base == 2e6);
  CHECK(read_gpt_config(R"({"model_type": "smollm3", "rope_theta": 5e6})").options.rope_base ==
        5e6);
}

TEST_CASE("config.json: errors about damaged files are in tern's words") {
  const auto read = [](const std::string& text) { read_gpt_config(text); };
  test::check_damaged(kLlama, "", 50, read);
  test::check_damaged(
      R"({"model_type": "mistral", "hidden_size": 32, "num_attention_heads": 4, "sliding_window": 9,
          "num_key_value_heads": 2,
          "num_hidden_layers": 1, "rope_parameters": {"rope_type": "linear", "rope_theta": 1e4,
          "factor": 2}, "layer_types": ["sliding_attention"]})",
      "", 50, read);
  test::check_damaged(
      R"({"model_type": "phi3", "hidden_size": 16, "num_attention_heads": 4, "rope_scaling":
          {"rope_type": "longrope", "short_factor": [1, 2], "long_factor": [2, 3]},
          "num_key_value_heads": 2, "original_max_position_embeddings": 1024})",
      "", 50, read);
  test::check_damaged(kGpt2, "", 40, read);
}

}  // namespace tern::test_gpt_config

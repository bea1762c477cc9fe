// Families after GPT-2 and Llama: transformers' logits and continuations (tests/reference),
// windows, options in pairs, names of other families, and loading without memory beside the file's.
#include <doctest/doctest.h>

#include <cmath>

#include "tern/core/base/allocator.h"
#include "tern/core/base/reserved.h"
#include "tern/core/base/rng.h"
#include "tern/core/io/tensor_file.h"
#include "tern/core/tape/autograd.h"
#include "tern/decode/packed_gpt.h"
#include "tern/decode/sampling.h"
#include "tern/models/gpt.h"
#include "tern/nn/unfilled.h"
#include "tern/tests/gpt_forms.h"
#include "tern/tests/support/errors.h"
#include "tern/tests/support/model_checks.h"

namespace tern::test_gpt_families {
using models::Gpt, models::GptOptions, models::RopeScaling;
using test::close, test::same, test::sharp, test::some_tokens, test::kContext, test::kWords;
using Tokens = std::vector<int64_t>;

namespace {

std::string reference(const std::string& name) {
  return std::string(TERN_SOURCE_DIR) + "/tests/reference/gpt/" + name;
}

struct Case {
  std::string folder, answers;
  GptOptions options;
};

/// The configurations of tests/reference/make_gpt_families.py.
std::vector<Case> cases() {
  std::vector<Case> out;
  auto add = [&](const std::string& folder, const std::string& answers, auto change) {
    GptOptions o = models::llama_form({.vocab = 43,
                                       .context = 40,
                                       .dim = 20,
                                       .layers = 2,
                                       .heads = 4,
                                       .kv_heads = 2,
                                       .ffn_dim = 28});
    o.rope_base = 1000;
    change(o);
    out.push_back({folder, answers, o});
  };
  auto llama3 = [](GptOptions& o) {
    o.head_dim = 8;
    o.qkv_bias = o.out_bias = nn::Bias::yes;
  };
  add("llama3", "answers", [&](GptOptions& o) {
    llama3(o);
    o.rope_scaling = {.kind = RopeScaling::Kind::llama3,
                      .factor = 4,
                      .low_freq_factor = 1,
                      .high_freq_factor = 3,
                      .original_context = 16};
  });
  add("llama3", "answers_linear", [&](GptOptions& o) {
    llama3(o);
    o.rope_scaling = {.kind = RopeScaling::Kind::linear, .factor = 3};
  });
  for (const bool bounds : {false, true})
    add("yarn", bounds ? "answers_bounds" : "answers", [=](GptOptions& o) {
      o.head_dim = 12;
      o.rope_scaling = {.kind = RopeScaling::Kind::yarn, .factor = 4, .original_context = 16};
      if (!bounds) return;
      o.rope_scaling.beta_fast = 3, o.rope_scaling.beta_slow = 0.3;
      o.rope_scaling.truncate = false;
      o.rope_scaling.attention_factor = 0.8;
    });
  for (const char* answers : {"answers", "answers_short", "answers_factor"})
    add("phi3_long", answers, [=](GptOptions& o) {
      o.dim = 24;
      o.eps = 1e-5;
      o.rope_scaling = {.kind = RopeScaling::Kind::longrope,
                        .factor = 2.5,
                        .original_context = 16,
                        .shorter = {1, 1.1, 1.3},
                        .longer = {1.2, 2.5, 7}};
      if (answers == std::string("answers_short"))
        o.rope_scaling.factor = 1, o.rope_scaling.original_context = 40;
      if (answers == std::string("answers_factor")) o.rope_scaling.attention_factor = 1.5;
    });
  add("mistral", "answers", [](GptOptions& o) { o.head_dim = 6, o.window = 5; });
  add("mistral", "answers_whole", [](GptOptions& o) { o.head_dim = 6; });
  add("qwen2", "answers", [](GptOptions& o) {
    o.dim = 24, o.kv_heads = 1, o.tie_head = true;
    o.qkv_bias = nn::Bias::yes;
    o.window = 4;
    o.window_layers = {false, true};
  });
  add("qwen3", "answers", [](GptOptions& o) { o.head_dim = 10, o.qk_norm = true; });
  add("smollm3", "answers", [](GptOptions& o) {
    o.head_dim = 6, o.kv_heads = 4, o.tie_head = true;
    o.rotary_layers = {true, false};
  });
  add("phi3", "answers", [](GptOptions& o) {
    o.dim = 16, o.window = 7, o.rotary_share = 0.5;
    o.eps = 1e-5;
  });
  add("gemma3", "answers", [](GptOptions& o) {
    o.dim = 16, o.kv_heads = 1, o.head_dim = 6, o.tie_head = true;
    o.ffn = models::GptFfn::geglu;
    o.post_norms = o.qk_norm = true;
    o.norm_offset = 1;
    o.embed_scale = 4;
    o.window = 5;
    o.window_layers = {true, false};
    o.window_rope_base = 50;
  });
  for (const bool parallel : {true, false})
    add("gpt_neox", parallel ? "answers" : "answers_serial", [=](GptOptions& o) {
      o.dim = 16, o.heads = 2, o.kv_heads = 0;
      o.norm = models::GptNorm::layer;
      o.ffn = models::GptFfn::gelu_erf;
      o.bias = nn::Bias::yes;
      o.rotary_share = 0.25;
      o.parallel = parallel;
      o.eps = 1e-5;
    });
  return out;
}

NamedTensors state_of(const std::string& folder) {
  return load_safetensors(reference(folder) + "/model.safetensors").tensors;
}

/// Greedy continuations from prompts (B, T) by steps with a cache.
template <class State>
std::vector<Tokens> continued(const Tensor& prompt, int64_t count, State&& begin) {
  const decoding::GreedyOptions options{
      .begin = select(prompt, 1, prompt.size(1) - 1).to_vector<int64_t>(), .max_length = count};
  std::vector<Tokens> out;
  for (const auto& text : begin(options)) out.push_back(text.tokens);
  return out;
}

/// A model in f64 and the same in f32, with the same weights.
std::pair<Gpt, Gpt> models_of(const GptOptions& options) {
  Gpt single = sharp(options);
  nn::to(single, DType::f32);
  Gpt exact = single;
  nn::to(exact, DType::f64);
  return {std::move(exact), std::move(single)};
}

/// The largest difference divided by the largest number.
double distance(const Tensor& a, const Tensor& exact) {
  const Tensor x = a.to(DType::f64);
  return max(abs(x - exact)).item<double>() / max(abs(exact)).item<double>();
}

}  // namespace

TEST_CASE("Gpt families: transformers' logits and greedy continuations, on tape and packed") {
  NoGradGuard guard;
  for (const Case& c : cases()) {
    CAPTURE(c.folder);
    CAPTURE(c.answers);
    const Gpt model = models::gpt_from(c.options, state_of(c.folder));
    Gpt exact = model;
    nn::to(exact, DType::f64);
    const decoding::PackedGpt packed(model, PackedType::f32);
    const SafeTensors answers =
        load_safetensors(reference(c.folder) + "/" + c.answers + ".safetensors");
    const Tensor prompt = answers.find("prompt"), greedy = answers.find("greedy");
    const Tensor logits = answers.find("logits");
    // transformers computes the angles of 32 tokens in f32.
    CHECK(close(model(prompt), logits, 1e-4, 1e-4));
    CHECK(close(exact(prompt), logits.to(DType::f64), 1e-4, 1e-4));
    CHECK(close(packed(prompt), logits, 1e-4, 1e-4));
    std::vector<Tokens> want, known;
    const Tensor before = narrow(prompt, 1, 0, 19);
    for (int64_t i = 0; i < 2; ++i) {
      want.push_back(greedy[i].to_vector<int64_t>());
      known.push_back(before[i].to_vector<int64_t>());
    }
    CHECK(want[0] != want[1]);
    CHECK(continued(prompt, 12, [&](const decoding::GreedyOptions& o) {
            return decoding::greedy(model, model.encode(before), o);
          }) == want);
    CHECK(continued(prompt, 12, [&](const decoding::GreedyOptions& o) {
            const auto texts = packed.texts();
            texts->add(known);
            return decoding::greedy(*texts, o);
          }) == want);
  }
}

TEST_CASE("Gpt families: options in pairs: counted weights, steps, and packed weights") {
  NoGradGuard guard;
  for (const GptOptions& base : {test::small(), test::small_llama()}) {
    const auto check_form = [](const std::string& name, const GptOptions& o) {
      CAPTURE(name);
      const auto [exact, single] = models_of(o);
      CHECK(nn::num_parameters(exact) == models::gpt_weights(o));
      const decoding::PackedGpt packed(single, PackedType::f32);
      const Tensor tokens = some_tokens(2, kContext), whole = exact(tokens);
      const Tensor packed_whole = packed(tokens);
      // As in test_packed_gpt.cpp: ten products, with sums of 64 terms.
      CHECK(distance(packed_whole, whole) < std::sqrt(10.0 * 64) * 0x1p-24);
      models::GptState state = exact.encode(narrow(tokens, 1, 0, 3));
      const auto texts = packed.texts();
      texts->add(std::vector<Tokens>(2));
      for (int64_t t = 0; t < kContext; ++t) {
        const Tensor token = select(tokens, 1, t);
        CHECK(same(texts->step(token), select(packed_whole, 1, t)));
        if (t < 3) continue;
        Gpt::Step next = exact.step(state, token);
        CHECK(close(next.logits, select(whole, 1, t), 1e-10, 1e-10));
        state = std::move(next.state);
      }
    };
    test::for_singles(base, test::later_options(), check_form);
    test::for_pairs(base, test::later_options(), check_form);
  }
}

TEST_CASE("Gpt families: a token beyond the windows of all layers changes nothing") {
  NoGradGuard guard;
  for (GptOptions o : {test::small(), test::small_llama()})
    for (const std::vector<bool>& layers : {std::vector<bool>{}, {true, false}}) {
      o.window = 3;
      o.window_layers = layers;
      const auto [exact, single] = models_of(o);
      const decoding::PackedGpt packed(single, PackedType::f32);
      Tensor tokens = some_tokens(1, kContext);
      const Tensor before = exact(tokens), packed_before = packed(tokens);
      Tensor other = tokens.clone();
      other.mutable_data<int64_t>()[2] = (tokens.data<int64_t>()[2] + 1) % kWords;
      const Tensor after = exact(other), packed_after = packed(other);
      // Two layers of windows of 3 tokens reach 4 tokens back.
      for (int64_t t = 0; t < kContext; ++t) {
        const bool reached = t >= 2 && (t <= 6 || !layers.empty());
        CHECK(same(select(before, 1, t), select(after, 1, t)) == !reached);
        CHECK(same(select(packed_before, 1, t), select(packed_after, 1, t)) == !reached);
      }
    }
}

TEST_CASE("Gpt families: stacked matrices of other sizes are listed, and nothing is loaded") {
  const std::vector<Case> all = cases();
  for (const std::string folder : {"phi3", "gpt_neox"}) {
    CAPTURE(folder);
    const Case& c = *std::ranges::find(all, folder, &Case::folder);
    const std::string stack = folder == "phi3" ? "qkv_proj.weight" : "query_key_value.weight";
    Gpt model = models::gpt_from(c.options, state_of(folder));
    NamedTensors short_of_one = state_of(folder);
    for (auto& [name, t] : short_of_one)
      if (name.ends_with(stack)) t = narrow(t, 0, 1, t.size(0) - 1);
    const Tensor tokens = remainder(some_tokens(1, 5), 43);
    const Tensor before = model(tokens);
    CHECK_THROWS_WITH_AS(models::load_gpt_state(short_of_one, model),
                         doctest::Contains(stack.c_str()), Error);
    NamedTensors numbers = state_of(folder);
    for (auto& [name, t] : numbers) t = zeros({});
    CHECK_THROWS_AS(models::load_gpt_state(numbers, model), Error);
    CHECK(same(model(tokens), before));
  }
}

TEST_CASE("Gpt families: a model made for loading takes the state's memory") {
  const GptOptions o = models::llama_form(
      {.vocab = 3000, .context = 8, .dim = 128, .layers = 2, .heads = 4, .ffn_dim = 300});
  Rng rng(1);
  const Gpt source(o, rng);
  trim_memory();  // a copy gets a block of its size, not a larger one that an earlier test freed
  NamedTensors given = test::copies(nn::state_dict(source));
  const int64_t bytes = models::gpt_weights(o) * 4;
  reset_peak_memory();
  const int64_t before = memory_stats().live;
  Gpt model = models::gpt_from(o, std::move(given));
  CHECK(memory_stats().peak - before < bytes / 100);
  CHECK(memory_stats().live - before < bytes / 100);
  CHECK(!model.body.dropout.training);
  const Tensor tokens = tensor(Tokens{1, 2999, 7}, {1, 3});
  CHECK(same(model(tokens), source(tokens)));

  // A state that others hold is copied, into memory that each weight frees alone.
  const NamedTensors kept = test::copies(nn::state_dict(source));
  model = models::gpt_from(o, kept);
  CHECK(same(model(tokens), source(tokens)));
  for (const auto& parameter : nn::named_parameters(model)) {
    CAPTURE(parameter.first);
    CHECK(!detail::is_reserved(parameter.second.data<float>()));
  }
  CHECK(same(kept[0].second, nn::state_dict(source)[0].second));
  CHECK_THROWS_WITH_AS(models::gpt_from(o, {}), doctest::Contains("missing"), Error);
}

/// The tensors as a file; `order` receives the names that are read.
TensorSource source_of(const NamedTensors& all, std::vector<std::string>* order = nullptr) {
  TensorSource out;
  for (const auto& [name, t] : all) out.tensors.emplace_back(name, t.shape());
  out.load_rows = [all, order](const std::string& name, int64_t begin, int64_t end) {
    if (order) order->push_back(name);
    for (const auto& [n, t] : all)
      if (n == name) return narrow(t, 0, begin, end - begin).clone();
    return Tensor();
  };
  out.load = [out](const std::string& name) {
    for (const auto& [n, shape] : out.tensors)
      if (n == name) return out.load_rows(name, 0, shape[0]);
    return Tensor();
  };
  return out;
}

TEST_CASE("Gpt families: packing while a file is read gives the bits of the whole model") {
  NoGradGuard guard;
  const Tensor tokens = remainder(some_tokens(2, 9), 43);
  for (const Case& c : cases()) {
    CAPTURE(c.folder);
    const std::string path = reference(c.folder) + "/model.safetensors";
    const Gpt model = models::gpt_from(c.options, state_of(c.folder));
    for (const PackedType type :
         {PackedType::f32, PackedType::bf16, PackedType::int8, PackedType::int4}) {
      const decoding::PackedGpt packed(c.options, type, open_tensors(path));
      const decoding::PackedGpt whole(model, type);
      CHECK(same(packed(tokens), whole(tokens)));
      CHECK(packed.bytes() <= whole.bytes());
    }
    NamedTensors all = load_safetensors(path).tensors;
    auto refuses = [&](const NamedTensors& state, const std::string& text) {
      CHECK_THROWS_WITH_AS(decoding::PackedGpt(c.options, PackedType::f32, source_of(state)),
                           doctest::Contains(text.c_str()), Error);
    };
    const int64_t dim = c.options.dim;
    NamedTensors state = all;
    std::erase_if(state, [](const auto& t) { return models::gpt_layer_of(t.first) == 1; });
    refuses(state, "missing");
    state = all;
    for (auto& [name, t] : state)
      if (const size_t at = name.find("layers.1."); at != name.npos) name[at + 7] = '2';
    refuses(state, "layers.2.");
    for (const auto is : {models::is_gpt_table, models::is_gpt_head})
      for (size_t i = 0; i < all.size(); ++i) {
        if (!is(all[i].first)) continue;
        state = all;
        state.erase(state.begin() + static_cast<ptrdiff_t>(i));
        refuses(state, "missing");
        state = all;
        state[i].second = zeros({44, dim});
        refuses(state, fmt::format("(44, {0}) instead of (43, {0})", dim));
        state[i].second = zeros({43, dim}, DType::i64);
        refuses(state, "is i64 instead of f32");
        state[i].second = zeros({43 * dim});
        refuses(state, fmt::format("({},) instead of (43, {})", 43 * dim, dim));
      }
  }
  CHECK(models::gpt_layer_of("model.layers.12.mlp.up_proj.weight") == 12);
  CHECK(models::gpt_layer_of("h.3.ln_1.bias") == 3);
  CHECK(models::gpt_layer_of("gpt_neox.layers.0.attention.bias") == 0);
  for (const char* name : {"wte.weight", "layers.weight", "layers.-1.x", "players.3.x", "h.3",
                           "layers.99999999999999999999.x", ""})
    CHECK(models::gpt_layer_of(name) == -1);
}

TEST_CASE("Gpt families: a tied head that the file has too must equal the table") {
  NoGradGuard guard;
  GptOptions o = test::small_llama();
  o.tie_head = true;
  const Gpt model = sharp(o);
  const Tensor tokens = some_tokens(2, 5);
  NamedTensors all;
  for (const auto& [name, t] : nn::state_dict(model))
    if (t.is_contiguous()) all.emplace_back(name, t.to(DType::f64));
  std::erase_if(all, [](const auto& t) { return models::is_gpt_head(t.first); });
  const Tensor table = model.body.embed.tensor().detach().to(DType::f64);
  Gpt single = model;
  nn::to(single, DType::f32);
  for (const PackedType type : {PackedType::f32, PackedType::int8}) {
    const Tensor want = decoding::PackedGpt(single, type)(tokens);
    auto packed = [&](const NamedTensors& state) {
      return decoding::PackedGpt(o, type, source_of(state))(tokens);
    };
    CHECK(same(packed(all), want));
    NamedTensors twice = all;
    twice.emplace_back("lm_head.weight", table);
    CHECK(same(packed(twice), want));
    NamedTensors head_only = twice;
    std::erase_if(head_only, [](const auto& t) { return models::is_gpt_table(t.first); });
    CHECK(same(packed(head_only), want));
    for (const Tensor& other : {table + 1, narrow(table, 0, 0, table.size(0) - 1)}) {
      twice.back().second = other;
      CHECK_THROWS_WITH_AS(packed(twice), doctest::Contains("lm_head.weight differs"), Error);
    }
  }
}

TEST_CASE("Gpt families: packing while a file is read holds a block beside the packed weights") {
  GptOptions o = models::llama_form(
      {.vocab = 20'000, .context = 8, .dim = 256, .layers = 10, .heads = 4, .ffn_dim = 600});
  Rng rng(1);
  for (const bool tied : {true, false}) {
    o.tie_head = tied;
    const Gpt source(o, rng);
    const NamedTensors all = nn::state_dict(source);
    const int64_t layer_bytes = nn::num_parameters(source.body.blocks[0]) * 4;
    const int64_t table_bytes = o.vocab * o.dim * 4;
    for (const PackedType type : {PackedType::f32, PackedType::int8, PackedType::int4}) {
      trim_memory();
      reset_peak_memory();
      const int64_t before = memory_stats().live;
      const decoding::PackedGpt packed(o, type, source_of(all));
      // A block of the table has 4 MiB.
      CHECK(memory_stats().peak - before < packed.bytes() + (9 << 19));
      CHECK(memory_stats().cached == 0);
      CHECK((9 << 19) < table_bytes / 4);
      CHECK(layer_bytes < table_bytes);
    }
  }
}

TEST_CASE("Gpt families: errors name the rule and the values") {
  Rng rng(1);
  auto refuses = [&](auto change, const char* text) {
    GptOptions o = test::small_llama();
    change(o);
    CHECK_THROWS_WITH_AS(Gpt(o, rng), doctest::Contains(text), Error);
    CHECK_THROWS_WITH_AS(models::gpt_weights(o), doctest::Contains(text), Error);
  };
  using Kind = RopeScaling::Kind;
  refuses([](GptOptions& o) { o.head_dim = -2; }, "head_dim -2");
  refuses([](GptOptions& o) { o.head_dim = 5; }, "even number of channels per head, got 5");
  refuses([](GptOptions& o) { o.head_dim = 4, o.dim = 0; }, "dim is 0");
  refuses([](GptOptions& o) { o.head_dim = 4, o.heads = 0; }, "must divide the 0 query heads");
  refuses([](GptOptions& o) { o.window = -1; }, "window -1");
  refuses([](GptOptions& o) { o.window_layers = {true}; }, "window_layers has 1 entries for 2");
  refuses([](GptOptions& o) { o.rotary_layers = {true, true, true}; }, "rotary_layers has 3");
  refuses([](GptOptions& o) { o.rotary_share = 0; }, "rotary_share must be in (0, 1], it is 0");
  refuses([](GptOptions& o) { o.rotary_share = 1.5; }, "it is 1.5");
  refuses([](GptOptions& o) { o.head_dim = 8, o.rotary_share = 0.4; }, "of which 3 are turned");
  refuses([](GptOptions& o) { o.rope_base = 0; }, "rope_base is 0");
  refuses([](GptOptions& o) { o.window_rope_base = -1; }, "window_rope_base -1");
  refuses([](GptOptions& o) { o.embed_scale = NAN; }, "embed_scale is nan");
  refuses([](GptOptions& o) { o.rope_scaling = {.kind = Kind::linear, .factor = 0}; },
          "factor of scaled rotary positions is 0");
  refuses(
      [](GptOptions& o) {
        o.rope_scaling = {.kind = Kind::llama3, .factor = 2, .low_freq_factor = 4};
      },
      "low_freq_factor 4, high_freq_factor 4");
  refuses([](GptOptions& o) { o.layers = int64_t{1} << 62; }, "weights");
}

TEST_CASE("Gpt families: an option that would change nothing is an error that names both") {
  auto refuses = [](auto change, const std::string& name, const std::string& missing) {
    GptOptions o = test::small_llama();
    change(o);
    const std::string said = test::error_of([&] { models::check_options(o); });
    CAPTURE(said);
    CHECK(test::contains(said, "Gpt: " + name));
    CHECK(test::contains(said, missing));
  };
  refuses([](GptOptions& o) { o.window_layers = {true, false}; }, "window_layers", "window is 0");
  refuses([](GptOptions& o) { o.window_rope_base = 7; }, "window_rope_base 7", "window is 0");
  refuses([](GptOptions& o) { o.norm = models::GptNorm::layer, o.norm_offset = 1; },
          "norm_offset 1", "qk_norm false");
  const auto unturned = [&](auto change, const std::string& name) {
    refuses(
        [&](GptOptions& o) {
          o.positions = models::GptPositions::learned;
          change(o);
        },
        name, "positions is learned");
  };
  unturned([](GptOptions& o) { o.rope_base = 5e5; }, "rope_base");
  unturned([](GptOptions& o) { o.rope_scaling = {.kind = RopeScaling::Kind::linear, .factor = 2}; },
           "rope_scaling");
  unturned([](GptOptions& o) { o.rotary_share = 0.5; }, "rotary_share");
  unturned([](GptOptions& o) { o.rotary_layers = {true, false}; }, "rotary_layers");
  unturned([](GptOptions& o) { o.window = 3, o.window_rope_base = 7; }, "window_rope_base");
  GptOptions fine = test::small();
  fine.qk_norm = true, fine.norm_offset = 1;
  CHECK_NOTHROW(models::check_options(fine));
}

}  // namespace tern::test_gpt_families

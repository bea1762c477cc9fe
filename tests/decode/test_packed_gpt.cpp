// GPT-2 and Llama with packed weights: the model's logits, and the same bits for a text whatever
// the other texts, threads, and pieces in which it is read.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "tern/core/tape/autograd.h"
#include "tern/decode/beam_search.h"
#include "tern/decode/packed_gpt.h"
#include "tern/decode/sampling.h"
#include "tern/nn/weights_instead.h"
#include "tern/tests/gpt_forms.h"
#include "tern/tests/support/model_checks.h"
#include "tern/tests/support/threads.h"

namespace tern::test_packed_gpt {
using decoding::PackedGpt;
using Tokens = std::vector<int64_t>;
using test::kContext, test::kWords, test::same;

namespace {

constexpr PackedType kTypes[] = {PackedType::f32, PackedType::bf16, PackedType::int8,
                                 PackedType::int4};

/// All forms, one with heads of 16 channels (a full vector), and one without layers.
std::vector<std::pair<std::string, models::GptOptions>> all_forms() {
  auto out = test::forms();
  models::GptOptions wide = test::small_llama();
  wide.dim = 64, wide.heads = 4, wide.kv_heads = 2, wide.vocab = 67, wide.ffn_dim = 33;
  out.emplace_back("heads of 16", wide);
  wide.layers = 0;
  out.emplace_back("no layers", wide);
  return out;
}

struct Models {
  models::Gpt exact, single;  ///< f64, and f32 with the same weights
};

Models make(const models::GptOptions& options) {
  models::Gpt single = test::sharp(options);
  nn::to(single, DType::f32);
  models::Gpt exact = single;
  nn::to(exact, DType::f64);
  return {std::move(exact), std::move(single)};
}

/// The largest difference divided by the largest number.
double distance(const Tensor& a, const Tensor& exact) {
  REQUIRE(a.shape() == exact.shape());
  const Tensor x = a.to(DType::f64);
  return max(abs(x - exact)).item<double>() / max(abs(exact)).item<double>();
}

std::vector<Tokens> prompts_of(int64_t count) {
  std::vector<Tokens> out;
  for (int64_t i = 0; i < count; ++i) {
    const Tensor t = test::some_tokens(1, (i * 3) % (kContext - 4), 20 + static_cast<uint64_t>(i));
    out.push_back(t.to_vector<int64_t>());
  }
  return out;
}

Tensor ids(const Tokens& tokens) { return tensor(tokens, {std::ssize(tokens)}); }

/// The logits of every step of one text, token by token.
std::vector<Tensor> steps_of(const PackedGpt& packed, const Tokens& tokens) {
  const auto texts = packed.texts();
  texts->add(std::vector<Tokens>{{}});
  std::vector<Tensor> out;
  for (const int64_t token : tokens) out.push_back(texts->step(ids({token})));
  return out;
}

}  // namespace

TEST_CASE("packed gpt: logits match the model's, in every form and type") {
  NoGradGuard guard;
  for (const auto& form : all_forms()) {
    CAPTURE(form.first);
    const Models m = make(form.second);
    const Tensor tokens = test::some_tokens(3, kContext);
    const Tensor exact = m.exact(tokens);
    // About ten products in sequence, with sums of at most 64 terms. Each factor has an error of
    // half a step of its type; errors add up with the square root of their number.
    const double errors = std::sqrt(10.0 * 64);
    const double single = distance(PackedGpt(m.single, PackedType::f32)(tokens), exact);
    const double bf16 = distance(PackedGpt(m.single, PackedType::bf16)(tokens), exact);
    const double int8 = distance(PackedGpt(m.single, PackedType::int8)(tokens), exact);
    CHECK(single < errors * 0x1p-24);
    CHECK(bf16 < errors * 0x1p-9);
    CHECK(bf16 > 0x1p-14);  // they are rounded
    CHECK(int8 < errors / 254);
    CHECK(int8 > 0x1p-14);
    // 16 levels of weights. A step is a fifteenth of the range of 32 weights.
    const double int4 = distance(PackedGpt(m.single, PackedType::int4)(tokens), exact);
    CHECK(int4 < errors / 30);
    if (m.single.options.layers > 0) CHECK(int4 > int8);  // the head has 8 bits
  }
}

TEST_CASE("packed gpt: a text's bits do not depend on others, threads, or pieces") {
  NoGradGuard guard;
  for (const auto& form : all_forms())
    for (const PackedType type : kTypes) {
      CAPTURE(form.first);
      const Models m = make(form.second);
      const PackedGpt packed(m.single, type);
      const Tensor tokens = test::some_tokens(1, kContext);
      const Tokens text = tokens.to_vector<int64_t>();
      const test::Threads one(1);
      const Tensor whole = packed(tokens);
      for (const int n : {1, 3}) {
        const test::Threads scope(n);
        CHECK(same(packed(tokens), whole));
        const std::vector<Tensor> steps = steps_of(packed, text);
        for (int64_t t = 0; t < kContext; ++t)
          CHECK(same(steps[t], narrow(squeeze(whole, 0), 0, t, 1)));
        // Between texts of other lengths, first read in part.
        std::vector<Tokens> others = prompts_of(5);
        others.insert(others.begin() + 2, Tokens(text.begin(), text.end() - 2));
        const auto texts = packed.texts();
        texts->add(others);
        for (const int64_t t : {kContext - 2, kContext - 1}) {
          const Tensor logits = texts->step(ids({1, 2, text[t], 3, 4, 5}));
          CHECK(same(narrow(logits, 0, 2, 1), narrow(squeeze(whole, 0), 0, t, 1)));
        }
      }
    }
}

TEST_CASE("packed gpt: many tokens together, in several pieces") {
  NoGradGuard guard;
  models::GptOptions o = test::small_llama();
  o.context = 600;
  const Models m = make(o);
  const PackedGpt packed(m.single, PackedType::f32);
  const Tensor tokens = test::some_tokens(1, 600);
  const Tensor whole = packed(tokens);
  CHECK(distance(whole, m.exact(tokens)) < std::sqrt(10.0 * 600) * 0x1p-24);
  const Tokens text = tokens.to_vector<int64_t>();
  const auto texts = packed.texts();
  texts->add(std::vector<Tokens>{
      Tokens(text.begin(), text.begin() + 300), {}, Tokens(text.begin(), text.end() - 1)});
  const Tensor logits = texts->step(ids({text[300], text[0], text[599]}));
  CHECK(same(logits, index_select(squeeze(whole, 0), 0, ids({300, 0, 599}))));
  // Reads more of one text, between steps of all.
  texts->select_rows(ids({1, 0}));
  texts->extend(1, std::span(text).subspan(301, 290));
  texts->extend(0, {});
  CHECK(same(texts->step(ids({text[1], text[591]})),
             index_select(squeeze(whole, 0), 0, ids({1, 591}))));
  CHECK_THROWS_AS(texts->extend(2, text), Error);
  CHECK_THROWS_AS(texts->extend(1, std::span(text).first(9)), Error);  // exceeds the context
  // A refused call leaves the texts as they are.
  CHECK_THROWS_AS(texts->extend(0, Tokens{text[2], -1}), Error);
  CHECK_THROWS_AS(static_cast<void>(texts->step(ids({text[2], -1}))), Error);
  CHECK(same(texts->step(ids({text[2], text[592]})),
             index_select(squeeze(whole, 0), 0, ids({2, 592}))));
}

TEST_CASE("packed gpt: greedy, beam search and sampling as with the model itself") {
  NoGradGuard guard;
  for (const auto& form : all_forms()) {
    CAPTURE(form.first);
    const Models m = make(form.second);
    const PackedGpt packed(m.single, PackedType::f32);
    const Tensor prompt = test::some_tokens(3, 3, 8);
    const Tokens all = prompt.to_vector<int64_t>();
    std::vector<Tokens> known;
    Tokens begin;
    for (size_t i = 0; i < 3; ++i) {
      known.push_back({all[3 * i], all[3 * i + 1]});
      begin.push_back(all[3 * i + 2]);
    }
    const models::GptState state = m.exact.encode(narrow(prompt, 1, 0, 2));
    auto texts = [&] {
      auto made = packed.texts();
      made->add(known);
      return made;
    };
    const decoding::GreedyOptions greedy{.begin = begin, .end = 7, .max_length = kContext - 2};
    const auto best = decoding::greedy(m.exact, state, greedy);
    const auto packed_best = decoding::greedy(*texts(), greedy);
    const decoding::BeamOptions beam{
        .beam = 3, .n_best = 3, .begin = begin, .end = 7, .max_length = kContext - 2};
    const auto lists = decoding::beam_search(m.exact, state, beam);
    const auto packed_lists = decoding::beam_search(*texts(), beam);
    const decoding::SampleOptions draw{.begin = begin, .end = 7, .max_length = kContext - 2};
    Rng a(5), b(5);
    const auto drawn = decoding::sample(m.exact, state, draw, a);
    const auto packed_drawn = decoding::sample(*texts(), draw, b);
    for (size_t i = 0; i < 3; ++i) {
      CHECK(packed_best[i].tokens == best[i].tokens);
      CHECK(packed_drawn[i].tokens == drawn[i].tokens);
      REQUIRE(packed_lists[i].size() == lists[i].size());
      for (size_t j = 0; j < lists[i].size(); ++j) {
        CHECK(packed_lists[i][j].tokens == lists[i][j].tokens);
        CHECK(packed_lists[i][j].log_prob == doctest::Approx(lists[i][j].log_prob).epsilon(1e-4));
      }
    }
  }
}

TEST_CASE("packed gpt: prompts in slots give the same as together and alone") {
  NoGradGuard guard;
  const Models m = make(test::small_llama());
  const std::vector<Tokens> prompts = prompts_of(9);
  const Tokens begin{1, 2, 3, 4, 5, 6, 7, 8, 9}, limits{4, 1, 0, 4, 3, 2, 4, 4, 4};
  for (const PackedType type : kTypes) {
    const PackedGpt packed(m.single, type);
    const auto first = packed.texts();
    first->add(std::span(prompts).first(1));
    const int64_t end =
        decoding::greedy(*first, {.begin = begin[0], .max_length = 2})[0].tokens.back();
    auto run = [&](int64_t slots, auto&& decode) {
      const auto texts = packed.texts();
      decoding::PromptStepper stepper(*texts, prompts);
      const auto found = decode(static_cast<decoding::Stepper&>(stepper), slots);
      CHECK(texts->batch() == 0);
      return found;
    };
    auto greedy = [&](decoding::Stepper& s, int64_t slots) {
      return decoding::greedy(
          s, {.begin = begin, .end = end, .max_length = limits, .batch_slots = slots});
    };
    auto sample = [&](decoding::Stepper& s, int64_t slots) {
      Rng rng(2);
      return decoding::sample(
          s, {.begin = begin, .end = end, .max_length = limits, .batch_slots = slots}, rng);
    };
    auto check_same = [&](const auto& a, const auto& b) {
      REQUIRE(a.size() == b.size());
      for (size_t i = 0; i < a.size(); ++i) {
        CHECK(a[i].tokens == b[i].tokens);
        CHECK(a[i].log_prob == b[i].log_prob);
        CHECK(a[i].finished == b[i].finished);
      }
    };
    const auto best = run(9, greedy), drawn = run(9, sample);
    CHECK(std::any_of(best.begin(), best.end(), [](const auto& h) { return h.finished; }));
    for (const int64_t slots : {1, 2, 4, 100}) {
      check_same(run(slots, greedy), best);
      check_same(run(slots, sample), drawn);
    }
    for (size_t i = 0; i < prompts.size(); ++i) {
      const auto texts = packed.texts();
      texts->add(std::span(prompts).subspan(i, 1));
      check_same(decoding::greedy(*texts, {.begin = begin[i], .end = end, .max_length = limits[i]}),
                 std::vector{best[i]});
    }
  }
}

TEST_CASE("packed gpt: packing a moved model frees its blocks and gives the same logits") {
  NoGradGuard guard;
  for (const auto& form : all_forms())
    for (const PackedType type : kTypes)
      for (const bool halves : {false, true}) {  // a table of bf16 numbers takes half the memory
        CAPTURE(form.first);
        CAPTURE(halves);
        models::Gpt model = make(form.second).single;
        Tensor table = model.body.embed.tensor().detach();
        float* x = table.mutable_data<float>();
        for (int64_t i = 0; halves && i < table.numel(); ++i)
          x[i] = std::bit_cast<float>(std::bit_cast<uint32_t>(x[i]) & 0xffff0000);
        const Tensor tokens = test::some_tokens(2, 5);
        const PackedGpt copy(model, type);
        const Tensor want = copy(tokens);
        const bool saves = halves && !model.options.tie_head;
        const PackedGpt taken(std::move(model), type);
        CHECK(same(taken(tokens), want));
        CHECK(copy.bytes() - taken.bytes() == (saves ? 2 * table.numel() : 0));
        CHECK(model.body.blocks.empty());
      }
}

TEST_CASE("packed gpt: bf16 keeps a tied table of f32 numbers, wherever the first of them is") {
  NoGradGuard guard;
  models::GptOptions options = test::small_llama();
  options.tie_head = true, options.vocab = (1 << 20) / options.dim + 40, options.layers = 1;
  models::Gpt model = make(options).single;
  Tensor table = model.body.embed.tensor().detach();
  float* x = table.mutable_data<float>();
  for (int64_t i = 0; i < table.numel(); ++i)
    x[i] = std::bit_cast<float>(std::bit_cast<uint32_t>(x[i]) & 0xffff0000);
  const int64_t compact = PackedGpt(model, PackedType::bf16).bytes();
  x[table.numel() - 1] = 1 + 0x1p-20f;  // in the second block that is read
  const Tensor tokens = tensor(Tokens{0, 5, options.vocab - 1}, {1, 3});
  const PackedGpt copy(model, PackedType::bf16);
  const Tensor want = copy(tokens);
  const PackedGpt taken(std::move(model), PackedType::bf16);
  CHECK(same(taken(tokens), want));
  CHECK(taken.bytes() == copy.bytes());
  CHECK(taken.bytes() == compact + table.numel() * 4);
}

TEST_CASE("packed gpt: a hook that packed weights would not call is an error") {
  Rng rng(3);
  for (const auto& [name, options] : test::forms()) {
    models::Gpt model(options, rng);
    for (const auto& [weight, t] : nn::named_parameters(model)) {
      if (t.ndim() != 2) continue;
      const nn::LinearHook hook(model, weight, [](const Tensor&, const Tensor& y) { return y; });
      CHECK_THROWS_WITH_AS(PackedGpt(model, PackedType::f32),
                           doctest::Contains(("'" + weight + "' has a LinearHook").c_str()), Error);
      CHECK_THROWS_AS(PackedGpt(std::move(model), PackedType::f32), Error);
      CHECK(std::ssize(model.body.blocks) == options.layers);  // NOLINT: nothing was taken
    }
  }
}

TEST_CASE("packed gpt: errors") {
  NoGradGuard guard;
  Models m = make(test::small());
  CHECK_THROWS_WITH_AS(PackedGpt(m.exact, PackedType::f32), doctest::Contains("the model is f64"),
                       Error);
  const PackedGpt packed(m.single, PackedType::f32);
  CHECK_THROWS_WITH_AS(packed(test::some_tokens(1, kContext + 1)),
                       doctest::Contains("after 12 exceeds the context"), Error);
  CHECK_THROWS_WITH_AS(packed(tensor(Tokens{kWords}, {1, 1})),
                       doctest::Contains("token 19 is outside the vocabulary of 19"), Error);
  CHECK_THROWS_WITH_AS(packed(tensor(Tokens{-1}, {1, 1})), doctest::Contains("token -1"), Error);
  const auto texts = packed.texts();
  texts->add(std::vector<Tokens>{Tokens(kContext, 1)});
  CHECK_THROWS_WITH_AS(texts->step(ids({1})), doctest::Contains("exceeds the context"), Error);
  CHECK_THROWS_WITH_AS(packed.texts()->step(ids({1})), doctest::Contains("one token per text"),
                       Error);
  CHECK_THROWS_WITH_AS(decoding::greedy(m.single, m.single.encode(test::some_tokens(2, 1)),
                                        {.begin = 1, .batch_slots = 1}),
                       doctest::Contains("leave out .batch_slots"), Error);
}

}  // namespace tern::test_packed_gpt

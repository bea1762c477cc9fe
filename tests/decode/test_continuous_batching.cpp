// decode_all: the same results as beam_search, and the same bits for every sentence as alone.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "tern/core/tape/autograd.h"
#include "tern/decode/beam_search.h"
#include "tern/decode/packed_transformer.h"
#include "tern/nn/weights_instead.h"
#include "tern/tests/support/heap_calls.h"
#include "tern/tests/support/threads.h"

namespace tern::test_continuous_batching {
using decoding::Hypothesis;
using Tokens = std::vector<int64_t>;
using Lists = std::vector<std::vector<Hypothesis>>;

namespace {

constexpr int64_t kBegin = 1, kEnd = 2, kWords = 37;

models::Transformer make_model(bool norm_first, int64_t kv_heads = 0, int64_t dim = 32) {
  Rng rng(3);
  models::Transformer model(
      {.source_vocab = kWords,
       .target_vocab = kWords,
       .encoder_layers = 2,
       .decoder_layers = 2,
       .layer =
           {.dim = dim, .heads = 4, .ffn = 24, .kv_heads = kv_heads, .norm_first = norm_first}},
      rng);
  nn::set_training(model, false);
  NoGradGuard guard;
  // Larger weights, so that the output depends on the sentence.
  for (const Tensor& p : nn::parameters(model))
    for (int64_t i = 0; i < p.numel(); ++i) p.mutable_data<float>()[i] *= 2;
  return model;
}

std::vector<Tokens> make_sources(int64_t n) {
  Rng rng(9);
  std::vector<Tokens> sources;
  for (int64_t s = 0; s < n; ++s) {
    Tokens t;
    for (int64_t i = 0; i < 1 + (s * 7) % 11; ++i)
      t.push_back(3 + static_cast<int64_t>(rng.uniform() * (kWords - 3)));
    sources.push_back(t);
  }
  return sources;
}

decoding::DecodeAllOptions options_for(int64_t beam, const std::vector<Tokens>& sources) {
  std::vector<int64_t> limits;
  for (const Tokens& s : sources) limits.push_back(std::ssize(s) + 4);
  return {.beam = beam,
          .alpha = 0.6,
          .n_best = beam,
          .begin = kBegin,
          .end = kEnd,
          .max_length = limits,
          .forbid = {0, kBegin}};
}

Lists decode(const decoding::PackedTransformer& packed, const std::vector<Tokens>& sources,
             const decoding::DecodeAllOptions& options) {
  return decoding::decode_all([&] { return packed.decoder(); }, sources, options);
}

void check_same_bits(const Lists& a, const Lists& b) {
  REQUIRE(a.size() == b.size());
  for (size_t s = 0; s < a.size(); ++s) {
    REQUIRE(a[s].size() == b[s].size());
    for (size_t i = 0; i < a[s].size(); ++i) {
      CHECK(a[s][i].tokens == b[s][i].tokens);
      CHECK(a[s][i].finished == b[s][i].finished);
      CHECK(a[s][i].log_prob == b[s][i].log_prob);
      CHECK(a[s][i].score == b[s][i].score);
    }
  }
}

}  // namespace

TEST_CASE("decode_all: a packed Transformer finds what beam_search finds") {
  for (const bool norm_first : {false, true})
    for (const int64_t kv_heads : {0, 2})
      for (const int64_t dim : {32, 64})  // heads of 8 and of 16 channels
        for (const int64_t beam : {1, 4}) {
          const models::Transformer model = make_model(norm_first, kv_heads, dim);
          const decoding::PackedTransformer packed(model, PackedType::f32);
          const std::vector<Tokens> sources = make_sources(7);
          const decoding::DecodeAllOptions o = options_for(beam, sources);
          const Lists found = decode(packed, sources, o);
          NoGradGuard guard;
          models::Transformer exact = model;
          nn::to(exact, DType::f64);
          for (size_t s = 0; s < sources.size(); ++s) {
            CAPTURE(s);
            CAPTURE(beam);
            CAPTURE(dim);
            CAPTURE(kv_heads);
            CAPTURE(norm_first);
            const Tensor source = tensor(sources[s], {1, std::ssize(sources[s])});
            const auto expected = decoding::beam_search(exact, exact.encode(source),
                                                        {.beam = beam,
                                                         .alpha = 0.6,
                                                         .n_best = beam,
                                                         .begin = kBegin,
                                                         .end = kEnd,
                                                         .max_length = o.max_length[s],
                                                         .forbid = o.forbid});
            REQUIRE(found[s].size() == expected[0].size());
            for (size_t i = 0; i < found[s].size(); ++i) {
              CHECK(found[s][i].tokens == expected[0][i].tokens);
              CHECK(found[s][i].score == doctest::Approx(expected[0][i].score).epsilon(1e-4));
            }
          }
        }
}

TEST_CASE("decode_all: a sentence's bits do not depend on its companions, slots or threads") {
  const models::Transformer model = make_model(true);
  for (const PackedType type : {PackedType::f32, PackedType::bf16, PackedType::int8})
    for (const int64_t beam : {1, 3}) {
      const decoding::PackedTransformer packed(model, type);
      const std::vector<Tokens> sources = make_sources(40);
      decoding::DecodeAllOptions o = options_for(beam, sources);
      const Lists all = decode(packed, sources, o);
      for (const int64_t rows : {1, 4, 19}) {
        o.rows = rows;
        check_same_bits(decode(packed, sources, o), all);
      }
      {
        const test::Threads other(num_threads() == 1 ? 2 : 1);
        check_same_bits(decode(packed, sources, o), all);
      }
      for (const size_t s : {0, 5, 17}) {
        const std::vector<Tokens> alone = {sources[s]};
        check_same_bits(decode(packed, alone, options_for(beam, alone)), {all[s]});
      }
    }
}

TEST_CASE("decode_all: a step allocates nothing") {
  const models::Transformer model = make_model(true);
  const std::vector<Tokens> sources = make_sources(24);
  for (const PackedType type : {PackedType::f32, PackedType::bf16, PackedType::int8})
    for (const int64_t beam : {1, 3}) {
      const decoding::PackedTransformer packed(model, type);
      auto calls = [&](int64_t steps) {
        decoding::DecodeAllOptions o = options_for(beam, sources);
        o.end = -1;  // every sentence runs all steps
        o.max_length = steps;
        o.n_best = 1;
        const test::Threads one(1);
        decode(packed, sources, o);  // fills caches of the allocator
        const int64_t before = test::heap_calls;
        decode(packed, sources, o);
        return test::heap_calls - before;
      };
      const int64_t few = calls(2), many = calls(9);
      // Buffers that grow by doubling, such as that of keys, may need one more allocation each.
      CHECK(many - few <= 16);
    }
}

TEST_CASE("decode_all: greedy search without log probabilities finds the same tokens") {
  const decoding::PackedTransformer packed(make_model(false), PackedType::f32);
  const std::vector<Tokens> sources = make_sources(9);
  decoding::DecodeAllOptions o = options_for(1, sources);
  const Lists with = decode(packed, sources, o);
  o.log_probs = false;
  const Lists without = decode(packed, sources, o);
  for (size_t s = 0; s < sources.size(); ++s) {
    CHECK(without[s][0].tokens == with[s][0].tokens);
    CHECK(std::isnan(without[s][0].log_prob));
  }
  o.beam = 2;
  CHECK_THROWS_WITH_AS(decode(packed, sources, o), doctest::Contains("needs .log_probs"), Error);
}

TEST_CASE("decode_all: shortlists; a list of all tokens equals no list") {
  const models::Transformer model = make_model(true);
  const std::vector<Tokens> sources = make_sources(6);
  Tokens every(kWords), few = {kEnd, 5, 9, 20, 33};
  for (int64_t i = 0; i < kWords; ++i) every[static_cast<size_t>(i)] = i;
  for (const PackedType type : {PackedType::f32, PackedType::bf16, PackedType::int8})
    for (const int64_t beam : {1, 3}) {
      const decoding::PackedTransformer packed(model, type, Shortlists::yes);
      decoding::DecodeAllOptions o = options_for(beam, sources);
      const Lists all = decode(packed, sources, o);
      o.shortlists.assign(sources.size(), every);
      const Lists same = decode(packed, sources, o);
      for (size_t s = 0; s < sources.size(); ++s) {
        CHECK(same[s][0].tokens == all[s][0].tokens);
        CHECK(same[s][0].score == doctest::Approx(all[s][0].score).epsilon(1e-4));
      }
      o.shortlists[2] = few;
      const Lists some = decode(packed, sources, o);
      check_same_bits({some[0], some[1], some[3]}, {same[0], same[1], same[3]});
      for (const int64_t t : some[2][0].tokens) CHECK(std::count(few.begin(), few.end(), t) == 1);
      o.shortlists[2] = {5, 5};
      CHECK_THROWS_WITH_AS(decode(packed, sources, o), doctest::Contains("must ascend"), Error);
    }
}

TEST_CASE("decode_all: no sentences, a stop by progress, errors") {
  models::Transformer model = make_model(true);
  std::vector<Tokens> sources = make_sources(12);
  decoding::DecodeAllOptions o = options_for(2, sources);
  {
    const decoding::PackedTransformer packed(model, PackedType::f32);
    CHECK(decode(packed, {}, options_for(2, {})).empty());
    o.progress = [](int64_t) { return false; };
    CHECK(decode(packed, sources, o).empty());
    o.progress = {};
    std::vector<int64_t> limits(12, 5);
    limits[3] = 0;
    o.max_length = limits;
    CHECK(decode(packed, sources, o)[3][0].tokens.empty());
    sources[1] = {};
    CHECK_THROWS_WITH_AS(decode(packed, sources, o), doctest::Contains("a source has no tokens"),
                         Error);
    sources[1] = {kWords};
    CHECK_THROWS_WITH_AS(decode(packed, sources, o), doctest::Contains("outside the vocabulary of"),
                         Error);
  }
  {
    const nn::LinearHook hook(model, "transformer.decoder.layers.0.linear1.weight",
                              [](const Tensor&, const Tensor& y) { return y; });
    CHECK_THROWS_WITH_AS(decoding::PackedTransformer(model, PackedType::f32),
                         doctest::Contains("layers.0.linear1.weight' has a LinearHook"), Error);
  }
  NoGradGuard guard;
  sources[1] = {4};
  model.generator_bias.tensor().mutable_data<float>()[7] = NAN;
  const decoding::PackedTransformer broken(model, PackedType::f32);
  CHECK_THROWS_WITH_AS(decode(broken, sources, o), doctest::Contains("at step 1 have a NaN"),
                       Error);
  nn::to(model, DType::f64);
  CHECK_THROWS_WITH_AS(decoding::PackedTransformer(model, PackedType::f32),
                       doctest::Contains("the model is f64"), Error);
}

}  // namespace tern::test_continuous_batching

// Vectors of texts: each pooling against loops, the independence of padding and of batches, order.
#include <doctest/doctest.h>

#include <cmath>

#include "tern/core/io/safetensors.h"
#include "tern/models/sentence.h"
#include "tern/tests/support/model_checks.h"

namespace tern::test_sentence {
namespace {

using models::Bert, models::Pooling;
using Rows = std::vector<std::vector<double>>;

const std::string kFolder = std::string(TERN_SOURCE_DIR) + "/tests/reference/encoders/";

Rows rows_of(const Tensor& x) {
  Rows rows;
  for (int64_t i = 0; i < x.size(0); ++i) rows.push_back(select(x, 0, i).to_vector<double>());
  return rows;
}

/// What a pooling is, value by value; states (B, T, D).
Rows expected(const Tensor& states, const std::vector<int64_t>& lengths, Pooling pooling) {
  Rows out;
  for (int64_t b = 0; b < states.size(0); ++b) {
    const Rows tokens = rows_of(narrow(select(states, 0, b), 0, 0, lengths[b]));
    std::vector<double> row = pooling == Pooling::last ? tokens.back() : tokens[0];
    for (size_t t = 1; t < tokens.size(); ++t)
      for (size_t d = 0; d < row.size(); ++d) {
        if (pooling == Pooling::mean) row[d] += tokens[t][d];
        if (pooling == Pooling::max) row[d] = std::max(row[d], tokens[t][d]);
      }
    if (pooling == Pooling::mean)
      for (double& v : row) v /= static_cast<double>(tokens.size());
    out.push_back(row);
  }
  return out;
}

void check_equal(const Rows& got, const Rows& want, double tolerance) {
  REQUIRE(got.size() == want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    REQUIRE(got[i].size() == want[i].size());
    for (size_t d = 0; d < got[i].size(); ++d) CHECK(std::abs(got[i][d] - want[i][d]) <= tolerance);
  }
}

}  // namespace

TEST_CASE("sentence: every pooling is what it says; padding does not count") {
  Rng rng(1);
  const Tensor states = randn({3, 5, 7}, rng, DType::f64);
  const std::vector<int64_t> lengths = {2, 5, 1};
  const Tensor tensor_of_lengths = tensor(lengths, {3});
  for (const std::string& name : models::pooling_names()) {
    CAPTURE(name);
    const Pooling pooling = models::pooling_named(name);
    check_equal(rows_of(models::pool(states, tensor_of_lengths, pooling)),
                expected(states, lengths, pooling), 1e-14);
  }
  CHECK_THROWS_WITH_AS(models::pooling_named("cls"), doctest::Contains("mean, first"), Error);
  auto refused = [&](const std::vector<int64_t>& bad) {
    CHECK_THROWS_WITH_AS(models::pool(states, tensor(bad, {std::ssize(bad)}), Pooling::last),
                         doctest::Contains("pool: "), Error);
  };
  refused({2, 5, 0});
  refused({2, 6, 1});
  refused({2, 5});
}

TEST_CASE("sentence: vectors are the pooled states of transformers, of length 1") {
  for (const std::string name : {"minilm", "xlm_roberta", "mpnet"}) {
    CAPTURE(name);
    Rng rng(1);
    const Bert model = models::load_bert_encoder(kFolder + name + "/model.safetensors", rng);
    const SafeTensors file = load_safetensors(kFolder + name + "/answers.safetensors");
    const std::vector<int64_t> lengths = file.find("lengths").to_vector<int64_t>();
    std::vector<std::vector<int64_t>> texts;
    for (size_t i = 0; i < lengths.size(); ++i)
      texts.push_back(
          narrow(select(file.find("tokens"), 0, i), 0, 0, lengths[i]).to_vector<int64_t>());
    for (const Pooling pooling : {Pooling::mean, Pooling::first, Pooling::last, Pooling::max}) {
      Rows want = expected(file.find("hidden"), lengths, pooling);
      check_equal(rows_of(models::embed(model, texts, {.pooling = pooling, .normalise = false})),
                  want, 2e-5);
      for (std::vector<double>& row : want) {
        double squares = 0;
        for (const double v : row) squares += v * v;
        for (double& v : row) v /= std::sqrt(squares);
      }
      // The texts alone, in two batches, and together with another order.
      for (const int64_t batch : {1, 12, 1000})
        check_equal(
            rows_of(models::embed(model, texts, {.pooling = pooling, .batch_tokens = batch})), want,
            1e-5);
      std::swap(texts[0], texts[2]);
      std::swap(want[0], want[2]);
      check_equal(rows_of(models::embed(model, texts, {.pooling = pooling})), want, 1e-5);
      std::swap(texts[0], texts[2]);
    }
  }
}

TEST_CASE("sentence: no texts, empty texts, long texts, an end in between, training") {
  Rng rng(1);
  const Bert model = models::load_bert_encoder(kFolder + "minilm/model.safetensors", rng);
  using Texts = std::vector<std::vector<int64_t>>;
  CHECK(models::embed(model, Texts{}).shape() == Shape{0, 16});
  CHECK_THROWS_WITH_AS(models::embed(model, Texts{{3}, {}}), doctest::Contains("text 2"), Error);
  CHECK_THROWS_WITH_AS(models::embed(model, Texts{std::vector<int64_t>(12, 3)}),
                       doctest::Contains("1 to 11"), Error);
  std::vector<int64_t> seen;
  const auto count = [&](int64_t done) {
    seen.push_back(done);
    return done < 2;
  };
  CHECK_FALSE(
      models::embed(model, Texts{{3, 4}, {5}, {6, 7, 8}}, {.batch_tokens = 1, .progress = count})
          .defined());
  CHECK(seen == std::vector<int64_t>{1, 2});
  const Tensor vectors =
      models::embed(model, tensor<int64_t>({3, 4, 5, 0}, {2, 2}), tensor<int64_t>({2, 1}, {2}));
  test::check_leaves(sum(vectors * randn({2, 16}, rng)), model);
}

}  // namespace tern::test_sentence

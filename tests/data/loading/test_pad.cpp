// Pad: padding, lengths and errors, on small samples with values written by hand.
#include <doctest/doctest.h>

#include "tern/core/ops/ops.h"
#include "tern/data/loading/dataset_loader.h"
#include "tern/data/loading/pad.h"

namespace tern::test_pad {
namespace {

using datasets::Pad;
using datasets::Padded;
using Ints = std::vector<int64_t>;

Ints ints(const Tensor& t) { return t.to_vector<int64_t>(); }

struct Pair {
  Tensor source, target, label;
  static void fields(auto& p, auto&& visit) {
    visit("source", p.source), visit("target", p.target), visit("label", p.label);
  }
};

// Sample i: i + 1 times the number i, and 3 - i times 10 i.
Pair pair_of(int64_t i) {
  return {full({i + 1}, i, DType::i64), full({3 - i}, 10 * i, DType::i64), scalar(i, DType::i64)};
}

}  // namespace

TEST_CASE("pad: pads each field to its longest sample and returns the lengths") {
  const Padded<Pair> batch =
      Pad{.values = {{"target", -100}}}(std::vector<Pair>{pair_of(0), pair_of(2), pair_of(1)});
  CHECK(batch.values.source.shape() == Shape{3, 3});
  CHECK(ints(batch.values.source) == Ints{0, 0, 0, 2, 2, 2, 1, 1, 0});
  CHECK(ints(batch.lengths.source) == Ints{1, 3, 2});
  CHECK(ints(batch.values.target) == Ints{0, 0, 0, 20, -100, -100, 10, 10, -100});
  CHECK(ints(batch.lengths.target) == Ints{3, 1, 2});
  CHECK(ints(batch.values.label) == Ints{0, 2, 1});
  CHECK_FALSE(batch.lengths.label.defined());
}

TEST_CASE("pad: tensors as samples, further axes, one padding value for all fields") {
  const Padded<Tensor> batch = Pad{.value = -1}(std::vector<Tensor>{ones({1, 2}), ones({2, 2})});
  CHECK(batch.values.shape() == Shape{2, 2, 2});
  CHECK(batch.values.to_vector<double>() == std::vector<double>{1, 1, -1, -1, 1, 1, 1, 1});
  CHECK(ints(batch.lengths) == Ints{1, 2});
}

TEST_CASE("pad: any number of workers gives the same batches") {
  const datasets::Dataset<Pair> pairs(3, pair_of);
  for (int workers : {0, 2}) {
    auto loader = datasets::dataset_loader(
        pairs, Pad{}, {.batch = 2, .shuffle = false, .drop_last = false, .workers = workers});
    std::vector<Ints> lengths;
    for (auto& batch : loader) lengths.push_back(ints(batch.lengths.source));
    CHECK(lengths == std::vector<Ints>{{1, 2}, {3}});
  }
}

TEST_CASE("pad: errors name the field and the sample") {
  auto refused = [](const Pad& pad, const std::vector<Pair>& samples, const char* says) {
    CHECK_THROWS_WITH_AS(pad(samples), doctest::Contains(says), Error);
  };
  Pair other = pair_of(1);
  other.source = zeros({2, 2}, DType::i64);
  refused({}, {pair_of(0), other}, "'source' is i64 (2, 2) in sample 1, but i64 (1,) in sample 0");
  other = pair_of(1);
  other.target = zeros({2});
  refused({}, {pair_of(0), other}, "'target' is f32 (2,)");
  other.target = {};
  refused({}, {pair_of(0), other}, "'target' is undefined in sample 1");
  refused({.values = {{"taget", 1}}}, {pair_of(0)},
          "'taget', but the samples have no such field; they have: source, target, label");
  refused({}, {}, "the batch has no samples");
}

}  // namespace tern::test_pad

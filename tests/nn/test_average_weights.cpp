// average_weights: means over files of weights, and files that do not match.
#include <doctest/doctest.h>

#include "tern/core/io/safetensors.h"
#include "tern/core/ops/ops.h"
#include "tern/nn/nn.h"
#include "tern/tests/support/data_files.h"
#include "tern/tests/support/torch_archive.h"

namespace tern::test::test_average_weights {
namespace {

using Doubles = std::vector<double>;

std::string file_of(const TempDir& dir, const std::string& name, const NamedTensors& tensors) {
  save_safetensors(dir / name, {tensors, {}});
  return dir / name;
}

}  // namespace

TEST_CASE("average_weights: means of floats in their own type; counts from the last file") {
  TempDir dir;
  std::vector<std::string> files;
  // An f32 sum of the first two loses the 1.
  const std::vector<Doubles> w = {{1 << 25, 0.5}, {1, 0.25}, {-(1 << 25), 3}};
  for (size_t i = 0; i < w.size(); ++i) {
    NamedTensors t = {{"w", tensor(w[i]).to(DType::f32)},
                      {"d", tensor(Doubles{0.1 * static_cast<double>(i)})},
                      {"count", scalar(static_cast<int64_t>(i), DType::i64)}};
    if (i == 1) std::swap(t[0], t[2]);  // the order of names does not matter
    files.push_back(file_of(dir, fmt::format("{}.safetensors", i), t));
  }
  const NamedTensors mean = nn::average_weights(files);
  REQUIRE(mean.size() == 3);
  CHECK(mean[0].first == "w");
  CHECK(mean[0].second.dtype() == DType::f32);
  CHECK(mean[0].second.to_vector<double>() == Doubles{static_cast<float>(1. / 3), 1.25});
  CHECK(mean[1].second.to_vector<double>() == Doubles{(0.0 + 0.1 + 0.2) / 3});
  CHECK(mean[2].second.item<int64_t>() == 2);
  files[0] = torch::save(dir / "0.pt", load_safetensors(files[0]).tensors);
  CHECK(nn::average_weights(files)[0].second.to_vector<double>() ==
        mean[0].second.to_vector<double>());
  CHECK(nn::average_weights({files[1]})[2].second.to_vector<double>() == w[1]);

  Rng rng(1);
  nn::Linear a(2, 3, rng), b(2, 3, rng), c(2, 3, rng);
  nn::save_weights(dir / "a", a), nn::save_weights(dir / "b", b);
  nn::load_state_dict(c, nn::average_weights({dir / "a", dir / "b"}));
  CHECK(all_close(c.weight, (a.weight + b.weight) / 2, 1e-7, 0));
}

TEST_CASE("average_weights: files of different models are an error that names the tensor") {
  TempDir dir;
  const std::string a = file_of(dir, "a", {{"w", ones({2})}, {"b", ones({1})}});
  const auto refused = [&](const NamedTensors& other) {
    const std::string b = file_of(dir, "b", other);
    const std::string text = io_error([&] { (void)nn::average_weights({a, b}); });
    CHECK(contains(text, b));
    CHECK(contains(text, a));
    return text;
  };
  CHECK(contains(refused({{"w", ones({2})}}), "has no 'b'"));
  CHECK(contains(refused({{"w", ones({2})}, {"b", ones({1})}, {"c", ones({1})}}), "has 'c'"));
  CHECK(contains(refused({{"w", ones({3})}, {"b", ones({1})}}), "'w' is f32 (3,), but f32 (2,)"));
  CHECK(contains(refused({{"w", ones({2}, DType::f64)}, {"b", ones({1})}}), "'w' is f64"));
  CHECK_THROWS_WITH_AS((void)nn::average_weights({}), doctest::Contains("no files"), Error);
  CHECK(contains(io_error([&] { (void)nn::average_weights({a, dir / "none"}); }), "none"));
}

}  // namespace tern::test::test_average_weights

// Layers against PyTorch's (tests/reference/make_layer_states.py), in f64: PyTorch's states load
// under its names and give the same outputs, gradients, buffers and evaluation.
#include <doctest/doctest.h>

#include <cmath>

#include "tern/core/base/rng.h"
#include "tern/core/io/safetensors.h"
#include "tern/core/tape/autograd.h"
#include "tern/nn/nn.h"
#include "tern/tests/support/tensors.h"

namespace tern::test_layer_states {
namespace {

using nn::Bias;

const SafeTensors& file() {
  static const SafeTensors content =
      load_safetensors(std::string(TERN_SOURCE_DIR) + "/tests/reference/layers/states.safetensors");
  return content;
}

bool close(const Tensor& got, const Tensor& want) {
  return got.defined() && test::close(got, want, 1e-10, 1e-11);
}

template <class M>
void compare_layer(const std::string& name, M layer) {
  CAPTURE(name);
  nn::to(layer, DType::f64);
  const NamedTensors state = test::part(file().tensors, name + "/state.");
  CHECK(nn::state_dict(layer).size() == state.size());
  REQUIRE_NOTHROW(nn::load_state_dict(layer, state));
  Tensor x = file().find(name + "/input");
  const bool differentiable = is_float(x.dtype());
  if (differentiable) x.set_requires_grad();
  const Tensor y = layer(x);
  CHECK(close(y, file().find(name + "/output")));
  std::vector<double> probe(static_cast<size_t>(y.numel()));
  for (size_t i = 0; i < probe.size(); ++i) probe[i] = std::cos(static_cast<double>(i));
  sum(y * tensor(probe, y.shape())).backward();
  if (differentiable) CHECK(close(x.grad(), file().find(name + "/grad.input")));
  for (const auto& p : nn::named_parameters(layer))
    CHECK_MESSAGE(close(p.second.grad(), file().find(name + "/grad." + p.first)), p.first);
  for (const auto& t : nn::state_dict(layer))
    CHECK_MESSAGE(
        close(t.second.to(DType::f64), file().find(name + "/after." + t.first).to(DType::f64)),
        t.first);
  nn::set_training(layer, false);
  CHECK(close(layer(x.detach()), file().find(name + "/eval")));
}

TEST_CASE("layers beside PyTorch's: norms and PReLU") {
  compare_layer("batch_norm1d", nn::BatchNorm1d(3));
  compare_layer("batch_norm1d_length", nn::BatchNorm1d(3, {.eps = 1e-3, .momentum = 0.3}));
  compare_layer("batch_norm3d", nn::BatchNorm3d(2, {.affine = false}));
  compare_layer("batch_norm_cumulative", nn::BatchNorm2d(2, {.momentum = std::nullopt}));
  compare_layer("batch_norm_untracked", nn::BatchNorm1d(3, {.track_running_stats = false}));
  compare_layer("instance_norm1d", nn::InstanceNorm1d(3));
  compare_layer("instance_norm2d", nn::InstanceNorm2d(3, {.eps = 1e-3, .affine = true}));
  compare_layer("instance_norm2d_tracked",
                nn::InstanceNorm2d(3, {.momentum = 0.3, .track_running_stats = true}));
  compare_layer("instance_norm3d",
                nn::InstanceNorm3d(2, {.affine = true, .track_running_stats = true}));
  compare_layer("prelu", nn::Prelu());
  compare_layer("prelu_channels", nn::Prelu(3, 0.1));
}

TEST_CASE("instance norm: one channel updates its running statistics as one of several does") {
  Rng rng(1);
  const nn::InstanceNormConfig options{.momentum = 0.3, .track_running_stats = true};
  const nn::InstanceNorm2d one(1, options), two(2, options);
  const auto first = [](const Tensor& t) { return t[0].item(); };
  for (const int64_t samples : {3, 1}) {
    const Tensor x = randn({samples, 1, 4, 4}, rng);
    const Tensor y = one(x), both = two(cat({x, x + 1}, 1));
    CHECK(test::close(y, narrow(both, 1, 0, 1), 1e-6, 1e-6));
    CHECK(first(one.running_mean) == first(two.running_mean));
    CHECK(first(one.running_var) == first(two.running_var));
  }
  CHECK(first(one.running_mean) != 0);
}

struct BilinearOfParts : nn::Bilinear {  // takes its two inputs side by side
  using nn::Bilinear::Bilinear;
  Tensor operator()(const Tensor& x) const {
    return nn::Bilinear::operator()(slice(x, -1, 0, 4), slice(x, -1, 4, 7));
  }
};

TEST_CASE("layers beside PyTorch's: Bilinear") {
  Rng rng(1);
  compare_layer("bilinear", BilinearOfParts(4, 3, 2, rng));
}

TEST_CASE("layers beside PyTorch's: convolutions") {
  Rng rng(1);
  compare_layer("conv3d", nn::Conv3d(2, 4, {2, 1, 3}, rng,
                                     {.stride = {1, 2, 1}, .padding = {1, 0, 1}, .groups = 2}));
  compare_layer(
      "conv2d_reflect",
      nn::Conv2d(2, 3, 3, rng, {.padding = {2, 1}, .padding_mode = PaddingMode::reflect}));
  compare_layer("conv1d_replicate",
                nn::Conv1d(2, 3, 3, rng,
                           {.padding = 2, .dilation = 2, .padding_mode = PaddingMode::replicate}));
  compare_layer(
      "conv3d_circular",
      nn::Conv3d(2, 2, 2, rng, {.padding = 1, .padding_mode = PaddingMode::circular}, Bias::no));
  compare_layer("conv_transpose1d",
                nn::ConvTranspose1d(4, 6, 3, rng,
                                    {.stride = 2, .padding = 1, .output_padding = 1, .groups = 2}));
  compare_layer("conv_transpose2d",
                nn::ConvTranspose2d(3, 2, {2, 3}, rng, {.stride = {2, 1}, .dilation = {1, 2}}));
  compare_layer("conv_transpose3d", nn::ConvTranspose3d(2, 3, 2, rng, {.stride = 2}, Bias::no));
}

TEST_CASE("layers beside PyTorch's: parametrizations") {
  using nn::SpectralNorm, nn::WeightNorm;
  Rng rng(1);
  compare_layer("weight_norm", WeightNorm(nn::Linear(4, 3, rng)));
  compare_layer("weight_norm_dim1", WeightNorm(nn::Conv2d(2, 3, 2, rng), {.dim = 1}));
  compare_layer("weight_norm_whole",
                WeightNorm(nn::Linear(4, 3, rng, Bias::no), {.dim = std::nullopt}));
  compare_layer("weight_norm_transpose", WeightNorm(nn::ConvTranspose1d(2, 3, 3, rng)));
  compare_layer("weight_norm_embedding", WeightNorm(nn::Embedding(5, 3, rng)));
  compare_layer("spectral_norm", SpectralNorm(nn::Linear(4, 3, rng), rng));
  compare_layer("spectral_norm_conv",
                SpectralNorm(nn::Conv2d(2, 3, 2, rng), rng, {.n_power_iterations = 3}));
  compare_layer("spectral_norm_transpose", SpectralNorm(nn::ConvTranspose2d(2, 3, 2, rng), rng));
  compare_layer("spectral_norm_dim1", SpectralNorm(nn::Linear(4, 3, rng), rng, {.dim = 1}));
}

TEST_CASE("parametrizations: start equal to the layer, and merge into a plain layer") {
  Rng rng(3);
  nn::Conv2d plain(2, 3, 3, rng);
  const Tensor x = randn({2, 2, 5, 5}, rng);
  const nn::WeightNorm normed(plain);
  CHECK(all_close(normed(x), plain(x), 1e-5, 1e-6));
  CHECK(all_close(normed.merged()(x), normed(x), 1e-5, 1e-6));
  CHECK(nn::num_parameters(normed) == nn::num_parameters(plain) + 3);
  CHECK(nn::named_parameters(normed)[1].first == "parametrizations.weight.original0");
  nn::SpectralNorm spectral(plain, rng, {.n_power_iterations = 300});
  static_cast<void>(spectral(x));
  nn::set_training(spectral, false);
  const nn::Conv2d merged = spectral.merged();
  CHECK(all_close(merged(x), spectral(x), 1e-5, 1e-6));
  // The largest singular value of the merged weight is 1.
  Tensor w = flatten(merged.weight.tensor().detach(), 1), v = ones({w.size(1)});
  for (int i = 0; i < 2000; ++i) v = matmul(transpose(w, 0, 1), matmul(w, v / norm(v)));
  CHECK(norm(matmul(w, v / norm(v))).item() == doctest::Approx(1).epsilon(1e-4));
}

TEST_CASE("parametrizations: a frozen layer stays frozen, wrapped and merged") {
  Rng rng(3);
  nn::Linear plain(4, 3, rng);
  nn::freeze(plain);
  const nn::WeightNorm normed(plain);
  nn::SpectralNorm spectral(plain, rng);
  for (const auto& p : nn::named_parameters(normed))
    CHECK_MESSAGE(!p.second.requires_grad(), p.first);
  for (const auto& p : nn::named_parameters(spectral))
    CHECK_MESSAGE(!p.second.requires_grad(), p.first);
  const Tensor u = spectral.spectral.u.tensor().clone();
  static_cast<void>(spectral(randn({2, 4}, rng)));
  CHECK(all_close(spectral.spectral.u, u, 0, 0));  // it is in evaluation
  CHECK_FALSE(normed.merged().weight.own().requires_grad());
  CHECK_FALSE(spectral.merged().weight.own().requires_grad());
}

TEST_CASE("parametrizations: a row of zeros stays 0") {
  Rng rng(3);
  nn::WeightNorm table(nn::Embedding(3, 2, rng, {.padding_idx = 0}));
  const Tensor rows = table(arange(0, 3));
  CHECK(rows[0].to_vector<double>() == std::vector<double>{0, 0});
  sum(square(rows)).backward();
  for (const auto& p : nn::named_parameters(table))
    CHECK_MESSAGE(std::isfinite(sum(p.second.grad()).item()), p.first);
  nn::Linear zero(2, 2, rng, Bias::no);
  zero.weight = nn::Parameter(zeros({2, 2}));
  CHECK(sum(nn::SpectralNorm(zero, rng)(ones({1, 2}))).item() == 0);
}

TEST_CASE("parametrizations: errors name the rule") {
  Rng rng(3);
  auto says = [](const char* words, auto make) {
    CHECK_THROWS_WITH_AS(make(), doctest::Contains(words), Error);
  };
  says("dim 2 is not an axis", [&] { nn::WeightNorm(nn::Linear(2, 3, rng), {.dim = 2}); });
  says("SpectralNorm: ", [&] { nn::SpectralNorm(nn::Linear(2, 3, rng), rng, {.dim = 5}); });
  says("at least one power iteration",
       [&] { nn::SpectralNorm(nn::Linear(2, 3, rng), rng, {.n_power_iterations = 0}); });
  says("nothing to parametrize: the layer has no weight", [&] {
    nn::Linear bare(2, 3, rng);
    bare.weight = nn::Parameter();
    nn::WeightNorm normed(bare);
  });
}

TEST_CASE("ConvTranspose: output_size chooses the output_padding") {
  Rng rng(1);
  const nn::ConvTranspose2d up(2, 3, 3, rng, {.stride = {2, 3}, .padding = 1});
  const Tensor x = randn({1, 2, 4, 5}, rng);
  CHECK(up(x).shape() == Shape{1, 3, 7, 13});
  CHECK(up(x, {8, 15}).shape() == Shape{1, 3, 8, 15});
  CHECK(all_close(slice(slice(up(x, {8, 15}), 2, 0, 7), 3, 0, 13), up(x), 1e-6, 1e-6));
  CHECK_THROWS_WITH_AS(up(x, {9, 13}), doctest::Contains("must be from 7 to 8"), Error);
  CHECK_THROWS_WITH_AS(up(x, 8), doctest::Contains("2 spatial sizes"), Error);
  const nn::WeightNorm normed(up);
  CHECK(normed(x, Dims{8, 14}).shape() == Shape{1, 3, 8, 14});
}

}  // namespace
}  // namespace tern::test_layer_states

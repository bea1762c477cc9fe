// ResNets: numbers of weights and names of torchvision, blocks, initial values, statistics, and
// class activation maps.
#include <doctest/doctest.h>

#include <cmath>

#include "tern/core/base/rng.h"
#include "tern/core/base/shape_only.h"
#include "tern/core/tape/autograd.h"
#include "tern/models/resnet.h"
#include "tern/optim/optim.h"
#include "tern/tests/models/forms.h"
#include "tern/tests/support/tensors.h"

namespace tern::test_resnet {
using models::ResNet, models::ResNetBlockKind, models::ResNetOptions;
using test::close, test::same;

TEST_CASE("resnet: numbers of weights match torchvision's") {
  const std::vector<std::pair<std::string, int64_t>> counts = {
      {"resnet18", 11'689'512},         {"resnet34", 21'797'672},
      {"resnet50", 25'557'032},         {"resnet101", 44'549'160},
      {"resnet152", 60'192'808},        {"resnext50_32x4d", 25'028'904},
      {"resnext101_32x8d", 88'791'336}, {"resnext101_64x4d", 83'455'272},
      {"wide_resnet50_2", 68'883'240},  {"wide_resnet101_2", 126'886'696}};
  const ShapeOnlyScope no_memory;
  for (const auto& named : counts) {
    Rng rng(0);
    CHECK_MESSAGE(
        nn::num_parameters(ResNet(models::resnet_options(named.first), rng)) == named.second,
        named.first);
  }
  CHECK(models::resnet_names().size() == counts.size());
  CHECK_THROWS_WITH_AS(models::resnet_options("resnet19"), doctest::Contains("resnet18, resnet34"),
                       Error);
}

TEST_CASE("resnet: names and their order match torchvision's") {
  Rng rng(0);
  std::vector<std::string> names, want;
  const auto norm = [&](const std::string& name) {
    for (const char* n : {"weight", "bias", "running_mean", "running_var", "num_batches_tracked"})
      want.push_back(name + "." + n);
  };
  want.push_back("conv1.weight");
  norm("bn1");
  for (int stage = 1; stage <= 4; ++stage) {
    const std::string block = fmt::format("layer{}.0.", stage);
    for (int i = 1; i <= 3; ++i) {
      want.push_back(fmt::format("{}conv{}.weight", block, i));
      norm(fmt::format("{}bn{}", block, i));
    }
    want.push_back(block + "downsample.0.weight");
    norm(block + "downsample.1");
  }
  want.insert(want.end(), {"fc.weight", "fc.bias"});
  ResNetOptions o = test::tiny_resnet();
  o.block = ResNetBlockKind::bottleneck;
  for (const auto& [name, t] : nn::state_dict(ResNet(o, rng))) names.push_back(name);
  CHECK(names == want);
}

TEST_CASE("resnet: features; training counts its batches, and evaluation uses their statistics") {
  for (const auto& form : test::resnet_forms()) {
    const auto& o = form.second;
    CAPTURE(form.first);
    Rng rng(4);
    ResNet model(o, rng);
    const Tensor x = randn({3, o.channels, 20, 17}, rng);
    const Tensor trained = model(x);
    const auto count = [&] { return model.bn1.num_batches_tracked.tensor().item<int64_t>(); };
    CHECK(count() == 1);
    nn::set_training(model, false);
    CHECK_FALSE(close(model(x), trained));
    const int64_t side = o.small_pictures ? 3 : 1;
    CHECK(model.features(x).shape() == Shape{3, model.feature_channels(), side, side});
    CHECK(count() == 1);
  }
}

TEST_CASE("resnet: initial values: convolutions N(0, 2 / fan_out), norms 1, last norms 0") {
  Rng rng(5);
  ResNetOptions o = test::tiny_resnet();
  o.width = 32;
  const ResNet model(o, rng);
  const Tensor& w = model.stages[2][0].conv2.weight;  // (128, 128, 3, 3)
  const double want = 2.0 / (128 * 9);
  CHECK(mean(square(w)).item() == doctest::Approx(want).epsilon(0.02));
  CHECK(std::abs(mean(w).item()) < 0.02 * std::sqrt(want));
  CHECK(same(model.stages[2][0].bn2.weight, ones({128})));
  CHECK(std::abs(max(abs(model.fc->weight)).item() - 1 / std::sqrt(256.0)) < 1e-3);
  for (const auto kind : {ResNetBlockKind::basic, ResNetBlockKind::bottleneck}) {
    o = test::tiny_resnet();
    o.block = kind;
    o.zero_init_residual = true;
    const ResNet zero(o, rng);
    for (const auto& stage : zero.stages)
      for (const models::ResNetBlock& block : stage) {
        CHECK(sum((block.bn3 ? *block.bn3 : block.bn2).weight).item() == 0);
        CHECK(sum(block.bn1.weight).item() > 0);
        const Tensor x = randn({2, block.conv1.weight.size(1), 6, 6}, rng);
        const Tensor past = block.downsample ? (*block.downsample)(x) : x;
        CHECK(close(block(x), relu(past)));  // the branch is 0
      }
  }
}

TEST_CASE("resnet: the 3x3 of a bottleneck has the stride, groups and width") {
  Rng rng(5);
  ResNetOptions o = models::resnet_options("resnext50_32x4d");
  o.layers = {1, 1};
  const ResNet next(o, rng);
  const models::ResNetBlock& block = next.stages[1][0];
  CHECK(block.conv1.options.stride[0] == 1);
  CHECK(block.conv2.options.stride[0] == 2);
  CHECK(block.conv2.weight.shape() == Shape{256, 8, 3, 3});
  o = models::resnet_options("wide_resnet50_2");
  o.layers = {1};
  CHECK(ResNet(o, rng).stages[0][0].conv2.weight.shape() == Shape{128, 128, 3, 3});
}

TEST_CASE("resnet: a narrow one memorises a batch") {
  for (const auto kind : {ResNetBlockKind::basic, ResNetBlockKind::bottleneck}) {
    Rng rng(3);
    ResNetOptions o = test::tiny_resnet();
    o.block = kind;
    o.width = 8;
    o.layers = {1, 1};
    o.small_pictures = true;
    ResNet model(o, rng);
    optim::AdamW optimizer(nn::named_parameters(model), {.lr = 1e-2});
    const Tensor x = randn({16, 3, 8, 8}, rng), labels = randint(0, 10, {16}, rng);
    double loss = 0;
    for (int i = 0; i < 30; ++i) {
      const Tensor found = cross_entropy(model(x), labels);
      found.backward();
      optimizer.step();
      optimizer.zero_grad();
      loss = found.item();
    }
    CHECK(loss < 0.1);
  }
}

TEST_CASE("resnet: the class activation map shows what each place adds to the logit") {
  Rng rng(6);
  ResNetOptions o = test::tiny_resnet();
  o.small_pictures = true;
  ResNet model(o, rng);
  nn::set_training(model, false);
  const Tensor images = randn({3, 3, 24, 17}, rng);
  const models::PatchMaps found = model.patch_maps(images);
  REQUIRE(found.maps.size() == 1);
  const Tensor shares = found.maps[0].values;
  CHECK(shares.shape() == Shape{3, 1, 3, 3});
  CHECK_FALSE(shares.requires_grad());
  const Tensor last = model.features(images), logits = model(images);
  for (int64_t i = 0; i < 3; ++i) {
    const int64_t c = argmax(logits[i], -1).item<int64_t>();
    double all = 0, positive = 0;
    std::vector<double> parts;
    for (int64_t place = 0; place < 9; ++place) {
      double part = 0;
      for (int64_t f = 0; f < model.feature_channels(); ++f)
        part += last[i][f][place / 3][place % 3].item() * model.fc->weight.tensor()[c][f].item();
      parts.push_back(part);
      all += part;
      positive += std::max(part, 0.0);
    }
    CHECK(all / 9 + model.fc->bias.tensor()[c].item() ==
          doctest::Approx(logits[i][c].item()).epsilon(1e-4));
    for (int64_t place = 0; place < 9; ++place)
      CHECK(shares[i][0][place / 3][place % 3].item() ==
            doctest::Approx(std::max(parts[static_cast<size_t>(place)], 0.0) / positive)
                .epsilon(1e-3));
  }
  {
    NoGradGuard no_grad;
    fill_(model.fc->weight, 0);  // no place adds to any class
  }
  CHECK(sum(model.patch_maps(images).maps[0].values).item() == 0);
  o.classes = 0;
  CHECK(ResNet(o, rng).patch_maps(images).maps.empty());
}

TEST_CASE("resnet: summary") {
  Rng rng(0);
  const ShapeOnlyScope no_memory;
  CHECK(ResNet(models::resnet_options("resnet50"), rng).summary() ==
        "16 bottleneck blocks in 4 stages of 256 to 2048 channels");
  ResNetOptions o = models::resnet_options("resnet18");
  o.small_pictures = true;
  CHECK(ResNet(o, rng).summary() ==
        "8 basic blocks in 4 stages of 64 to 512 channels, behind a stem for small pictures");
}

TEST_CASE("resnet: invalid options and images are errors") {
  Rng rng(3);
  const auto refused = [&](auto&& set, const char* text) {
    ResNetOptions o = test::tiny_resnet();
    set(o);
    CHECK_THROWS_WITH_AS(ResNet(o, rng), doctest::Contains(text), Error);
  };
  refused([](ResNetOptions& o) { o.layers = {}; }, "at least one stage");
  refused([](ResNetOptions& o) { o.layers = {1, 0}; }, "layers are 1, 0");
  refused([](ResNetOptions& o) { o.layers.assign(40, 1); }, "40 stages");
  refused([](ResNetOptions& o) { o.width = 0; }, "width 0");
  refused([](ResNetOptions& o) { o.classes = -1; }, "-1 classes");
  refused([](ResNetOptions& o) { o.groups = 2; }, "use a bottleneck");
  refused([](ResNetOptions& o) { o.width_per_group = 128; }, "use a bottleneck");
  refused([](ResNetOptions& o) { o.block = ResNetBlockKind::bottleneck, o.width_per_group = 4; },
          "leave no channels");
  CHECK_THROWS_WITH_AS(ResNet(test::tiny_resnet(), rng)(zeros({1, 1, 32, 32})),
                       doctest::Contains("needs images (B, 3, H, W)"), Error);
  CHECK_THROWS_AS(ResNet(test::tiny_resnet(), rng)(zeros({3, 32, 32})), Error);
}

}  // namespace tern::test_resnet

// ResNets from states of torchvision (tests/reference/resnet/make_resnet.py): options, logits,
// gradients and statistics.
#include <doctest/doctest.h>

#include "tern/core/base/rng.h"
#include "tern/core/base/shape_only.h"
#include "tern/core/io/safetensors.h"
#include "tern/core/io/tensor_file.h"
#include "tern/models/resnet.h"
#include "tern/tests/models/forms.h"
#include "tern/tests/support/data_files.h"
#include "tern/tests/support/tensors.h"

namespace tern::test_resnet_state {
using models::ResNet, models::ResNetBlockKind, models::ResNetOptions;
using test::part, test::same;

namespace {

NamedTensors without(NamedTensors state, const std::string& ending) {
  std::erase_if(state, [&](const auto& t) { return t.first.ends_with(ending); });
  return state;
}

bool close(const Tensor& got, const Tensor& want) {
  return got.defined() && test::close(got.to(DType::f64), want.to(DType::f64), 1e-9, 1e-10);
}

ResNet evaluated(const std::string& path) {
  Rng rng(0);
  const NamedTensors state = load_tensors(path).tensors;
  models::ResNet model(models::resnet_options_of(state), rng);
  nn::load_state_dict(model, state);
  nn::set_training(model, false);
  return model;
}

}  // namespace

TEST_CASE("resnet: the options of a model come from its file of weights") {
  const test::TempDir dir;
  Rng rng(3);
  models::ResNetOptions o = test::tiny_resnet();
  o.block = ResNetBlockKind::bottleneck;
  ResNet model(o, rng);
  nn::set_training(model, false);
  nn::save_weights(dir / "weights.safetensors", model);
  const Tensor images = randn({2, 3, 32, 32}, rng);
  CHECK(same(evaluated(dir / "weights.safetensors")(images), model(images)));
}

TEST_CASE("resnet: torchvision's states give its logits, gradients and statistics, in f64") {
  const SafeTensors file =
      load_safetensors(std::string(TERN_SOURCE_DIR) + "/tests/reference/resnet/forms.safetensors");
  for (const std::string form : {"basic", "small", "bottleneck"}) {
    CAPTURE(form);
    const NamedTensors state = part(file.tensors, form + "/state.");
    Rng rng(1);
    for (const auto recompute : {nn::Recompute::none, nn::Recompute::full}) {
      ResNetOptions o = models::resnet_options_of(state);
      o.recompute = recompute;
      ResNet model(o, rng);
      nn::to(model, DType::f64);
      REQUIRE_NOTHROW(nn::load_state_dict(model, state));
      const Tensor logits = model(file.find("images"));
      CHECK(close(logits, file.find(form + "/logits")));
      cross_entropy(logits, file.find("labels")).backward();
      for (const auto& p : nn::named_parameters(model))
        CHECK_MESSAGE(close(p.second.grad(), file.find(form + "/grad." + p.first)), p.first);
      const NamedTensors after = part(file.tensors, form + "/after.");
      const NamedTensors buffers = nn::named_buffers(model);
      REQUIRE(buffers.size() == after.size());
      for (const auto& b : buffers)
        CHECK_MESSAGE(close(b.second, file.find(form + "/after." + b.first)), b.first);
      nn::set_training(model, false);
      CHECK(close(model(file.find("images")), file.find(form + "/eval")));
    }
  }
}

TEST_CASE("resnet: options are inferred from the shapes of a state") {
  const auto check_options = [](const ResNetOptions& o) {
    Rng rng(3);
    const NamedTensors state = nn::state_dict(ResNet(o, rng));
    const ResNetOptions found = models::resnet_options_of(state);
    CHECK(found.block == o.block);
    CHECK(found.layers == o.layers);
    CHECK(found.classes == o.classes);
    CHECK(found.channels == o.channels);
    CHECK(found.width == o.width);
    CHECK(found.groups == o.groups);
    CHECK(found.width_per_group == o.width_per_group);
    CHECK(found.small_pictures == o.small_pictures);
  };
  for (const auto& form : test::resnet_forms()) {
    CAPTURE(form.first);
    check_options(form.second);
  }
  const ShapeOnlyScope no_memory;
  for (const auto& named : models::resnet_configurations()) {
    CAPTURE(named.first);
    check_options(named.second);
  }
}

TEST_CASE("resnet: only counts of batches may be missing") {
  Rng rng(3), other(4);
  ResNet from(test::tiny_resnet(), rng), to(test::tiny_resnet(), other);
  const NamedTensors state = nn::state_dict(from);
  CHECK(from(randn({2, 3, 32, 32}, rng)).defined());
  CHECK(to(randn({2, 3, 64, 64}, rng)).defined());
  const LoadStateReport report = nn::load_state_dict(to, without(state, "num_batches_tracked"));
  CHECK(report.missing.empty());
  CHECK(to.bn1.num_batches_tracked.tensor().item<int64_t>() == 1);  // keeps its own count
  CHECK(same(to.bn1.running_var, from.bn1.running_var));
  CHECK_THROWS_WITH_AS(nn::load_state_dict(to, without(state, "bn2.running_var")),
                       doctest::Contains("layer1.0.bn2.running_var"), Error);
}

TEST_CASE("resnet: states of other models are refused by name") {
  Rng rng(3);
  const auto refused = [&](const NamedTensors& state, const char* text) {
    CHECK_THROWS_WITH_AS(models::resnet_options_of(state), doctest::Contains(text), IoError);
  };
  NamedTensors state = nn::state_dict(ResNet(test::tiny_resnet(), rng));
  refused({}, "the state has no conv1.weight; does it come from torchvision's ResNet?");
  refused(without(state, "layer1.0.conv2.weight"), "no layer1.0.conv2.weight");
  state[0].second = zeros({4, 3, 5, 5});
  refused(state, "conv1.weight is (4, 3, 5, 5)");
  state[0].second = zeros({4, 3});
  refused(state, "not the shape (4, 3)");
  state[0].second = zeros({0, 3, 7, 7});
  refused(state, "not the shape (0, 3, 7, 7)");
}

}  // namespace tern::test_resnet_state

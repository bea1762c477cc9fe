// Vision Transformers from states of timm: logits, inferred options, and resized positions.
#include <doctest/doctest.h>

#include "tern/core/base/rng.h"
#include "tern/core/io/safetensors.h"
#include "tern/models/vit.h"
#include "tern/tests/models/forms.h"
#include "tern/tests/support/tensors.h"

namespace tern::test_vit_state {
using test::part;

using models::Vit, models::VitOptions, models::VitPositions;

namespace {

std::string reference(const char* name) {
  return std::string(TERN_SOURCE_DIR) + "/tests/reference/vit/" + name;
}

NamedTensors without(NamedTensors state, const std::string& name) {
  std::erase_if(state, [&](const auto& t) { return t.first == name; });
  return state;
}

}  // namespace

TEST_CASE("vit: states of timm and of slides-vit load and give their logits") {
  const SafeTensors file = load_safetensors(reference("forms.safetensors"));
  const Tensor images = file.find("images");
  for (const char* form : {"average", "registers", "clip", "patches"}) {
    CAPTURE(form);
    const NamedTensors state = part(file.tensors, fmt::format("{}/param.", form));
    Rng rng(1);
    VitOptions o = models::vit_options_of(state, 2);
    CHECK(o.eps == (form == std::string("clip") ? 1e-5 : 1e-6));  // timm's vit_*_clip_*, and others
    o.eps = 1e-6;                                                 // the file was made with it
    Vit model(o, rng);
    models::load_vit(model, state);
    CHECK(nn::num_parameters(model) == models::vit_weights(model.options));
    nn::set_training(model, false);
    CHECK(test::close(model(images), file.find(fmt::format("{}/output", form)), 1e-5, 1e-5));
  }
  VitOptions o = models::vit_options("slides-vit");
  o.patch = 8;
  o.dim = 16;
  o.layers = 2;
  Rng rng(1);
  Vit model(o, rng);
  models::load_vit(model, part(file.tensors, "slides/param."));
  nn::set_training(model, false);
  CHECK(test::close(model(images), file.find("slides/output"), 1e-5, 1e-5));
}

TEST_CASE("vit: options are inferred from the shapes of a state") {
  for (const auto& form : test::vit_forms()) {
    const auto& name = form.first;
    const auto& o = form.second;
    CAPTURE(name);
    Rng rng(3);
    const NamedTensors state = nn::state_dict(Vit(o, rng));
    if (!o.stem.empty()) {  // shapes do not tell its strides
      CHECK_THROWS_WITH_AS(models::vit_options_of(state, o.heads),
                           doctest::Contains("stem.0.conv.weight"), IoError);
      continue;
    }
    if (o.final_norm == models::VitFinalNorm::none) {  // pre-norm or post-norm?
      CHECK_THROWS_WITH_AS(models::vit_options_of(state, o.heads),
                           doctest::Contains("make the VitOptions yourself"), IoError);
      continue;
    }
    VitOptions found = models::vit_options_of(state, o.heads);
    if (o.positions == VitPositions::none) found.image = o.image;  // no weight depends on it
    Vit back(found, rng);
    models::load_vit(back, state);
    CHECK(found.layers == o.layers);
    CHECK(found.patch == o.patch);
  }
  Rng rng(3);
  const NamedTensors state = nn::state_dict(Vit(test::tiny_vit(), rng));
  CHECK_THROWS_WITH_AS(models::vit_options_of(state), doctest::Contains("8 channels"), Error);
  CHECK_THROWS_WITH_AS(models::vit_options_of(without(state, "blocks.0.mlp.fc1.weight"), 2),
                       doctest::Contains("no blocks.0.mlp.fc1.weight"), Error);
  CHECK_THROWS_WITH_AS(models::vit_options_of({}), doctest::Contains("patch_embed"), Error);
  for (const auto& named : models::vit_configurations()) {
    const VitOptions& o = named.second;
    NamedTensors sizes = {{"patch_embed.proj.weight", zeros({o.dim, 3, o.patch, o.patch})},
                          {"blocks.0.mlp.fc1.weight", zeros({4 * o.dim, 1})},
                          {"norm.weight", zeros({o.dim})}};
    CHECK_MESSAGE(models::vit_options_of(sizes).heads == o.heads, named.first);
  }
  for (const int64_t dim : {64, 1152, 1536}) {  // heads of 32, 72 and 96 in timm
    const NamedTensors sizes = {{"patch_embed.proj.weight", zeros({dim, 3, 16, 16})},
                                {"blocks.0.mlp.fc1.weight", zeros({4 * dim, 1})},
                                {"norm.weight", zeros({dim})}};
    CHECK_THROWS_WITH_AS(models::vit_options_of(sizes), doctest::Contains("number of heads"),
                         Error);
    CHECK(models::vit_options_of(sizes, 16).heads == 16);
  }
}

TEST_CASE("vit: behind a stem, positions fit the stem's output") {
  VitOptions o = test::tiny_vit();
  o.stem = test::pooling_stem();
  o.patch = 2;
  Rng rng(3);
  const Vit small(o, rng);
  o.image = 16;
  Vit large(o, rng);
  models::load_vit(large, nn::state_dict(small));
  CHECK(
      test::close(large.pos_embed.tensor()[0],
                  nn::resize_positions(small.pos_embed.tensor().detach()[0], 4, 4, {.prefix = 1})));
}

TEST_CASE("vit: positions for another image size are resized on loading") {
  Rng rng(3);
  VitOptions small = test::tiny_vit(), large = test::tiny_vit();
  large.image = 20;
  for (bool prefix : {true, false}) {
    small.positions_on_prefix = large.positions_on_prefix = prefix;
    const Vit from(small, rng);
    Vit to(large, rng);
    models::load_vit(to, nn::state_dict(from));
    CHECK(to.pos_embed.shape() == Shape{1, 25 + prefix, 8});
    const Tensor want = nn::resize_positions(squeeze(from.pos_embed, 0), 5, 5, {.prefix = prefix});
    CHECK(test::same(squeeze(to.pos_embed, 0), want));
    CHECK(test::same(to.blocks[1].fc2.weight, from.blocks[1].fc2.weight));
    models::load_vit(to, nn::state_dict(to));
    CHECK(test::same(squeeze(to.pos_embed, 0), want));
  }
  Vit model(small, rng);
  NamedTensors state = nn::state_dict(model);
  CHECK_THROWS_WITH_AS(models::load_vit(model, without(state, "norm.bias")),
                       doctest::Contains("norm.bias"), Error);
  for (auto& [name, t] : state)
    if (name == "pos_embed") t = zeros({1, 8, 8});
  CHECK_THROWS_WITH_AS(models::load_vit(model, state), doctest::Contains("pos_embed"), Error);
}

}  // namespace tern::test_vit_state

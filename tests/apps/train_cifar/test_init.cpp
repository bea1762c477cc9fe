// train_cifar --init: starts from weights of timm or another run, also for other classes.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <filesystem>

#include "tern/apps/train_cifar/drawn.h"
#include "tern/core/io/safetensors.h"
#include "tern/core/tape/autograd.h"
#include "tern/models/gmlp.h"
#include "tern/models/vit.h"
#include "tern/nn/module.h"
#include "tern/nn/positions.h"
#include "tern/tests/apps/train_cifar/chosen.h"
#include "tern/tests/support/data_files.h"
#include "tern/tests/support/tensors.h"
#include "tern/tests/support/torch_archive.h"

namespace tern::apps::train_cifar::test_init {
namespace {

using test::parse, test::same;

// Writes a file with these tensors and without the name of a model, as timm does.
std::string write_timm(const std::string& path, const NamedTensors& state) {
  save_safetensors(path, {state, {{"format", "pt"}}});
  return path;
}

template <class M, class Options>
NamedTensors random_state(const Options& options) {
  Rng rng(9);
  return nn::state_dict(M(options, rng));
}

TrainOptions starting_from(const std::string& path, const char* model, const PictureForm& form) {
  TrainOptions o;
  o.model = model;
  o.init = path;
  o.form = form;
  o.dropout = 0;
  return o;
}

const Tensor& at(const NamedTensors& state, const std::string& name) {
  for (const auto& [n, t] : state)
    if (n == name) return t;
  FAIL(name);
  return state.front().second;
}

TEST_CASE("train_cifar init: timm's weights, with a head for other classes") {
  const test::TempDir dir;
  for (const char* model : {"vit_tiny_patch16_224", "gmlp_ti16_224"}) {
    CAPTURE(model);
    const bool vit = std::string(model).starts_with("vit");
    const NamedTensors timm = vit ? random_state<models::Vit>(models::vit_options(model))
                                  : random_state<models::Gmlp>(models::gmlp_options(model));
    CHECK(at(timm, "head.weight").size(0) == 1000);
    const std::string path = write_timm(dir / model, timm);
    CHECK(model_of_weights(path) == model);
    CHECK(model_of_weights(test::torch::save(dir / "model.pt", timm)) == model);
    TrainOptions o = starting_from(path, model, {.side = 224, .classes = 3});
    Rng rng(o.seed);
    ImageClassifier fresh = find_classifier(model).make(0, rng, nn::Recompute::none, o.form);
    const Tensor own_head = at(nn::state_dict(fresh), "head.weight").clone();
    CHECK(start_from(path, fresh) ==
          path + ": the head of 1000 classes is left out; a new head for 3 classes is trained");
    const NamedTensors got = nn::state_dict(make_model(o));
    CHECK(got.size() == timm.size());
    for (const auto& named : got) {  // clang 14 cannot capture a structured binding
      const std::string& name = named.first;
      if (name == "head.weight")
        CHECK(same(named.second, own_head));
      else if (name != "head.bias")
        CHECK_MESSAGE(same(named.second, at(timm, name)), name);
    }
    o.form.classes = 1000;
    ImageClassifier all = find_classifier(model).make(0, rng, nn::Recompute::none, o.form);
    CHECK(start_from(path, all).empty());
    CHECK(same(at(nn::state_dict(all), "head.weight"), at(timm, "head.weight")));
  }
}

TEST_CASE(
    "train_cifar init: a ViT's positions are resized to the pictures; a gMLP's cannot be resized") {
  const test::TempDir dir;
  const NamedTensors timm = random_state<models::Vit>(models::vit_options("vit_tiny_patch16_224"));
  const std::string path = write_timm(dir / "vit", timm);
  const ImageClassifier small =
      make_model(starting_from(path, "vit_tiny_patch16_224", {.side = 96, .classes = 2}));
  NoGradGuard no_grad;
  const Tensor expected =
      nn::resize_positions(squeeze(at(timm, "pos_embed"), 0), 6, 6, {.prefix = 1});
  CHECK(same(squeeze(at(nn::state_dict(small), "pos_embed"), 0), expected));
  const std::string gmlp =
      write_timm(dir / "gmlp", random_state<models::Gmlp>(models::gmlp_options("gmlp_ti16_224")));
  CHECK_THROWS_WITH_AS(
      make_model(starting_from(gmlp, "gmlp_ti16_224", {.side = 96, .classes = 2})),
      doctest::Contains("its blocks.0.mlp_channels.gate.proj.weight is (196, 196), the model's is "
                        "(36, 36)"),
      IoError);
}

TEST_CASE("train_cifar init: an error names the first tensor that does not fit, and no other") {
  const test::TempDir dir;
  NamedTensors timm = random_state<models::Vit>(models::vit_options("vit_tiny_patch16_224"));
  const auto refused = [&](const char* model, const char* text) {
    const std::string path = write_timm(dir / "file", timm);
    CHECK_THROWS_WITH_AS(make_model(starting_from(path, model, {.side = 224, .classes = 2})),
                         doctest::Contains(text), IoError);
  };
  refused("vit_small_patch16_224",
          "vit_small_patch16_224: its cls_token is (1, 1, 192), the "
          "model's is (1, 1, 384)");
  refused("gmlp_ti16_224", "gmlp_ti16_224: it has no stem.proj.weight");
  timm.emplace_back("norm_pre.weight", zeros({192}));
  refused("vit_tiny_patch16_224", "its norm_pre.weight is not in the model");
  CHECK_THROWS_WITH_AS(model_of_weights(dir / "file"),
                       doctest::Contains("these weights fit none of the models here"), IoError);
  timm.pop_back();
  std::erase_if(timm, [](const auto& named) { return named.first == "norm.bias"; });
  refused("vit_tiny_patch16_224", "it has no norm.bias");
  std::erase_if(timm, [](const auto& named) { return named.first.starts_with("head."); });
  timm.emplace_back("norm.bias", zeros({192}));
  const std::string headless = write_timm(dir / "headless", timm);
  TrainOptions o = starting_from(headless, "vit_tiny_patch16_224", {.side = 224, .classes = 2});
  o.init.clear();
  ImageClassifier model = make_model(o);
  CHECK(start_from(headless, model) ==
        headless + ": it has no head; a new head for 2 classes is trained");
}

TEST_CASE("train_cifar init: the file chooses the model; given flags count") {
  const test::TempDir dir;
  const std::string timm =
      write_timm(dir / "timm", random_state<models::Gmlp>(models::gmlp_options("gmlp_ti16_224")));
  CHECK(parse({"--init", timm}).options.model == "gmlp_ti16_224");
  CHECK(parse({"--init", timm, "--batch", "3"}).options.batch == 3);
  datasets::write_cifar10(dir / "ten", draw_cifar10(20, 10, 1));
  CHECK(parse({"--init", timm, "--data", dir / "ten"}).options.warmup == 500);  // from its recipe
  CHECK(parse({"--init", timm, "--model", "gmlp-stem"}).options.model == "gmlp-stem");
  CHECK_THROWS_WITH_AS(parse({"--init", dir / "missing"}),
                       doctest::Contains("missing: no such file or folder"), IoError);
}

TEST_CASE(
    "train_cifar init: the path is kept absolute: a run without a checkpoint needs it again") {
  const test::TempDir dir;
  write_timm(dir / "timm", random_state<models::Gmlp>(models::gmlp_options("gmlp_ti16_224")));
  const std::string relative = std::filesystem::relative(dir / "timm").string();
  CHECK(parse({"--init", relative}).options.init == std::filesystem::absolute(relative).string());
}

TEST_CASE("train_cifar init: a run starts from another run's weights and resumes exactly") {
  const test::TempDir dir;
  datasets::write_cifar10(dir / "ten", draw_cifar10(40, 10, 1));
  CifarFlags first = parse({"--data", dir / "ten", "--model", "gmlp-small", "--epochs", "1",
                            "--side", "24", "--out", dir / "first"});
  REQUIRE(train_classifier(first) == 0);
  const std::string weights = training::RunFolder{first.train.out}.best_weights();
  for (const char* name : {"a", "b"})  // two classes
    for (int i = 0; i < 12; ++i) {
      std::filesystem::create_directories(dir / fmt::format("two/{}", name));
      datasets::Picture p{24, 24, std::vector<uint8_t>(3 * 24 * 24, *name == 'a' ? 20 : 200)};
      p.rgb[0] = static_cast<uint8_t>(i);
      datasets::save_png(dir / fmt::format("two/{}/{}.png", name, i), p);
    }
  const auto start = [&](const char* out, const char* epochs) {
    return parse({"--data", dir / "two", "--init", first.train.out, "--epochs", epochs,
                  "--schedule", "constant", "--out", dir / out});
  };
  const CifarFlags whole = start("whole", "3"), part = start("part", "2");
  CHECK(whole.options.model == "gmlp-small");
  CHECK(whole.options.init == weights);
  REQUIRE(train_classifier(whole) == 0);
  REQUIRE(train_classifier(part) == 0);
  const TrainOptions of_first = load_config({first.train.out}, std::nullopt);
  const TrainOptions o = load_config({whole.train.out}, std::nullopt);
  CHECK(o.form.side == 24);  // the side of the first run
  CHECK(o.form.normalization.mean == of_first.form.normalization.mean);
  CHECK(o.form.classes == 2);
  CHECK(o.lr == 1e-4);
  CHECK(o.augment == "standard");
  REQUIRE(train_classifier(parse({"--resume", part.train.out, "--epochs", "3"})) == 0);
  CHECK(test::read_file(training::RunFolder{whole.train.out}.weights()) ==
        test::read_file(training::RunFolder{part.train.out}.weights()));
  CHECK(load_config({part.train.out}, std::nullopt).form.normalization.mean ==
        of_first.form.normalization.mean);
}

}  // namespace
}  // namespace tern::apps::train_cifar::test_init

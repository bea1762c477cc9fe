// lm with optimizers by name, and configurations of versions without a choice of optimizer.
#include <doctest/doctest.h>

#include "tern/apps/lm/folder.h"
#include "tern/apps/lm/program.h"
#include "tern/apps/lm/training.h"
#include "tern/core/base/error.h"
#include "tern/tests/support/data_files.h"

namespace tern::apps::lm::test_optimizers {
namespace {

TrainConfig small(const test::TempDir& dir, const std::string& model, const std::string& name) {
  std::string text;
  for (int i = 0; i < 12; ++i) text += "The cat sat on the mat.\nIt saw the dog in the garden.\n\n";
  TrainConfig c;
  c.text = {test::write_file(dir / "text", text)};
  c.hold_out = 0.2;
  c.vocab_size = 280;
  c.model.model = model;
  c.model.context = 16;
  c.model.layers = 2;
  c.model.dim = 16;
  c.optimizer = name;
  c.schedule = "inverse-sqrt";
  c.warmup = 0;
  return c;
}

std::string trained(const TrainConfig& c, const std::string& out, int64_t epochs) {
  LmFlags f;
  f.config = c;
  f.config.epochs = epochs;
  f.train.out = out;
  REQUIRE(train_lm(f) == 0);
  return out;
}

}  // namespace

TEST_CASE("lm: a run with another optimizer resumes with it, bit for bit") {
  for (const char* model : {"gpt", kBert})
    for (const char* name : {"muon", "lion"}) {
      CAPTURE(model);
      CAPTURE(name);
      test::TempDir dir;
      const TrainConfig c = small(dir, model, name);
      const std::string whole = trained(c, dir / "whole", 2), part = trained(c, dir / "part", 1);
      LmFlags more;
      more.train.resume = part;
      more.train.epochs = 2;
      REQUIRE(train_lm(more) == 0);
      CHECK(load_config({part}).optimizer == name);
      CHECK(test::read_file(part + "/model.safetensors") ==
            test::read_file(whole + "/model.safetensors"));
      const std::string other = trained(small(dir, model, "adamw"), dir / "other", 2);
      CHECK(test::read_file(other + "/model.safetensors") !=
            test::read_file(whole + "/model.safetensors"));
    }
}

TEST_CASE("lm: lm.json of versions without a choice of optimizer") {
  const auto c = config_from_json<TrainConfig>(R"({
 "accumulate": 2, "batch": 16, "beta2": 0.98, "cased": false, "clip": 1.0, "ema": 0.9,
 "epochs": 3, "from": "", "hold_out": 0.9, "lr": 0.001,
 "model": {"attention_dim": 0, "bias": true, "context": 24, "dim": 32, "dropout": 0.1,
  "eps": 1e-05, "ffn": 128, "heads": 4, "kv_heads": 0, "layers": 2, "model": "gpt",
  "rope_base": 10000.0, "tie": true, "vocab": 280},
 "pairs": true, "parts": 1, "schedule": "constant", "seed": 7, "text": ["a", "b"],
 "tokenizer": "", "valid": [], "vocab_size": 257, "warmup": 4, "weight_decay": 0.1})");
  CHECK(c.optimizer == "adamw");
  CHECK_FALSE(c.decay_all);
  CHECK(c.precision == "f32");
  CHECK(c.memory_use == MemoryOptions{});
  CHECK(c.epoch_end == EpochEndOptions{});
  CHECK(c.accumulate == 2);
  CHECK(c.beta2 == 0.98);
  CHECK(c.hold_out == 0.9);
  CHECK(c.model.ffn == 128);
  CHECK(c.text == std::vector<std::string>{"a", "b"});
  CHECK(to_json(config_from_json<TrainConfig>(to_json(c))) == to_json(c));
}

TEST_CASE("lm: values in a file have the bounds of the flags") {
  TrainConfig c;
  c.model.vocab = 300;
  CHECK_NOTHROW(config_from_json<TrainConfig>(to_json(c)));
  c.hold_out = 0.95;
  CHECK_THROWS_WITH_AS(config_from_json<TrainConfig>(to_json(c)),
                       doctest::Contains("hold_out is 0.95; it must be a number from 0 to 0.9"),
                       Error);
  c.hold_out = 0;
  c.vocab_size = 256;
  CHECK_THROWS_WITH_AS(
      config_from_json<TrainConfig>(to_json(c)),
      doctest::Contains("vocab_size is 256; it must be a whole number from 257 to"), Error);
}

}  // namespace tern::apps::lm::test_optimizers

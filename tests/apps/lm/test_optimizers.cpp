// Configurations of versions without a choice of optimizer, and bounds of values in files.
#include <doctest/doctest.h>

#include "tern/apps/lm/config.h"
#include "tern/core/base/error.h"

namespace tern::apps::lm::test_optimizers {

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

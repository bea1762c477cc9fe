// Checkpoints: every kind of part is restored bit for bit, and files that are damaged, of another
// version or of other parts are errors that name them.
#include <doctest/doctest.h>

#include <cmath>

#include "tern/core/ops/ops.h"
#include "tern/nn/dropout.h"
#include "tern/nn/linear.h"
#include "tern/optim/adam.h"
#include "tern/tests/support/data_files.h"
#include "tern/tests/support/tensors.h"
#include "tern/train/checkpoint.h"

namespace tern::training::test_train_checkpoint {
namespace {

using test::contains, test::io_error, test::read_file, test::TempDir, test::write_file;

// A variable of every type that a checkpoint can hold.
struct Everything {
  int64_t steps = 0;
  double loss = 0;
  bool warm = false;
  std::string text;
  std::vector<int64_t> ids;
  std::vector<double> scores;
  Rng rng{1};
  Tensor table = zeros({2, 3});

  void add_to(Checkpoint& c) {
    c.add("steps", steps);
    c.add("loss", loss);
    c.add("warm", warm);
    c.add("text", text);
    c.add("ids", ids);
    c.add("scores", scores);
    c.add("rng", rng);
    c.add("table", table);
  }
};

TEST_CASE("train: a checkpoint restores numbers, texts, lists and generators bit for bit") {
  TempDir dir;
  Everything a, b;
  a.steps = (int64_t{1} << 62) + 1;
  a.loss = 0.1 + 0.2;
  a.warm = true;
  a.text = "\xc3\xa4\n\"";
  a.ids = {3, -1, int64_t{1} << 60};
  a.scores = {1e-310, -test::kInf, std::nan("")};
  a.rng.uniform();
  a.table = arange(0, 6).to(DType::f32).clone();
  a.table = tensor({1, 2, 3, 4, 5, 6}, {2, 3});
  Checkpoint x, y;
  a.add_to(x);
  b.add_to(y);
  x.save(dir / "c");
  y.load(dir / "c");
  CHECK(b.steps == a.steps);
  CHECK(b.loss == a.loss);
  CHECK(b.warm);
  CHECK(b.text == a.text);
  CHECK(b.ids == a.ids);
  REQUIRE(b.scores.size() == 3);
  CHECK(b.scores[0] == 1e-310);
  CHECK(b.scores[1] == -test::kInf);
  CHECK(std::isnan(b.scores[2]));
  CHECK(b.rng == a.rng);
  CHECK(b.table.to_vector<float>() == a.table.to_vector<float>());

  a.ids.clear();  // an empty list is restored, too
  x.save(dir / "c");
  y.load(dir / "c");
  CHECK(b.ids.empty());
}

TEST_CASE("train: modules and optimizers are parts of a checkpoint") {
  TempDir dir;
  Rng rng(3);
  nn::Linear a(3, 2, rng), b(3, 2, rng);
  nn::Dropout drop_a(0.5, rng), drop_b(0.5, rng);
  optim::AdamW adam_a(nn::named_parameters(a)), adam_b(nn::named_parameters(b));
  sum(a(ones({1, 3}))).backward();
  adam_a.step();
  static_cast<void>(drop_a(ones({7})));
  Checkpoint x, y;
  x.add("model", a), x.add("drop", drop_a), x.add("adam", adam_a);
  y.add("model", b), y.add("drop", drop_b), y.add("adam", adam_b);
  x.save(dir / "c");
  y.load(dir / "c");
  CHECK(a.weight.tensor().to_vector<float>() == b.weight.tensor().to_vector<float>());
  CHECK(drop_a(ones({64})).to_vector<float>() == drop_b(ones({64})).to_vector<float>());
  CHECK(adam_b.state_dict().size() == adam_a.state_dict().size());
}

TEST_CASE("train: a checkpoint remembers values and generators, not tensors") {
  Everything a;
  Rng seed(3);
  nn::Dropout drop(0.5, seed);
  Checkpoint c;
  a.add_to(c);
  c.add("drop", drop);
  const Rng rng = a.rng, inner = drop.rng;
  const auto restore = c.remember();
  a.steps = 1, a.loss = 2, a.warm = true, a.text = "x", a.ids = {1}, a.scores = {2};
  a.rng.uniform(), drop.rng.uniform();
  a.table = ones({2, 3});
  restore();
  CHECK(a.steps == 0);
  CHECK(a.loss == 0);
  CHECK_FALSE(a.warm);
  CHECK(a.text.empty());
  CHECK(a.ids.empty());
  CHECK(a.scores.empty());
  CHECK(a.rng == rng);
  CHECK(drop.rng == inner);
  CHECK(a.table.to_vector<float>() == std::vector<float>(6, 1));
}

TEST_CASE("train: the error about a checkpoint that does not fit names the part") {
  TempDir dir;
  Everything a;
  Checkpoint x;
  a.add_to(x);
  x.expect("data", "50000 images");
  x.save(dir / "c");

  Checkpoint less, more, other, wrong, shape;
  int64_t steps = 0;
  less.add("steps", steps);
  CHECK(contains(io_error([&] { less.load(dir / "c"); }), "parts that this program does not know"));
  Everything b;
  b.add_to(more);
  more.expect("data", "50000 images");
  more.add("extra", steps);
  CHECK(contains(io_error([&] { more.load(dir / "c"); }), "has no 'extra'"));
  b.add_to(other);
  other.expect("data", "3 images");
  b.steps = 77;
  CHECK(contains(io_error([&] { other.load(dir / "c"); }),
                 "the run was started with other data: 50000 images, not 3"));
  CHECK(b.steps == 77);  // expect() comes before other parts
  b.table = zeros({3, 2});
  b.add_to(shape);
  shape.expect("data", "50000 images");
  CHECK(contains(io_error([&] { shape.load(dir / "c"); }), "its 'table' does not fit"));

  CHECK_THROWS_AS(wrong.add("a.b", steps), Error);
  CHECK_THROWS_AS(wrong.add("", steps), Error);
  CHECK_THROWS_AS(wrong.add("checksum", steps), Error);
  wrong.add("steps", steps);
  CHECK_THROWS_AS(wrong.add("steps", steps), Error);
}

TEST_CASE("train: checkpoints of other versions are refused by name") {
  TempDir dir;
  SafeTensors old;
  old.tensors = {{"model.w", ones({2})}};
  old.metadata = {{"checksum", "00000000"}, {"progress", "{}"}};
  save_safetensors(dir / "old", old);
  CHECK(contains(io_error([&] { load_checkpoint(dir / "old"); }), "a checkpoint of an older tern"));
  old.metadata["tern_checkpoint"] = "99";
  save_safetensors(dir / "new", old);
  CHECK(contains(io_error([&] { load_checkpoint(dir / "new"); }),
                 "a checkpoint of version 99; this tern reads version 2"));
}

SafeTensors sample() {
  SafeTensors s;
  s.tensors = {{"model.w", tensor({1, 2, 3, 4}, {2, 2})},
               {"optimizer.step", arange(0, 3)},
               {"none", zeros({0})}};
  s.metadata = {{"options", "{\"lr\": 0.1}"}};
  return s;
}

TEST_CASE("train: every damaged byte and every truncation of a checkpoint is detected") {
  TempDir dir;
  const std::string path = dir / "c";
  save_checkpoint(path, sample());
  SafeTensors back = load_checkpoint(path);
  CHECK(checkpoint_text(back, "options", "c") == "{\"lr\": 0.1}");
  CHECK_THROWS_AS(checkpoint_text(back, "none", "c"), IoError);
  CHECK(back.find("model.w").to_vector<double>() == std::vector<double>{1, 2, 3, 4});
  const std::string good = read_file(path);
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0x01);
    write_file(path, bad);
    INFO("byte ", i);
    CHECK_THROWS_AS(load_checkpoint(path), IoError);
  }
  for (size_t size = 0; size < good.size(); size += 7) {
    write_file(path, good.substr(0, size));
    CHECK_THROWS_AS(load_checkpoint(path), IoError);
  }
  save_safetensors(path, sample());
  CHECK_THROWS_WITH_AS(load_checkpoint(path), doctest::Contains("not a checkpoint"), IoError);
}

}  // namespace
}  // namespace tern::training::test_train_checkpoint

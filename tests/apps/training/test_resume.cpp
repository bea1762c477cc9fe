// What may not change the numbers of a training: a stop and a resume, the number of threads,
// recomputation. And what must: precision, optimizer, data.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <utility>

#include "tern/apps/common/command_line/settings.h"
#include "tern/core/base/error.h"
#include "tern/core/base/precision.h"
#include "tern/data/tasks/sequence_tasks.h"
#include "tern/tests/apps/training/in_process.h"
#include "tern/tests/support/same_bits.h"
#include "tern/tests/support/threads.h"
#include "tern/train/checkpoint.h"
#include "tern/train/optimizer.h"

namespace tern::test::test_resume {
namespace {

namespace fs = std::filesystem;
using doctest::Contains;

// A training with everything random and everything with a state on, and the last batch of an epoch
// short. `blocks`: --recompute counts.
struct Busy {
  std::string line;
  int64_t steps = 7;  // past the end of an epoch
  bool blocks = true;
  bool each = false;  // this row stands for its program
};

const std::string kTranslate =
    "translate train --first 40 --hold-out 6 --tokens bpe --bpe 60 --shared --dim 16"
    " --dropout 0.2 --epochs 3 --batch 9 --lr 0.5 --schedule noam --warmup 5"
    " --label-smoothing 0.1 --ema 0.9 --accumulate 2 --optimizer adamw --weight-decay 0.01"
    " --decay-all --seed 3 --model ";
const std::string kLm =
    "lm train --text text --hold-out 0.2 --vocab 280 --context 12 --layers 2 --dim 16"
    " --dropout 0.2 --epochs 4 --batch 3 --accumulate 2 --lr 1e-2 --warmup 3 --ema 0.9 --seed 3"
    " --model ";
const std::string kBert = with(kLm + "bert", " --vocab 257 --context 20 --heads 4");
const std::string kCifar =
    "train_cifar --data data --limit 20 --batch 5 --lr 1e-3 --label-smoothing 0.1 --augment strong"
    " --mixup 0.2 --cutmix 1 --ema 0.9 --clip 1 --seed 5 --hold-out 0.1 --dropout 0.1"
    " --weight-decay 0.05 --model ";
const std::string kCosine = " --epochs 3 --schedule cosine --warmup 3";

// A training of each program.
const std::vector<Busy> kEach = {
    {"ntm train --task copy --hidden 6 --slots 9 --width 4 --batch 3 --every 7 --sequences 17"
     " --ema 0.9",
     7, false, true},
    {kTranslate + "transformer --layers 1 --heads 2 --ffn 20 --tie all", 7, true, true},
    {kLm + "gpt --heads 4 --parts 2", 7, true, true},
    {kBert, 7, true, true},
    {kCifar + "gmlp-small --optimizer adamw" + kCosine, 9, false, true}};

std::vector<Busy> all_trainings() {
  std::vector<Busy> all = kEach;
  for (const std::string& task : datasets::sequence_task_names())
    all.push_back({"ntm train --task " + task +
                       " --layers 1 --heads 1 --hidden 6 --slots 9 --width 4 --batch 3 --ema 0.9"
                       " --optimizer rmsprop --every 7 --sequences " +
                       (task == "ngrams" || task == "sort" ? "8" : "17"),
                   4, false});
  for (const std::string model : {"bahdanau", "seq2seq --layers 1"})
    all.push_back({kTranslate + model + " --hidden 12", 7, false});
  all.push_back({kLm + "llama --heads 4 --kv-heads 2 --parts 2"});
  all.push_back({kLm + "gmlp --parts 2"});
  all.push_back({kBert + " --no-pairs"});
  all.push_back({kCifar + "gmlp-stem --optimizer muon" + kCosine, 5});    // batch norm, depth
  all.push_back({kCifar + "slides-vit --optimizer adamw" + kCosine, 5});  // dropout of attention
  all.push_back({kCifar +  // slow weights, flips by epoch, and a bias that is frozen in the end
                     "airbench94 --optimizer sgd --momentum 0.85 --nesterov --norm-bias-lr 64"
                     " --lookahead 3 --alternate-flips --epochs 5 --schedule triangle --warmup 3",
                 14, false});
  return all;
}

SafeTensors state_after(const std::string& line, int64_t steps) {
  Stepwise t(line);
  while (steps-- > 0) t.step();
  return t.loop->state();
}

// Trains `steps` steps, and resumes from a checkpoint after the first step; with `all`, from those
// before the first step and the last, and before and after the evaluation of an epoch.
void check_resumes(const std::string& line, int64_t steps, bool all) {
  struct Moment {
    std::string file;
    int64_t taken;
  };
  Stepwise whole(line);
  std::vector<Moment> moments;
  int64_t taken = 0;
  const auto save = [&](const std::string& file) {
    whole.loop->checkpoint().save(file);
    moments.push_back({file, taken});
  };
  if (all) save("start");
  bool in_first = true;
  while (taken < steps) {
    whole.loop->step();
    ++taken;
    if (!whole.loop->epoch_trained()) {
      if (taken == (all ? steps - 1 : 1)) save(fmt::format("step-{}", taken));
      continue;
    }
    if (in_first && all) save("trained");
    REQUIRE(whole.loop->close_epoch());
    if (std::exchange(in_first, false) && all) save("closed");
  }
  CHECK_FALSE(in_first);
  const SafeTensors state = whole.loop->state();
  for (const Moment& m : moments) {
    CAPTURE(m.file);
    Stepwise second(line);
    second.loop->load_state(training::load_checkpoint(m.file), m.file);
    if (second.loop->epoch_trained()) REQUIRE(second.loop->close_epoch());
    for (int64_t i = m.taken; i < steps; ++i) second.step();
    check_same(second.loop->state(), state);
  }
}

}  // namespace

TEST_CASE("resume: a stopped training equals an unbroken one bit for bit, at any step") {
  for (const Busy& b : all_trainings()) {
    CAPTURE(b.line);
    const DataFolder dir;
    check_resumes(b.line, b.steps, b.each);
  }
}

TEST_CASE("resume: the same bits on any number of threads") {
  for (const Busy& b : kEach) {
    CAPTURE(b.line);
    const DataFolder dir;
    const auto state_on = [&](int threads) {
      const Threads scope(threads);
      return state_after(b.line, 5);
    };
    const SafeTensors one = state_on(1);
    for (int threads : {2, 5}) check_same(state_on(threads), one);
  }
}

TEST_CASE("resume: recomputation and steps inside backward do not change the numbers") {
  for (const Busy& b : all_trainings()) {
    CAPTURE(b.line);
    if (!b.blocks && !b.each) continue;
    const DataFolder dir;
    const auto state_with = [&](const std::string& flags) {
      SafeTensors state = state_after(with(b.line, " --accumulate 1 --clip 0" + flags), 3);
      state.metadata.clear();  // has the flags themselves
      std::erase_if(state.tensors, [](const auto& t) { return t.first == "options"; });
      return state;
    };
    const SafeTensors plain = state_with("");
    check_same(state_with(" --step-in-backward"), plain);
    if (!b.blocks) continue;
    check_same(state_with(" --recompute selective"), plain);
    check_same(state_with(" --recompute full --step-in-backward"), plain);
  }
}

TEST_CASE("resume: 8-bit optimizer state trains, is stored as bytes, and resumes bit for bit") {
  for (const Busy& b : kEach) {
    CAPTURE(b.line);
    const DataFolder dir;
    const bool ntm = b.line.starts_with("ntm"), cifar = b.line.starts_with("train_cifar");
    const std::string line =
        with(b.line, std::string(" --optimizer-bits 8 --optimizer adam") + (ntm     ? " --hidden 40"
                                                                            : cifar ? ""
                                                                                    : " --dim 64"));
    check_resumes(line, 5, false);  // matrices of 4,096 elements and more have 8 bits
    const SafeTensors state = state_after(line, 2);
    CHECK(std::any_of(state.tensors.begin(), state.tensors.end(), [](const auto& t) {
      return t.second.dtype() == DType::u8 && t.second.numel() >= 4096;
    }));
  }
}

TEST_CASE("resume: every optimizer trains under its name, and resumes") {
  for (const Busy& b : kEach) {
    std::set<std::string> seen;
    for (const std::string& name : training::optimizer_names()) {
      if (b.line.starts_with("ntm") && name == "muon") continue;  // it has no list of blocks
      // Without weight decay adamw is adam.
      const std::string line = with(b.line, " --lr 1e-3 --weight-decay 0.1 --optimizer " + name);
      CAPTURE(line);
      const DataFolder dir;
      CHECK(program_of(line)->options().optimizer == name);
      Stepwise whole(line), second(line);
      for (int i = 0; i < 2; ++i) whole.step();
      whole.loop->checkpoint().save("c");
      second.loop->load_state(training::load_checkpoint("c"), "c");
      for (int i = 0; i < 2; ++i)
        for (Stepwise* t : {&whole, &second}) t->step();
      check_same(second.loop->state(), whole.loop->state());
      std::string weights;
      for (const auto& [at, w] : whole.loop->learner().weights())
        for (const float v : w.to_vector<float>()) weights += fmt::format("{:a} ", v);
      CHECK(seen.insert(weights).second);
    }
  }
}

TEST_CASE("resume: a run in bf16 that was stopped in mid-epoch is resumed in bf16, bit for bit") {
  for (const Busy& b : kEach) {
    CAPTURE(b.line);
    const DataFolder dir;
    const std::string bf16 = b.line + " --precision bf16";
    REQUIRE(run_line(b.line + " --out f32") == 0);
    REQUIRE(run_line(bf16 + " --out whole") == 0);
    const training::RunFolder f32{"f32"}, whole{"whole"}, broken{dir / "broken"};
    CHECK(read_file(f32.weights()) != read_file(whole.weights()));
    {
      const MatmulPrecisionScope scope(MatmulPrecision::bf16);
      fs::create_directories(broken.path);
      Stepwise t(bf16, {.folder = broken.path, .terminal = false});
      t.program->save(broken);
      apps::Settings settings;
      t.program->settings(settings);
      apps::save_config(broken.file(t.program->config_file()), settings);
      for (int i = 0; i < 4; ++i) t.step();
      t.loop->checkpoint().save(broken.checkpoint());
    }
    CHECK(matmul_precision() == MatmulPrecision::f32);
    const bool cifar = b.line.starts_with("train_cifar");
    REQUIRE(run_line(std::string(cifar ? "train_cifar" : b.line.substr(0, b.line.find(" --"))) +
                     " --resume broken") == 0);
    CHECK(read_file(broken.weights()) == read_file(whole.weights()));
    CHECK(contains(read_file(broken.file("report.html")), "products in bf16 by"));
  }
}

TEST_CASE("resume: a checkpoint from other data, of another model, or a damaged one is refused") {
  for (const Busy& b : kEach) {
    CAPTURE(b.line);
    const DataFolder dir;
    Stepwise t(b.line);
    t.step();
    SafeTensors state = t.loop->state();
    const auto refused = [&](const std::string& line, const char* why) {
      CHECK_THROWS_WITH_AS(Stepwise(line).loop->load_state(state, "file"), Contains(why), IoError);
    };
    // Another width of the model, and other data.
    const bool ntm = b.line.starts_with("ntm"), cifar = b.line.starts_with("train_cifar");
    refused(with(b.line, cifar ? " --model gmlp-4m" : ntm ? " --hidden 7" : " --dim 32"), "file");
    if (!ntm) {  // its settings determine its data
      write_file("text", read_file("text") + "The cat saw the dog.\n\n");
      std::string bytes = read_file("data/data_batch_1.bin");
      bytes[9] ^= 1;
      write_file("data/data_batch_1.bin", bytes);
      const bool generated = b.line.starts_with("translate");
      refused(with(b.line, generated ? " --first 39" : ""), "other data");
    }
    t.loop->checkpoint().save("c");
    std::string bytes = read_file("c");
    bytes[bytes.size() - 9] ^= 1;
    write_file("d", bytes);
    CHECK_THROWS_AS(training::load_checkpoint("d"), IoError);
    state.metadata["loop"] = "{\"step\": 99999}";
    CHECK_THROWS_AS(t.loop->load_state(state, "file"), IoError);
  }
}

}  // namespace tern::test::test_resume

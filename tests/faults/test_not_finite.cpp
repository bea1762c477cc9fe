// Trainings that overflow stop, and programs refuse weights that are not finite.
#include <cmath>
#include <limits>
#include <vector>

#include "tern/core/io/safetensors.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/tests/faults/process.h"

namespace tern::test {
namespace {

const std::string kTranslate =
    PROGRAM_TRANSLATE " train --first 40 --epochs 2 --dim 8 --heads 1 --ffn 8 --layers 1 ";
const std::string kLm =
    PROGRAM_LM " train --epochs 2 --dim 8 --heads 1 --layers 1 --context 16 --text text ";
const std::string kCifar = PROGRAM_TRAIN_CIFAR " --data data --model gmlp-small --epochs 2 ";
const std::string kSteep = "--lr 1e15 --warmup 0 --schedule constant ";

bool all_finite(const std::string& file) {
  for (const auto& [name, t] : load_safetensors(file).tensors)
    if (is_float(t.dtype()) && !all(isfinite(t)).item<bool>()) return false;
  return true;
}

// Writes a NaN into the weights of a run.
void spoil(const std::string& file) {
  SafeTensors weights = load_safetensors(file);
  NoGradGuard no_grad;
  fill_(weights.tensors.back().second, std::numeric_limits<double>::quiet_NaN());
  save_safetensors(file, weights);
}

// Makes the weights so large that sums overflow, but keeps them finite.
void blow_up(const std::string& file) {
  SafeTensors weights = load_safetensors(file);
  NoGradGuard no_grad;
  for (auto& [name, t] : weights.tensors)
    if (const double most = is_float(t.dtype()) ? max(abs(t)).item() : 0; most > 0) {
      mul_(t, 1 / most);
      mul_(t, 3e38);
    }
  save_safetensors(file, weights);
  REQUIRE(all_finite(file));
}

struct Use {
  std::string train, weights;
  std::vector<std::string> scores, others;
};

const std::string kNtm = PROGRAM_NTM
    " train --task copy --baseline --layers 1 --hidden 2 --sequences 2 --every 1 --batch 1 ";

/// All commands that use the weights of a run in the folder `run`.
std::vector<Use> all_uses() {
  const std::string dog = "echo a dog | ";
  const std::string translate = "echo a dog > a; " PROGRAM_TRANSLATE
                                " eval --model run --source a "
                                "--target a",
                    lm = PROGRAM_LM " eval --model run --text text ";
  const std::string run = PROGRAM_TRANSLATE " run --model run ";
  const std::string generate = PROGRAM_LM " generate --model run --prompt the --max-tokens 3 ";
  const std::string complete = "echo the | " PROGRAM_LM " complete --model run --max-tokens 3 ";
  return {{kNtm, "best", {PROGRAM_NTM " eval --model run"}, {}},
          {kTranslate,
           "model",
           {translate, translate + " --int8"},
           {dog + run, dog + run + "--int8", PROGRAM_TRANSLATE " plot --model run 'a dog'"}},
          {kLm,
           "model",
           {lm, lm + "--int8"},
           {generate, generate + "--int8", complete, complete + "--int8"}},
          {kLm + "--model bert ", "model", {lm}, {PROGRAM_LM " fill --model run 'the [MASK]'"}},
          {kCifar,
           "model",
           {PROGRAM_TRAIN_CIFAR " --data data --eval run/model.safetensors"},
           {PROGRAM_TRAIN_CIFAR " --predict " PICTURE " --weights run/model.safetensors"}}};
}

}  // namespace

TEST_CASE("not finite: an overflowing training stops with exit code 1, and its files are finite") {
  const Shell shell;
  std::vector<std::string> lines = {kCifar + kSteep, kCifar + kSteep + "--ema 0.9 --clip 0",
                                    kLm + kSteep, kLm + kSteep + "--hold-out 0 --clip 0"};
  for (const char* hold_out : {"", "--hold-out 0 "})
    for (const char* more : {"", "--clip 0 ", "--clip 0 --ema 0.9 ", "--clip 0 --step-in-backward",
                             "--clip 0 --optimizer-bits 8 ", "--accumulate 2 "})
      lines.push_back(kTranslate + kSteep + hold_out + more);
  for (const std::string& line : lines) {
    const Ended ended = shell.run(line + " --out run");
    CAPTURE(line);
    CAPTURE(ended.err);
    CHECK(ended.code == 1);
    CHECK(contains(ended.err, " step "));
    CHECK(contains(ended.err, "run/checkpoint.safetensors keeps the state after step "));
    CHECK(fs::exists(shell / "run/checkpoint.safetensors"));
    for (const auto& entry : fs::directory_iterator(shell / "run"))
      if (entry.path().extension() == ".safetensors") CHECK(all_finite(entry.path().string()));
    fs::remove_all(shell / "run");
  }
}

TEST_CASE("not finite: no program uses such weights, or prints results of sums that overflowed") {
  const Shell shell;
  for (const Use& u : all_uses()) {
    REQUIRE(shell.run(u.train + "--out run").code == 0);
    const std::string file = fmt::format("run/{}.safetensors", u.weights);
    std::vector<std::string> lines = u.scores;
    lines.insert(lines.end(), u.others.begin(), u.others.end());
    for (const std::string& line : lines) {
      CAPTURE(line);
      CHECK(shell.run(line).code == 0);
    }
    blow_up(shell / file);
    for (const std::string& line : lines) {
      const Ended refused = shell.run(line);
      CAPTURE(line);
      CAPTURE(refused.err);
      CHECK(refused.code == 2);
      CHECK_FALSE(contains(refused.out, "nan"));
    }
    for (const std::string& line : u.scores) {
      const Ended refused = shell.run(line);
      CAPTURE(line);
      CHECK(refused.out == "");
      CHECK(contains(refused.err, file + ": the "));
      CHECK(contains(refused.err, "nan: its weights are too large, sums overflow"));
    }
    spoil(shell / file);
    for (const std::string& line : lines) {
      const Ended refused = shell.run(line);
      CAPTURE(line);
      CAPTURE(refused.err);
      CHECK(refused.code == 2);
      CHECK(refused.out == "");
      CHECK(contains(refused.err, file + ": its weights "));
      CHECK(contains(refused.err, " are not finite"));
    }
    fs::remove_all(shell / "run");
  }
}

TEST_CASE("not finite: no training starts from such weights") {
  const Shell shell;
  REQUIRE(shell.run(kCifar + "--out first").code == 0);
  spoil(shell / "first/model.safetensors");
  const Ended cifar = shell.run(kCifar + "--init first/model.safetensors --out run");
  CHECK(cifar.code == 2);
  CHECK(contains(cifar.err, "first/model.safetensors: its weights "));
  CHECK(contains(cifar.err, " are not finite"));
  CHECK_FALSE(fs::exists(shell / "run"));
  REQUIRE(shell.run(kTranslate + "--out translator").code == 0);
  spoil(shell / "translator/model.safetensors");
  const Ended translate = shell.run("yes 'a dog' | head -50 > a; " PROGRAM_TRANSLATE
                                    " train --from translator --source a --target a --out run");
  CAPTURE(translate.err);
  CHECK(translate.code == 2);
  CHECK(contains(translate.err, "translator/model.safetensors: its weights "));
  CHECK_FALSE(fs::exists(shell / "run"));
  for (const char* model : {"gpt", "bert"}) {
    const std::string folder = std::string(model) + "-first";
    REQUIRE(shell.run(fmt::format("{}--model {} --out {}", kLm, model, folder)).code == 0);
    spoil(shell / folder + "/model.safetensors");
    const Ended lm = shell.run(
        fmt::format(PROGRAM_LM " train --text text --epochs 1 --from {} --out run", folder));
    CAPTURE(lm.err);
    CHECK(lm.code == 2);
    CHECK(contains(lm.err, "model.safetensors: its weights "));
    CHECK_FALSE(fs::exists(shell / "run"));
  }
}

}  // namespace tern::test

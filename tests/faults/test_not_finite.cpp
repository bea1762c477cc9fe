#include <cmath>
#include <limits>
#include <vector>

#include "tern/core/io/safetensors.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/tests/faults/process.h"

// Trainings that overflow, by all the ways that options choose.

namespace tern::test {
namespace {

const std::string kTranslate =
    PROGRAM_TRANSLATE " train --first 40 --epochs 2 --dim 8 --heads 1 --ffn 8 --layers 1 ";
const std::string kLm =
    PROGRAM_LM " train --epochs 2 --dim 8 --heads 1 --layers 1 --context 16 --text text ";
const std::string kCifar = PROGRAM_TRAIN_CIFAR " --limit 64 --epochs 2 ";
const std::string kSteep = "--lr 1e15 --warmup 0 --schedule constant ";

bool all_finite(const std::string& file) {
  for (const auto& [name, t] : load_safetensors(file).tensors)
    if (is_float(t.dtype()) && !all(isfinite(t)).item<bool>()) return false;
  return true;
}

// Weights of a run with a NaN among them.
void spoil(const std::string& file) {
  SafeTensors weights = load_safetensors(file);
  NoGradGuard no_grad;
  fill_(weights.tensors.back().second, std::numeric_limits<double>::quiet_NaN());
  save_safetensors(file, weights);
}

}  // namespace

TEST_CASE("not finite: every program stops with exit code 1, and its files are finite") {
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
    CHECK(has(ended.err, " step "));
    CHECK(has(ended.err, "run/checkpoint.safetensors keeps the state after step "));
    CHECK(fs::exists(shell / "run/checkpoint.safetensors"));
    for (const auto& entry : fs::directory_iterator(shell / "run"))
      if (entry.path().extension() == ".safetensors") CHECK(all_finite(entry.path().string()));
    fs::remove_all(shell / "run");
  }
}

TEST_CASE("not finite: nothing is trained from such weights") {
  const Shell shell;
  REQUIRE(shell.run(kCifar + "--out first").code == 0);
  spoil(shell / "first/model.safetensors");
  const Ended cifar = shell.run(kCifar + "--init first/model.safetensors --out run");
  CHECK(cifar.code == 2);
  CHECK(has(cifar.err, "first/model.safetensors: its weights "));
  CHECK(has(cifar.err, " are not finite"));
  CHECK_FALSE(fs::exists(shell / "run"));
  for (const char* model : {"gpt", "bert"}) {
    const std::string folder = std::string(model) + "-first";
    REQUIRE(shell.run(fmt::format("{}--model {} --out {}", kLm, model, folder)).code == 0);
    spoil(shell / folder + "/model.safetensors");
    const Ended lm = shell.run(
        fmt::format(PROGRAM_LM " train --text text --epochs 1 --from {} --out run", folder));
    CAPTURE(lm.err);
    CHECK(lm.code == 2);
    CHECK(has(lm.err, "model.safetensors: its weights "));
    CHECK_FALSE(fs::exists(shell / "run"));
  }
}

}  // namespace tern::test

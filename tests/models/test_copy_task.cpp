// Bahdanau's model learns to copy words, and aligns each target word with its source word.
#include <doctest/doctest.h>

#include <algorithm>

#include "tern/core/base/rng.h"
#include "tern/models/bahdanau.h"
#include "tern/optim/optim.h"

namespace tern::test_copy_task {
namespace {

using models::Bahdanau, models::BahdanauForm;

// Word 0 begins every target and pads the source. Labels after the end do not count.
constexpr int64_t kWords = 12, kShortest = 3, kLongest = 6, kNoLabel = -100;

struct Batch {
  Tensor source, lengths, target, labels, real;
};

Batch make_batch(int64_t sentences, Rng& rng) {
  Batch b;
  b.lengths = randint(kShortest, kLongest + 1, {sentences}, rng);
  b.real = lt(arange(0, kLongest), unsqueeze(b.lengths, 1));
  Tensor words = randint(1, kWords, {sentences, kLongest}, rng);
  b.source = where(b.real, words, 0);
  b.target = cat({zeros({sentences, 1}, DType::i64), narrow(b.source, 1, 0, kLongest - 1)}, 1);
  b.labels = where(b.real, words, kNoLabel);
  return b;
}

/// The share of real steps where `hit` (B, T) is not 0.
double share(const Tensor& hit, const Batch& b) {
  return sum(logical_and(hit, b.real)).item() / sum(b.real).item();
}

}  // namespace

// The embeddings are narrow. With wide ones a bidirectional state also carries its neighbours'
// words, and the model can copy by looking beside a word. The learning rate falls at the end: with
// a constant one the accuracy varies from step to step, and stays below the threshold for one seed
// in ten or with another compiler's rounding.
TEST_CASE("copy task: Bahdanau's model aligns on the diagonal") {
  for (BahdanauForm form : {BahdanauForm::paper, BahdanauForm::d2l}) {
    Rng rng(1);
    Bahdanau model(
        {.source_vocab = kWords, .target_vocab = kWords, .embed = 4, .hidden = 32, .form = form},
        rng);
    optim::Adam optimizer(nn::named_parameters(model), {.lr = 5e-3});
    for (int step = 0; step < 500; ++step) {
      optimizer.set_lr_factor(std::min(1.0, 2 - step / 250.0));
      const Batch b = make_batch(32, rng);
      optimizer.zero_grad();
      Tensor logits = model(b.source, b.lengths, b.target);
      cross_entropy(flatten(logits, 0, 1), flatten(b.labels), {.ignore_index = kNoLabel})
          .backward();
      optimizer.step();
    }
    const Batch b = make_batch(200, rng);
    auto out = model.align(b.source, b.lengths, b.target);
    CHECK(share(eq(argmax(out.logits, 2), b.labels), b) > 0.98);
    CHECK(share(eq(argmax(out.alignments, 2), arange(0, kLongest)), b) >= 0.9);
  }
}

}  // namespace tern::test_copy_task

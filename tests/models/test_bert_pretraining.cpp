// All parts of BERT's pre-training together: from a text file to filled masks.
#include <doctest/doctest.h>

#include <cmath>

#include "tern/core/tape/autograd.h"
#include "tern/data/text/documents/bert_loader.h"
#include "tern/data/text/lines/lines.h"
#include "tern/models/bert.h"
#include "tern/optim/optim.h"
#include "tern/tests/support/data_files.h"

namespace tern::test_bert_pretraining {

namespace {

struct Animal {
  const char *name, *deed;
};
constexpr Animal kAnimals[] = {{"cat", "sat"},   {"dog", "ran"},     {"bird", "sang"},
                               {"fish", "swam"}, {"frog", "hopped"}, {"horse", "galloped"}};
constexpr const char* kPlaces[] = {"mat", "grass", "roof", "stone", "bridge"};

/// Documents about one animal each, and every animal has its own verb. So masks can be filled from
/// the other words, and sentences of one document can be recognised.
std::string stories(int64_t documents) {
  Rng rng(1);
  std::string text;
  for (int64_t d = 0; d < documents; ++d) {
    const Animal& a = kAnimals[rng.below(std::ssize(kAnimals))];
    for (int64_t s = 6 + rng.below(5); s > 0; --s)
      text += fmt::format("The {} {} on the {}.\n", a.name, a.deed,
                          kPlaces[rng.below(std::ssize(kPlaces))]);
    text += "\n";
  }
  return text;
}

models::BertLoss loss_of(const models::Bert& model, const datasets::BertBatch& b) {
  return models::pretraining_loss(model, {b.tokens, b.segments, nn::Mask::lengths(b.lengths)},
                                  {b.places, b.words, b.next});
}

}  // namespace

TEST_CASE("bert pre-training: from a text file to filled masks and recognised pairs") {
  test::TempDir dir;
  const std::vector<std::string> files = {test::write_file(dir / "text.txt", stories(300))};
  const datasets::WordPiece pieces =
      datasets::WordPiece::learn(datasets::read_lines(files[0]), {.size = 100});
  const auto text = std::make_shared<datasets::Documents>(datasets::read_documents(files, pieces));
  const datasets::BertLoaderOptions options{.batch = 32, .max_tokens = 19, .seed = 2, .workers = 0};
  datasets::Loader<datasets::BertBatch> loader = datasets::bert_loader(text, pieces, options);

  Rng rng(3);
  models::Bert model({.vocab = pieces.size(),
                      .dim = 48,
                      .layers = 2,
                      .heads = 4,
                      .ffn = 96,
                      .positions = 19,
                      .dropout = 0,
                      .attention_dropout = 0,
                      .pad = pieces.pad_id()},
                     rng);
  {
    // The initial 0.02 suits a width of 768. This narrow model would learn slowly from it.
    NoGradGuard no_grad;
    for (const Tensor& p : nn::parameters(model))
      if (p.ndim() > 1) mul_(p, 4);
  }
  optim::AdamW optimizer(nn::named_parameters(model), {.lr = 3e-3});
  for (int epoch = 0; epoch < 20; ++epoch)
    for (datasets::BertBatch& b : loader) {
      loss_of(model, b).total.backward();
      optimizer.step();
      optimizer.zero_grad();
    }

  nn::set_training(model, false);
  NoGradGuard no_grad;
  double masked = 0, next = 0;
  int64_t batches = 0;
  for (datasets::BertBatch& b : loader) {  // an epoch that the model has not seen
    const models::BertLoss loss = loss_of(model, b);
    masked += loss.masked.item();
    next += loss.next.item();
    ++batches;
  }
  // The place, one of seven words, cannot be known: the least loss is ln(5) / 7 = 0.23. One of six
  // other documents has the same animal: the least loss of the next sentence is 0.24.
  CHECK(masked / static_cast<double>(batches) < 0.4);
  CHECK(next / static_cast<double>(batches) < 0.5);
  for (const Animal& a : kAnimals) {
    const datasets::BertTokens sentence = datasets::bert_tokens(
        pieces, pieces.encode(fmt::format("the {} [MASK] on the mat.", a.name)));
    const auto filled = models::fill_mask(model, sentence.tokens, pieces.mask_id(), 1);
    REQUIRE(filled.size() == 1);
    CHECK(pieces.piece(filled[0].guesses[0].token) == a.deed);
  }
}

}  // namespace tern::test_bert_pretraining

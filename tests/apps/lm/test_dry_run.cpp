// lm train --dry-run: the predicted peak memory against the allocator's peak in real steps.
#include <doctest/doctest.h>

#include "tern/apps/lm/folder.h"
#include "tern/apps/lm/program.h"
#include "tern/apps/lm/training.h"
#include "tern/tests/support/memory_checks.h"

namespace tern::apps::lm::test_dry_run {
namespace {

TrainConfig config(const std::string& model) {
  TrainConfig c;
  c.model.model = model;
  if (model != kBert) find_family(model).defaults(c.model);
  c.model.context = 64;
  c.model.layers = 3;
  c.model.dim = 64;
  c.vocab_size = 600;
  c.batch = 8;
  c.warmup = 0;
  c.schedule = "constant";
  return c;
}

Texts some_texts(const std::string& model) {
  TrainConfig demo;
  demo.model.model = model;
  return {{read_texts(demo).train[0].whole().substr(0, 40'000)}, {}};
}

template <class Training>
void three_steps(Training& training) {
  for (int i = 0; i < 3; ++i) training.loop.step();
}

}  // namespace

TEST_CASE("lm dry run: every family takes the predicted memory") {
  const Texts texts = some_texts("gpt");
  for (const std::string& model : family_names())
    for (const auto& [accumulate, ema] : {std::pair(1, 0.0), std::pair(2, 0.9)}) {
      CAPTURE(model);
      TrainConfig c = config(model);
      c.accumulate = accumulate;
      c.ema = ema;
      if (model == "gmlp" && ema > 0) c.model.attention_dim = 16;
      const datasets::LanguageTokenizer tokenizer = make_tokenizer(c, texts);
      c.model.vocab = tokenizer.size();
      GptProgram program(c);
      program.corpus = encode_corpus(texts, tokenizer);
      test::check_peak(program.summary().cost.peak(), [&] {
        LmTraining training(c, program.corpus, make_model(c), {.terminal = false});
        three_steps(training);
      });
    }
}

TEST_CASE("lm dry run: bert takes the predicted memory") {
  TrainConfig c = config(kBert);
  c.model.eps = 1e-12;
  const Texts texts = some_texts(kBert);
  const datasets::WordPiece pieces = make_pieces(c, texts);
  c.model.vocab = pieces.size();
  BertProgram program(c);
  program.corpus = encode_documents(c, texts, pieces);
  test::check_peak(program.summary().cost.peak(), [&] {
    Rng rng(c.seed);
    BertTraining training(c, program.corpus, models::Bert(bert_sizes(c, pieces.pad_id()), rng),
                          {.terminal = false});
    three_steps(training);
  });
}

}  // namespace tern::apps::lm::test_dry_run

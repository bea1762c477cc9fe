#include "tern/apps/lm/bert_training.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "tern/apps/common/board.h"
#include "tern/apps/common/weights_fit.h"
#include "tern/apps/lm/fill.h"
#include "tern/apps/lm/folder.h"
#include "tern/apps/lm/report.h"
#include "tern/apps/lm/score.h"
#include "tern/core/base/error.h"
#include "tern/core/base/shape_only.h"
#include "tern/core/tape/autograd.h"
#include "tern/data/text/unicode.h"
#include "tern/train/progress.h"

namespace tern::apps::lm {
namespace {

constexpr int64_t kSampleSentences = 6, kSampleGuesses = 3;

double share(int64_t part, int64_t of) {
  return static_cast<double>(part) / static_cast<double>(of);
}

std::string bert_losses(const train::EpochRecord& e) {
  auto numbers = [](double masked, double next) {
    return std::isnan(next) ? fmt::format("{:.4f}", masked)
                            : fmt::format("{:.4f} + {:.4f}", masked, next);
  };
  std::string s = numbers(e["train_masked"], e.has("train_next") ? e["train_next"] : kNaN);
  if (!std::isnan(e["valid_loss"])) {
    s += fmt::format("  valid loss {} ppl {:.2f}, {:.1f} % of words",
                     numbers(e["valid_masked"], e["valid_next"]), e["valid_ppl"],
                     100 * e["valid_words"]);
    if (!std::isnan(e["valid_pairs"]))
      s += fmt::format(", {:.1f} % of pairs", 100 * e["valid_pairs"]);
  }
  return s;
}

models::Bert drawn_bert(const TrainConfig& c, const data::WordPiece& pieces) {
  Rng rng(c.seed);
  return {bert_sizes(c, pieces), rng};
}

models::Bert first_bert(const TrainConfig& c, const data::WordPiece& pieces) {
  models::Bert model = drawn_bert(c, pieces);
  if (c.from.empty()) return model;
  const std::string path = ModelFiles{c.from}.weights();
  models::load_bert_weights(path, model);
  check_finite_weights(path, nn::named_parameters(model));
  return model;
}

/// Sizes and heads of the model that --from names.
void take_sizes(TrainConfig& c) {
  const models::BertOptions o = load_bert_folder(c.from).model.options;
  check_io(o.masked_lm && o.segments == 2 && o.activation == Activation::gelu,
           "{}: training goes on with a head for masked words, two segments and gelu only", c.from);
  c.model.vocab = o.vocab;
  c.model.context = o.positions;
  c.model.layers = o.layers;
  c.model.dim = o.dim;
  c.model.heads = o.heads;
  c.model.ffn = o.ffn;
  c.model.eps = o.eps;
  c.pairs = o.next_sentence;
}

/// A place of a sentence that a word begins at, if there is one: marks tell little.
size_t place_to_mask(const std::vector<int64_t>& ids, const data::WordPiece& pieces, Rng& rng) {
  std::vector<size_t> words;
  for (size_t i = 0; i < ids.size(); ++i) {
    size_t at = 0;
    const auto kind = data::classify(data::next_code_point(pieces.piece(ids[i]), at));
    if (kind == data::CharacterClass::letter) words.push_back(i);
  }
  if (words.empty()) return 0;
  return words[static_cast<size_t>(rng.below(std::ssize(words)))];
}

/// Sentences from all over the text for validation, or of training, with a word masked in each.
std::vector<FilledSample> samples(const LoadedBert& bert, const BertCorpus& corpus) {
  const data::Documents& from = corpus.valid->sentences() > 0 ? *corpus.valid : *corpus.train;
  const int64_t count = std::min(kSampleSentences, from.sentences());
  std::vector<FilledSample> out;
  Rng rng(0);
  for (int64_t i = 0; i < count; ++i) {
    const auto sentence = from.sentence(i * from.sentences() / count);
    std::vector<int64_t> ids(sentence.begin(), sentence.end());
    const std::string whole = bert.pieces.decode(ids);
    ids[place_to_mask(ids, bert.pieces, rng)] = bert.pieces.mask_id();
    const std::string masked = bert.pieces.decode(ids);
    out.push_back({masked, whole, fill_ids(bert, ids, kSampleGuesses)});
  }
  return out;
}

data::BertBatch copy_of(const data::BertBatch& b) {
  data::BertBatch copy = b;
  for (Tensor* t :
       {&copy.tokens, &copy.segments, &copy.lengths, &copy.places, &copy.words, &copy.next})
    *t = lm::copy_of(*t);
  return copy;
}

}  // namespace

int64_t total_steps(const TrainConfig& c, const BertCorpus& corpus, const data::WordPiece& pieces) {
  return c.epochs * train::steps_per_epoch(training_batches(c, corpus, pieces), c.accumulate);
}

BertTraining::BertTraining(const TrainConfig& c, const BertCorpus& text, const data::WordPiece& p,
                           models::Bert m, train::LoopOptions options)
    : config(c),
      corpus(text),
      pieces(p),
      model(std::move(m)),
      loader(training_batches(c, text, p)),
      optimizer(make_optimizer(c, nn::named_parameters(model))),
      learner(model, *optimizer, learner_options(c, total_steps(c, text, p), c.model.dim)),
      loop(learner, loader,
           {.loss = [this](const data::BertBatch& b, train::Means& m) { return loss(b, m); },
            .evaluate = [this] { return validate(); },
            .weight = [](const auto& b) { return sum(b.lengths).item(); },
            .progress = [](const auto&) { return 1.0; }},
           loop_options(std::move(options), c, bert_losses, [this](const train::EpochRecord& e) {
             if (loop.events()) add_pictures(*loop.events(), e.steps);
           })) {
  loop.checkpoint().expect("data", corpus.checksum);
}

// Of a sentence for validation, or of training.
void BertTraining::add_pictures(train::EventWriter& events, int64_t step) {
  const data::Documents& from = corpus.valid->sentences() > 0 ? *corpus.valid : *corpus.train;
  const auto sentence = from.sentence(0);
  const auto n = std::min<int64_t>(std::ssize(sentence), config.model.context);
  if (n == 0) return;
  train::Learner::Evaluation scope(learner);
  NoGradGuard no_grad;
  const std::vector<std::string> names(static_cast<size_t>(n));
  const Tensor tokens =
      tensor(std::vector<int64_t>(sentence.begin(), sentence.begin() + n), {1, n});
  add_attention(events, self_attention("", model.attend({.tokens = tokens}), names), step);
}

Tensor BertTraining::loss(const data::BertBatch& b, train::Means& means) const {
  const models::BertLoss l = models::pretraining_loss(model, input_of(b), targets_of(b));
  const auto words = static_cast<double>(b.words.numel());
  means.add("masked", l.masked.item() * words, words);
  if (b.next.defined()) {
    const auto pairs = static_cast<double>(b.next.numel());
    means.add("next", l.next.item() * pairs, pairs);
  }
  return l.total;
}

std::optional<train::Metrics> BertTraining::validate() const {
  train::Metrics none;
  for (const char* name :
       {"valid_loss", "valid_masked", "valid_ppl", "valid_words", "valid_next", "valid_pairs"})
    none.emplace_back(name, kNaN);
  if (corpus.valid->sentences() == 0) return none;
  data::BertLoaderOptions options = loader_options(config);
  options.shuffle = false;  // and the masks of its first epoch, the same each time
  auto batches = data::bert_loader(corpus.valid, pieces, options);
  train::Progress bar(fmt::format("validating {}/{}", loop.epoch(), loop.epochs()), "batches",
                      batches.batches_per_epoch());
  const BertScore s = score_batches(model, batches, [&](int64_t done) {
    bar.update(done);
    return !train::interrupted();
  });
  if (train::interrupted()) return std::nullopt;
  check_validation(loop, s.masked_nats + s.next_nats, s.loss());
  return train::Metrics{
      {"valid_loss", s.loss()},      {"valid_masked", s.masked_loss()},
      {"valid_ppl", s.perplexity()}, {"valid_words", share(s.masked_right, s.masked)},
      {"valid_next", s.next_loss()}, {"valid_pairs", share(s.pairs_right, s.pairs)}};
}

void BertProgram::read_config(const train::RunFolder& folder,
                              const std::optional<SafeTensors>& state) {
  LmProgram::read_config(folder, state);
  pieces = load_pieces({folder.path});
}

bool BertProgram::encode(bool resumed) {
  check(resumed || config.parts == 1,
        "--parts would change nothing: an epoch of a bert is a pass over the text");
  const Lines lines = lines_of(config, texts);
  if (!resumed) {
    pieces = make_pieces(config, lines);
    if (!config.from.empty())
      take_sizes(config);
    else
      config.model.vocab = pieces->size();
  }
  corpus = encode_documents(config, lines, *pieces);
  return corpus.valid->sentences() > 0;
}

Summary BertProgram::summary() const {
  data::Loader<data::BertBatch> loader = training_batches(config, corpus, *pieces);
  const int64_t batches = loader.batches_per_epoch();
  data::BertBatch largest, batch;
  for (data::BertBatch& b : loader)
    if (!largest.tokens.defined() || b.tokens.numel() > largest.tokens.numel())
      largest = std::move(b);
  ShapeOnlyScope nothing;
  const models::Bert model = drawn_bert(config, *pieces);
  auto loss = [&] {
    return models::pretraining_loss(model, input_of(batch), targets_of(batch)).total;
  };
  return tern::summary(model, loss, step_options(batches, [&] { batch = copy_of(largest); }));
}

void BertProgram::save(const train::RunFolder& folder) const {
  save_description({folder.path}, config, *pieces);
}

void BertProgram::check_fits(const SafeTensors& checkpoint, const std::string& path) const {
  check_resumed_fits(checkpoint, path, [&] { return drawn_bert(config, *pieces); });
}

train::Loop& BertProgram::make_loop(train::LoopOptions options, bool resumed) {
  options.evaluation = static_cast<double>(corpus.valid->tokens.size()) /
                       static_cast<double>(3 * config.batch * config.model.context);
  training = std::make_unique<BertTraining>(
      config, corpus, *pieces, resumed ? drawn_bert(config, *pieces) : first_bert(config, *pieces),
      std::move(options));
  return training->loop;
}

std::string BertProgram::model_text() const {
  ShapeOnlyScope nothing;
  return describe_model(drawn_bert(config, *pieces));
}

std::string BertProgram::data_text() const {
  const data::Documents& text = *corpus.train;
  return fmt::format(
      "{} training and {} validation tokens of {} pieces, {} documents of {} sentences",
      train::grouped(std::ssize(text.tokens)), train::grouped(std::ssize(corpus.valid->tokens)),
      train::grouped(pieces->size()), train::grouped(text.size()),
      train::grouped(text.sentences()));
}

LmProgram::Ending BertProgram::ending(const RunSummary& run) const {
  const std::string& folder = loop().folder().path;
  const LoadedBert bert = load_bert_folder(folder);
  BertReport report{.run = run, .samples = samples(bert, corpus)};
  if (!report.samples.empty()) report.attention = explain(bert, report.samples[0].masked);
  Ending end{
      .page = make_report(report),
      .attention = !report.attention.groups.empty(),
      .reached =
          fmt::format(" of masked words, {:.1f} % right", 100 * loop().best_epoch()["valid_words"]),
      .use = fmt::format("to fill gaps with it: lm fill --model {} \"... [MASK] ...\"", folder)};
  for (const FilledSample& s : report.samples)
    end.samples.push_back(s.masked + "\n" + describe_filled(s.filled));
  return end;
}

std::string describe_model(const models::Bert& model) {
  const models::BertOptions& o = model.options;
  return fmt::format(
      "bert, {} weights: {} layers of {} channels, {} heads, ffn {}, {} tokens at most, dropout "
      "{:g}"
      "{}",
      train::grouped(nn::num_parameters(model)), o.layers, o.dim, o.heads, o.ffn, o.positions,
      o.dropout, o.next_sentence ? ", with the next sentence" : "");
}

}  // namespace tern::apps::lm

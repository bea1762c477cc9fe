// Builds loader, optimizer and loop of a training, validates by loss and BLEU, and writes the
// report.
#include "tern/apps/translate/training.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <span>

#include "tern/apps/common/command_line/started.h"
#include "tern/apps/common/pages/board.h"
#include "tern/apps/common/pages/html.h"
#include "tern/apps/common/training/evaluation.h"
#include "tern/core/ops/fused.h"
#include "tern/core/ops/ops.h"
#include "tern/train/progress.h"

namespace tern::apps::translate {
namespace {

bool by_bleu(const TrainConfig& c) { return c.best == "bleu"; }

std::string epoch_line(const training::EpochRecord& e, const std::string& title) {
  std::string s = fmt::format("{}  train loss {:.4f}", title, e["train_loss"]);
  if (!std::isnan(e["valid_loss"]))
    s += fmt::format("  valid loss {:.4f} ppl {:.2f} BLEU {:.2f}", e["valid_loss"], e["valid_ppl"],
                     e["valid_bleu"]);
  return s;
}

std::string sample_table(const std::string& about, const std::vector<SampleTranslation>& samples) {
  if (samples.empty()) return "";
  std::string rows = html_row({"source", "translation", "reference", "chrF"}, "th");
  for (const SampleTranslation& t : samples)
    rows += fmt::format(
        "<tr><td dir=\"auto\">{}</td><td dir=\"auto\">{}</td><td dir=\"auto\">{}</td>"
        "<td>{:.1f}</td></tr>\n",
        escape_html(t.source), escape_html(t.translation), escape_html(t.reference), t.chrf);
  return fmt::format("<p>{}</p>\n{}", about, html_table(rows, "texts"));
}

std::string example_tables(const TranslationExamples& examples) {
  return sample_table(
             "Validation pairs from the shortest to the longest, translated greedily with the "
             "weights that were kept. chrF compares groups of letters with the reference, from 0 "
             "to 100 (the same text). It rates single sentences, whose BLEU is often 0.",
             examples.even) +
         sample_table(fmt::format("The worst of {} validation pairs, by chrF:", examples.searched),
                      examples.worst);
}

// KL(p || q) + KL(q || p) = sum (p - q) (log p - log q) of each token, (B, T), where p and q belong
// to the logits x and y (B, T, V). x - y can take the place of the logarithms' difference, since
// p - q sums to 0.
Tensor divergence(const Tensor& x, const Tensor& y) {
  return sum(fused(
                 "divergence", [](auto p, auto q, auto a, auto b) { return (p - q) * (a - b); },
                 softmax(x, -1), softmax(y, -1), x, y),
             -1);
}

}  // namespace

std::string sample_text(const SampleTranslation& s) {
  return fmt::format("source       {}\ntranslation  {}\nreference    {}  (chrF {:.1f})", s.source,
                     s.translation, s.reference, s.chrf);
}

datasets::Loader<datasets::PairBatch> training_batches(const TrainConfig& c, const Corpus& corpus) {
  return datasets::pair_loader(
      corpus.train.pairs,
      {.batch = c.batch, .batch_tokens = c.batch_tokens, .vary = corpus.vary, .seed = c.seed});
}

Tensor training_loss(const TranslationModel& model, const TrainConfig& c,
                     const datasets::PairBatch& b) {
  const CrossEntropyOptions options{.ignore_index = datasets::kPadId,
                                    .label_smoothing = c.label_smoothing};
  if (c.r_drop == 0) return model.loss(b, options);
  const Tensor x = model.logits(b), y = model.logits(b);
  const auto entropy = [&](const Tensor& logits) {
    return cross_entropy(flatten(logits, 0, 1), flatten(b.target_out), options);
  };
  const Tensor counts = cast(ne(b.target_out, datasets::kPadId), x.dtype());
  return (entropy(x) + entropy(y)) / 2 +
         c.r_drop / 4 * sum(divergence(x, y) * counts) / sum(counts);
}

int64_t total_steps(const TrainConfig& c, const Corpus& corpus) {
  return c.epochs * training::steps_per_epoch(training_batches(c, corpus), c.accumulate);
}

TranslationTraining::TranslationTraining(const TrainConfig& c, const Corpus& pairs,
                                         const Tokenizers& t, training::LoopOptions loop_options,
                                         bool resumed)
    : config(c),
      corpus(pairs),
      tokenizers(t),
      model(resumed || c.from.empty() ? TranslationModel(c) : load_weights({c.from}, c)),
      loader(training_batches(c, pairs)),
      optimizer(make_optimizer(c, nn::named_parameters(model))),
      learner(model, *optimizer,
              learner_options(c, total_steps(c, pairs), c.model.dim, by_bleu(c))),
      loop(
          learner, loader,
          {.loss = [this](const datasets::PairBatch& b) { return training_loss(model, config, b); },
           .evaluate = [this] { return validate(); },
           .weight = [](const datasets::PairBatch& b) { return sum(b.target_lengths).item(); },
           .progress = [](const auto& b) { return static_cast<double>(b.source.size(0)); }},
          complete(std::move(loop_options))) {
  loop.checkpoint().expect("data", corpus.checksum);
}

training::LoopOptions TranslationTraining::complete(training::LoopOptions o) {
  set_loop_options(o, config);
  o.best = {by_bleu(config) ? "valid_bleu" : "valid_loss", by_bleu(config)};
  o.only_best = true;
  o.bar.unit = "pairs";
  o.weight_unit = "tokens";
  o.bar.total = static_cast<double>(corpus.train.pairs->size());
  o.bar.evaluation = static_cast<double>(corpus.valid.pairs->size());  // loss and translations
  o.bar.note = [](const training::Loop& l) {
    return fmt::format("loss {:.4f}  {:.0f} tokens/s", l.means().mean("loss"), l.speed());
  };
  o.epoch_line = [this](const training::EpochRecord& e) { return epoch_line(e, loop.title(e)); };
  o.on_epoch = [this](const training::EpochRecord& e) {
    if (loop.best_epoch().epoch == e.epoch) remove_tuned();
    if (loop.events()) add_pictures(*loop.events(), e.steps);
  };
  return o;
}

// What `translate tune` found belongs to the weights that this epoch has replaced.
void TranslationTraining::remove_tuned() const {
  if (loop.folder().path.empty() || (loop.world() && !loop.world()->first())) return;
  loop.write([this](const training::RunFolder& here) {
    if (std::filesystem::remove(tuned_path(here)))
      training::say(fmt::format("removed {}: it belonged to earlier weights; run {} tune again",
                                tuned_path(loop.folder()), as_started("translate")),
                    loop.output());
  });
}

// Adds the attention on the first validation pairs, as in the report.
void TranslationTraining::add_pictures(training::EventWriter& events, int64_t step) {
  training::Learner::Evaluation scope(learner);
  constexpr size_t kPictures = 2;
  const std::vector<datasets::SentencePair>& pairs = corpus.valid_text;
  std::vector<std::string> sources;
  for (size_t i = 0; i < std::min(kPictures, pairs.size()); ++i) sources.push_back(pairs[i].source);
  const auto found = translate_lines(Search(model, {}), tokenizers, sources);
  for (size_t i = 0; i < sources.size(); ++i)
    add_attention(events, explain(model, tokenizers, sources[i], found[i][0]), step,
                  fmt::format("attention {}", i + 1));
}

std::optional<training::Metrics> TranslationTraining::validate() {
  training::Metrics none = {{"valid_loss", kNaN}, {"valid_ppl", kNaN}, {"valid_bleu", kNaN}};
  const int64_t pairs = std::ssize(*corpus.valid.pairs);
  if (pairs == 0) return none;
  training::Progress bar(fmt::format("validating {}/{}", loop.epoch(), loop.epochs()), "pairs",
                         2 * pairs, 0, loop.output());
  const std::optional<double> loss =
      token_loss(model, corpus.valid, until_interrupted(bar), loop.world());
  if (!loss) return std::nullopt;
  check_measured(loop, "the validation's loss", *loss);
  const auto [sources, references] = sides_of(corpus.valid_text);
  const Search greedy(model, {.log_probs = false});
  const auto translations =
      best_translations(greedy, tokenizers, sources, until_interrupted(bar, pairs), loop.world());
  if (!translations) return std::nullopt;
  const double bleu =
      datasets::corpus_bleu(*translations, references, {.lowercase = is_lowercase(config)}).score;
  return training::Metrics{
      {"valid_loss", *loss}, {"valid_ppl", std::exp(*loss)}, {"valid_bleu", bleu}};
}

namespace {

// The sentences of these pairs with their best translations, which are also stored in `found`.
std::vector<SampleTranslation> translated(const TranslationModel& model,
                                          const Tokenizers& tokenizers,
                                          const std::vector<datasets::SentencePair>& pairs,
                                          bool lowercase, Translations& found) {
  std::vector<std::string> sources;
  for (const datasets::SentencePair& p : pairs) sources.push_back(p.source);
  found = translate_lines(Search(model, {}), tokenizers, sources);
  std::vector<SampleTranslation> samples;
  for (size_t i = 0; i < pairs.size(); ++i) {
    const std::string &text = found[i][0].text, &reference = pairs[i].target;
    const double chrf =
        datasets::corpus_chrf(std::span(&text, 1), std::span(&reference, 1), {lowercase});
    samples.push_back({pairs[i].source, reference, text, chrf});
  }
  return samples;
}

}  // namespace

std::vector<size_t> evenly_by_length(const std::vector<datasets::SentencePair>& pairs,
                                     size_t count) {
  std::vector<size_t> order(pairs.size()), out;
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return pairs[a].source.size() < pairs[b].source.size();
  });
  if (pairs.size() <= count) return order;
  for (size_t k = 0; k < count; ++k)
    out.push_back(order[count == 1 ? pairs.size() / 2 : k * (pairs.size() - 1) / (count - 1)]);
  return out;
}

TranslationExamples translation_examples(const TranslationModel& model,
                                         const Tokenizers& tokenizers,
                                         const std::vector<datasets::SentencePair>& pairs,
                                         bool lowercase) {
  constexpr size_t kSearched = 200, kShown = 6, kWorst = 4;
  std::vector<datasets::SentencePair> some;
  for (const size_t i : evenly_by_length(pairs, kSearched)) some.push_back(pairs[i]);
  Translations found;
  const std::vector<SampleTranslation> all = translated(model, tokenizers, some, lowercase, found);
  TranslationExamples examples{.even = {}, .worst = {}, .searched = all.size()};
  const std::vector<size_t> shown = evenly_by_length(some, kShown);
  for (const size_t i : shown) {
    examples.even.push_back(all[i]);
    const size_t place = examples.even.size();  // pictures for two sentences of medium length
    if (place == shown.size() / 3 + 1 || place == shown.size() / 2 + 1)
      examples.even.back().attention = explain(model, tokenizers, all[i].source, found[i][0]);
  }
  if (all.size() <= kShown) return examples;  // all pairs are shown already
  examples.worst = all;
  std::stable_sort(examples.worst.begin(), examples.worst.end(),
                   [](const auto& a, const auto& b) { return a.chrf < b.chrf; });
  examples.worst.resize(std::min(kWorst, examples.worst.size()));
  return examples;
}

std::string make_report(const RunSummary& run, const TranslationExamples& examples,
                        int64_t valid_pairs) {
  std::vector<AttentionSentence> pictures;
  for (const SampleTranslation& t : examples.even)
    if (!t.attention.groups.empty()) pictures.push_back(t.attention);
  return run_page(
      run,
      {.columns = {{"train_loss"}, {"valid_loss"}, {"valid_ppl"}, {"valid_bleu"}, {"lr"}},
       .measured_on = "validation",
       .answer = {"valid_bleu", valid_pairs, "validation pairs"},
       .unit = "tokens",
       .loss = {.title = "Loss per token", .lines = {{"train_loss"}, {"valid_loss"}}, .logs = true},
       .charts = {{.title = "BLEU of the validation pairs, greedy", .lines = {{"valid_bleu"}}}},
       .sections = {{"Translations", example_tables(examples)},
                    {"Attention", pictures.empty() ? "" : attention_page(pictures)}}});
}

}  // namespace tern::apps::translate

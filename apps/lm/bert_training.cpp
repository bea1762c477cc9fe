// Training of a BERT: loss on masked words and sentence pairs, validation, sample sentences and the
// report.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "tern/apps/common/pages/board.h"
#include "tern/apps/lm/fill.h"
#include "tern/apps/lm/report.h"
#include "tern/apps/lm/score.h"
#include "tern/apps/lm/training.h"
#include "tern/core/base/error.h"
#include "tern/data/text/unicode/unicode.h"
#include "tern/models/bert_config.h"

namespace tern::apps::lm {
namespace {

constexpr int64_t kSampleSentences = 6, kSampleGuesses = 3;

double share(int64_t part, int64_t of) {
  return static_cast<double>(part) / static_cast<double>(of);
}

/// The loss of a block, scaled so that the mean over all blocks, weighted by their tokens, is the
/// batch's loss. The scale is needed because a block's shares of masked words and of pairs differ
/// from its share of tokens.
Tensor loss_of_block(const models::BertLoss& l, const datasets::BertBatch& b) {
  const int64_t words = b.words.numel(), pairs = b.next.defined() ? b.next.numel() : 0;
  if (b.whole.words == words && b.whole.pairs == pairs) return l.total;
  const double tokens = BertKind::weight(b) / static_cast<double>(b.whole.tokens);
  const Tensor masked = l.masked * (share(words, b.whole.words) / tokens);
  return pairs > 0 ? masked + l.next * (share(pairs, b.whole.pairs) / tokens) : masked;
}

/// A random piece of a sentence that begins with a letter; 0 if there is none. A masked punctuation
/// mark would show little.
size_t place_to_mask(const std::vector<int64_t>& ids, const datasets::WordPiece& pieces, Rng& rng) {
  std::vector<size_t> words;
  for (size_t i = 0; i < ids.size(); ++i) {
    size_t at = 0;
    const auto kind = datasets::classify(datasets::next_code_point(pieces.piece(ids[i]), at));
    if (kind == datasets::CharacterClass::letter) words.push_back(i);
  }
  if (words.empty()) return 0;
  return words[static_cast<size_t>(rng.below(std::ssize(words)))];
}

/// The validation text, or the training text if there is none.
const datasets::Documents& text_to_show(const BertCorpus& corpus) {
  return corpus.valid->sentences() > 0 ? *corpus.valid : *corpus.train;
}

/// Sentences spread over that text, each with one word masked.
std::vector<FilledSample> samples(const LoadedBert& bert, const BertCorpus& corpus) {
  const datasets::Documents& from = text_to_show(corpus);
  const int64_t count = std::min(kSampleSentences, from.sentences());
  const EncoderTokenizer tokenizer = encoder_tokenizer(bert.pieces);
  std::vector<FilledSample> out;
  Rng rng(0);
  for (int64_t i = 0; i < count; ++i) {
    const auto sentence = from.sentence(i * from.sentences() / count);
    std::vector<int64_t> ids(sentence.begin(), sentence.end());
    const std::string whole = bert.pieces.decode(ids);
    ids[place_to_mask(ids, bert.pieces, rng)] = bert.pieces.mask_id();
    const std::string masked = bert.pieces.decode(ids);
    ids = datasets::bert_tokens(bert.pieces, ids).tokens;
    out.push_back({masked, whole, fill_ids(bert.model, tokenizer, ids, kSampleGuesses)});
  }
  return out;
}

}  // namespace

void BertKind::take_from(TrainConfig& c) {
  const models::BertOptions o = load_bert_folder(c.from).model.options;
  check_io(o.masked_lm && o.segments == 2 && o.activation == Activation::gelu,
           "{}: training can continue only with a head for masked words, two segments and gelu",
           c.from);
  c.model.model = kBert;
  c.model.vocab = o.vocab;
  c.model.context = o.positions;
  c.model.layers = o.layers;
  c.model.dim = o.dim;
  c.model.heads = o.heads;
  c.model.ffn = o.ffn;
  c.model.eps = o.eps;
  c.model.dropout = o.dropout;
  c.model.published = models::bert_options_to_json(o);
  c.pairs = o.next_sentence;
}

models::Bert BertKind::draw(const TrainConfig& c, const BertCorpus& corpus) {
  Rng rng(c.seed);
  return {bert_sizes(c, corpus.tokenizer ? corpus.tokenizer->pad_id() : 0), rng};
}

bool BertKind::encode(TrainConfig& c, const std::string& resumed, const std::string&,
                      BertCorpus& corpus) {
  check(!resumed.empty() || c.parts == 1,
        "--parts would change nothing: an epoch of a bert is a pass over the text");
  const Texts texts = read_texts(c);
  const datasets::WordPiece pieces =
      resumed.empty() ? make_pieces(c, texts) : load_pieces({resumed});
  if (c.from.empty() && resumed.empty()) c.model.vocab = pieces.size();
  corpus = encode_documents(c, texts, pieces);
  if (resumed.empty()) note_documents(c, corpus.documents, corpus.marks);
  return corpus.valid->sentences() > 0;
}

datasets::BertBatch BertKind::largest(datasets::Loader<datasets::BertBatch>& loader) {
  datasets::BertBatch largest;
  for (datasets::BertBatch& b : loader)
    if (!largest.tokens.defined() || b.tokens.numel() > largest.tokens.numel())
      largest = std::move(b);
  return largest;
}

Tensor BertKind::loss(const models::Bert& model, const datasets::BertBatch& b, const BertCorpus&,
                      training::Means* means) {
  const models::BertLoss l = models::pretraining_loss(model, input_of(b), targets_of(b));
  auto add = [&](const char* name, const Tensor& mean, const Tensor& of) {
    const auto count = static_cast<double>(of.numel());
    means->add(name, mean.item() * count, count);
  };
  if (means) add("masked", l.masked, b.words);
  if (means && b.next.defined()) add("next", l.next, b.next);
  return loss_of_block(l, b);
}

std::optional<training::Metrics> BertKind::validate(const BertTraining& t) {
  BertScore s;
  if (t.corpus.valid->sentences() > 0) {
    datasets::BertLoaderOptions options = loader_options(t.config);
    options.shuffle = false;  // with the masks of the loader's first epoch: the same every time
    auto batches = datasets::bert_loader(t.corpus.valid, *t.corpus.tokenizer, options);
    training::Progress bar = validation_bar(t.loop, "batches", batches.batches_per_epoch());
    const auto found = score_batches(t.model, batches, until_interrupted(bar), t.loop.world());
    if (!found) return std::nullopt;
    s = *found;
    check_measured(t.loop, "the validation's loss", s.masked_nats + s.next_nats, s.loss());
  }
  return training::Metrics{
      {"valid_loss", s.loss()},      {"valid_masked", s.masked_loss()},
      {"valid_ppl", s.perplexity()}, {"valid_words", share(s.masked_right, s.masked)},
      {"valid_next", s.next_loss()}, {"valid_pairs", share(s.pairs_right, s.pairs)}};
}

std::string BertKind::losses(const training::EpochRecord& e) {
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

// Adds the attention on a validation sentence, or on a training sentence if there is none.
void BertKind::add_pictures(const BertTraining& t, training::EventWriter& events, int64_t step) {
  const auto sentence = text_to_show(t.corpus).sentence(0);
  const auto n = std::min<int64_t>(std::ssize(sentence), t.config.model.context);
  const std::vector<std::string> names(static_cast<size_t>(n));
  const Tensor tokens =
      tensor(std::vector<int64_t>(sentence.begin(), sentence.begin() + n), {1, n});
  add_attention(events, self_attention("", t.model.attend({.tokens = tokens}), names), step);
}

std::string BertKind::data_text(const BertCorpus& corpus) {
  const datasets::Documents& text = *corpus.train;
  return fmt::format(
      "{} training and {} validation tokens of {} pieces, {} documents of {} sentences",
      training::grouped(std::ssize(text.tokens)),
      training::grouped(std::ssize(corpus.valid->tokens)),
      training::grouped(corpus.tokenizer->size()), training::grouped(text.size()),
      training::grouped(text.sentences()));
}

Ending BertKind::ending(const TrainConfig&, const BertCorpus& corpus, const training::Loop& loop,
                        const RunSummary& run) {
  const LoadedBert bert = load_bert_folder(loop.folder().path);
  const training::EpochRecord& best = loop.best_epoch();
  BertReport report{.run = run, .samples = samples(bert, corpus)};
  if (!report.samples.empty())
    report.attention =
        explain(bert.model, encoder_tokenizer(bert.pieces), report.samples[0].masked);
  Ending end{.page = make_report(report),
             .attention = !report.attention.groups.empty(),
             .scores = fmt::format("valid ppl {:.2f} of masked words, {:.1f} % right",
                                   best["valid_ppl"], 100 * best["valid_words"])};
  for (const FilledSample& s : report.samples)
    end.samples.push_back(s.masked + "\n" + describe_filled(s.filled));
  return end;
}

std::string BertKind::describe(const models::Bert& model) {
  const models::BertOptions& o = model.options;
  const std::string attention = o.attention_dropout == o.dropout
                                    ? ""
                                    : fmt::format(" ({:g} in attention)", o.attention_dropout);
  return fmt::format(
      "bert, {} weights: {} layers of {} channels, {} heads, ffn {}, {} tokens at most, dropout "
      "{:g}{}{}",
      training::grouped(nn::num_parameters(model)), o.layers, o.dim, o.heads, o.ffn, o.positions,
      o.dropout, attention, o.next_sentence ? ", with the next sentence" : "");
}

}  // namespace tern::apps::lm

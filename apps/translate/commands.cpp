// The commands run, eval, tune, score, plot and shortlist of translate.

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <ostream>

#include "tern/apps/common/pages/html.h"
#include "tern/apps/common/process/standard_streams.h"
#include "tern/apps/common/training/weights_fit.h"
#include "tern/apps/translate/input.h"
#include "tern/apps/translate/program.h"
#include "tern/core/base/error.h"
#include "tern/core/base/precision.h"
#include "tern/core/io/safetensors.h"
#include "tern/data/text/lines/lines.h"
#include "tern/data/text/pairs/lexicon.h"
#include "tern/train/checkpoint.h"
#include "tern/train/progress.h"
#include "tern/train/run_lock.h"

namespace tern::apps::translate {
namespace {

constexpr size_t kLinesAtOnce = 1024;  // most waiting lines that are translated together

void write_translations(std::ostream& out, const std::vector<TranslatedText>& best, int64_t line,
                        bool n_best) {
  if (!n_best) {
    out << for_standard_output(best[0].text) << '\n';
    return;
  }
  for (const TranslatedText& t : best)
    out << fmt::format("{} ||| {} ||| {:.4f}\n", line, for_standard_output(t.text), t.score);
}

std::string search_text(const SearchOptions& s) {
  const std::string how =
      s.beam > 1 ? fmt::format("beam {}, alpha {:g}", s.beam, s.alpha) : std::string("greedy");
  const bool bf16 = matmul_precision() == MatmulPrecision::bf16;
  const std::string list = s.shortlist > 0 ? fmt::format(", shortlist {}", s.shortlist) : "";
  return how + (s.int8 ? ", int8" : s.int4 ? ", int4" : bf16 ? ", bf16" : "") + list;
}

// Search options for writing texts: scores are computed only for n-best lists, which show them.
SearchOptions for_texts(SearchOptions search) {
  search.log_probs = search.n_best > 1;
  return search;
}

// Columns of standard output. One less than the terminal has, because some terminals wrap a full
// line.
int text_width() {
  const int64_t columns = training::terminal_columns(stdout);
  return columns > 0 ? static_cast<int>(columns - 1) : 80;
}

// The pairs of `eval`, from --pairs or from two files.
std::vector<datasets::SentencePair> text_of(const TranslateFlags& f, const TrainConfig& c) {
  std::vector<datasets::SentencePair> pairs;
  if (f.pairs.empty()) {
    const auto [sources, references] = datasets::read_aligned(f.source, f.target);
    for (size_t i = 0; i < sources.size(); ++i) pairs.push_back({sources[i], references[i]});
    return pairs;
  }
  datasets::Pairs read = datasets::read_pairs_tsv(f.pairs, {.reverse = c.reverse});
  if (read.report.leaves_out()) training::say(f.pairs + ": " + read.report.summary(), stderr);
  check_io(!read.pairs.empty(), "{}: there is no pair of sentences in it", f.pairs);
  return std::move(read.pairs);
}

/// The best translations, while a bar shows the progress, and the seconds they took.
std::vector<std::string> translated(const Search& search, const Tokenizers& tokenizers,
                                    const std::vector<std::string>& sources,
                                    const std::string& about, double& seconds) {
  std::vector<std::string> out;
  training::Progress bar(about, "sentences", std::ssize(sources), 0, stderr);
  for (auto& best : translate_lines(search, tokenizers, sources, [&](int64_t done) {
         bar.update(done, "");
         return true;
       }))
    out.push_back(std::move(best[0].text));
  seconds = bar.seconds();
  return out;
}

void check_has_attention(const Translator& t) {
  check(t.config.model.model != "seq2seq", "a seq2seq model has no attention to show");
}

/// Statistics of shortlists.
struct Coverage {
  double found;   ///< share of the target tokens that are on their sentence's list
  double length;  ///< mean length of a list
};

Coverage coverage(const datasets::Lexicon& lexicon, const std::vector<datasets::EncodedPair>& pairs,
                  int64_t best) {
  int64_t found = 0, tokens = 0, length = 0;
  for (const datasets::EncodedPair& p : pairs) {
    const std::vector<int64_t> list = lexicon.candidates(p.source, best);
    for (const int64_t t : p.target) found += std::binary_search(list.begin(), list.end(), t);
    tokens += std::ssize(p.target);
    length += std::ssize(list);
  }
  return {static_cast<double>(found) / static_cast<double>(tokens),
          static_cast<double>(length) / static_cast<double>(pairs.size())};
}

}  // namespace

int run_translations(const TranslateFlags& f, int in, std::ostream& out) {
  check_attention_file(f.attention);
  Translator t = load_translator(f.model);
  const SearchOptions options = completed(for_texts(f.search), f.alpha, {f.model}, t.config);
  if (!f.attention.empty()) check_has_attention(t);
  // With --attention the model must stay: the pictures need its weights.
  const Search search =
      f.attention.empty() ? Search(std::move(t.model), options) : Search(t.model, options);
  if (isatty(in) != 0) training::say("translate: type one sentence per line; Ctrl-D ends", stderr);
  InputLines input(t, [](const std::string& note) { complain("translate: " + note); });
  LineReader reader(in);
  std::vector<AttentionSentence> pictures;
  int64_t number = 1;
  for (;;) {
    const std::vector<std::string> lines = reader.next(kLinesAtOnce);
    if (lines.empty()) break;
    const Translations found =
        input.translate(search, lines, number, f.search.n_best, {},
                        [&](const std::string& sentence, const TranslatedText& best) {
                          if (!f.attention.empty())
                            pictures.push_back(explain(t.model, t.tokenizers, sentence, best));
                        });
    for (const auto& best : found) write_translations(out, best, number++, f.search.n_best > 1);
    check_written(out);
  }
  input.finish();
  if (!f.attention.empty()) write_attention(f.attention, "Attention of " + f.model, pictures);
  return 0;
}

int evaluate_model(const TranslateFlags& f) {
  const Translator t = load_translator(f.model);
  const SearchOptions options = completed(for_texts(f.search), f.alpha, {f.model}, t.config);
  const std::vector<datasets::SentencePair> text = text_of(f, t.config);
  const auto [sources, references] = sides_of(text);
  const datasets::EncodedPairs pairs =
      datasets::encode_pairs(text, t.tokenizers.source, t.tokenizers.target);
  const datasets::BleuOptions bleu{.lowercase =
                                       f.lowercase_given ? f.lowercase : is_lowercase(t.config)};
  training::say(fmt::format("{}: {} sentences, {}", f.model, training::grouped(std::ssize(sources)),
                            search_text(options)),
                stderr);
  if (pairs.report.empty > 0) training::say("loss of " + pairs.report.summary(), stderr);
  if (!pairs.pairs->empty()) {
    const double loss = *token_loss(t.model, pairs);
    check_finite_result(training::RunFolder{f.model}.weights(), "loss of a token", loss);
    training::say(fmt::format("loss of a token {:.4f}, perplexity {:.3f}{}", loss, std::exp(loss),
                              f.search.int8 ? " (with f32 weights: --int8 changes only the search)"
                              : f.search.int4
                                  ? " (with f32 weights: --int4 changes only the search)"
                                  : ""));
  }
  double seconds = 0;
  const std::vector<std::string> translations =
      translated(Search(t.model, options), t.tokenizers, sources, "translating", seconds);
  for (size_t i = 0; i < std::min<size_t>(f.show, text.size()); ++i)
    training::say(
        sample_text({text[i].source, text[i].target, translations[i],
                     datasets::corpus_chrf(std::span(&translations[i], 1),
                                           std::span(&text[i].target, 1), {bleu.lowercase})}));
  print(score_text(translations, references, bleu));
  training::say(fmt::format("{:.1f} sentences/s", static_cast<double>(sources.size()) / seconds),
                stderr);
  return 0;
}

// The pairs that validated a model's training. Error if its files have changed since: other pairs
// would be held out, most of which the model was trained on.
std::vector<datasets::SentencePair> validation_pairs(const Translator& t,
                                                     const std::string& model) {
  PairFiles files = read_pair_files(t.config);
  const std::string path = training::RunFolder{model}.checkpoint();
  if (std::filesystem::exists(path))
    check(encode_corpus(t.config, files, t.tokenizers).checksum ==
              training::checkpoint_text(training::load_checkpoint(path), "data", path),
          "{}: its pairs have changed since the training, and so would those held out; give "
          "--source and --target, or --pairs",
          model);
  return std::move(files.valid);
}

int tune_search(const TranslateFlags& f) {
  // In tenths: steps, then half a step to both sides of the best.
  constexpr int kStep = 6, kMost = 30;
  const Translator t = load_translator(f.model);
  const training::RunLock lock(f.model);
  const bool own = f.pairs.empty() && f.source.empty();
  const std::vector<datasets::SentencePair> text =
      own ? validation_pairs(t, f.model) : text_of(f, t.config);
  check(!text.empty(), "{}: the training held no pairs out; give --source and --target, or --pairs",
        f.model);
  const Sides sides = sides_of(text);
  training::say(fmt::format("{}: {} {}, beam {}", f.model, training::grouped(std::ssize(text)),
                            own ? "pairs that validated the training" : "pairs", f.tuned_beam),
                stderr);
  const auto usual = static_cast<int>(std::lround(10 * SearchOptions().alpha));  // wins ties
  int best = usual;
  double highest = -1, lowest = 101;
  const auto measure = [&](int tenths) {
    const double alpha = tenths / 10.;
    double seconds = 0;
    const Search search(t.model, {.beam = f.tuned_beam, .alpha = alpha, .log_probs = false});
    const datasets::BleuScore bleu = datasets::corpus_bleu(
        translated(search, t.tokenizers, sides.sources, fmt::format("alpha {:g}", alpha), seconds),
        sides.references, {.lowercase = is_lowercase(t.config)});
    training::say(fmt::format(
        "alpha {:<4g} BLEU {:.2f}, {:.3f} of the references' length", alpha, bleu.score,
        static_cast<double>(bleu.hypothesis_length) / static_cast<double>(bleu.reference_length)));
    if (bleu.score > highest || (bleu.score == highest && tenths == usual))
      highest = bleu.score, best = tenths;
    lowest = std::min(lowest, bleu.score);
  };
  for (int tenths = 0; tenths <= kMost; tenths += kStep) measure(tenths);
  for (const int tenths : {best - kStep / 2, best + kStep / 2})
    if (tenths > 0) measure(tenths);
  if (lowest == highest) {
    training::say(fmt::format(
        "every alpha has the same BLEU, so nothing is written and searches keep alpha {:g}; to "
        "compare them, give more pairs with --pairs, or --source and --target",
        completed({}, {}, {f.model}, t.config).alpha));
    return 0;
  }
  Tuned found{best / 10.};
  lock.write([&](const training::RunFolder& model) {
    save_config(tuned_path(model), settings_of(found));
  });
  training::say(fmt::format("{}: alpha {:g}, for searches without --alpha", tuned_path({f.model}),
                            found.alpha));
  return 0;
}

int score_files(const TranslateFlags& f) {
  const auto [hypotheses, references] = datasets::read_aligned(f.hypotheses, f.reference);
  datasets::BleuOptions options{.lowercase = f.lowercase};
  if (f.tokenize == "char") options.tokens = datasets::BleuTokens::character;
  if (f.tokenize == "none") options.tokens = datasets::BleuTokens::none;
  print(score_text(hypotheses, references, options));
  return 0;
}

int plot_attention(const TranslateFlags& f) {
  const std::string path = f.attention.empty() ? "attention.html" : f.attention;
  std::error_code error;
  check(!f.attention.empty() || !std::filesystem::exists(path, error) || is_page_from(path),
        "{} exists and was not written by tern; choose another file with --attention", path);
  check_attention_file(path);
  const Translator t = load_translator(f.model);
  check_has_attention(t);
  const std::vector<std::string> lines = {f.sentence};
  const Search search(t.model, completed(f.search, f.alpha, {f.model}, t.config));
  const auto found = translate_lines(search, t.tokenizers, lines);
  const AttentionSentence picture = explain(t.model, t.tokenizers, f.sentence, found[0][0]);
  std::vector<AttentionGroup> shown;  // attention from the translation to the source
  for (const AttentionGroup& g : picture.groups)
    if (g.title != "Encoder" && g.title != "Decoder") shown.push_back(g);
  // Not print(), which would remove the colours; the words are already cleaned one by one.
  fmt::print("{}",
             attention_means_text(picture, shown, text_width(), training::shows_colours(stdout)));
  check(!picture.groups.empty(), "there is nothing to show: the sentence is empty");
  write_attention(path, "Attention of " + f.model, {picture});
  training::say(
      fmt::format("{}: {}", path.ends_with(".html") ? "every layer and head" : "these pictures",
                  path),
      stderr);
  return 0;
}

int learn_shortlist(const TranslateFlags& f) {
  const TrainConfig config = load_config({f.model});
  check(config.model.model == "transformer",
        "shortlist: only a transformer can use a shortlist, but {} is a {}", f.model,
        config.model.model);
  const training::RunLock lock(f.model);
  const Tokenizers tokenizers = load_tokenizers({f.model}, config);
  datasets::PairReport read;
  const datasets::EncodedPairs pairs = [&] {
    const datasets::Pairs text = datasets::read_pairs(f.source, f.target);
    read = text.report;
    return datasets::encode_pairs(text.pairs, tokenizers.source, tokenizers.target);
  }();
  for (const datasets::PairReport& report : {read, pairs.report})
    if (report.kept < report.lines) training::say(report.summary(), stderr);
  check(!pairs.pairs->empty(), "--source, --target: there is no pair with tokens on both sides");
  const auto lexicon = datasets::Lexicon::learn(
      *pairs.pairs,
      {.source_vocab = tokenizers.source.size(), .target_vocab = tokenizers.target.size()});
  lock.write([&](const training::RunFolder& model) {
    save_safetensors(lexicon_path(model), lexicon.state());
  });
  training::say(fmt::format("{}: learned from {} pairs", lexicon_path({f.model}),
                            training::grouped(std::ssize(*pairs.pairs))));
  for (const int64_t best : {10, 20, 50, 100}) {
    const Coverage c = coverage(lexicon, *pairs.pairs, best);
    training::say(fmt::format(
        "--shortlist {:<4} {:.2f} % of these pairs' words, with lists of {:.0f} words of {}", best,
        100 * c.found, c.length, tokenizers.target.size()));
  }
  return 0;
}

}  // namespace tern::apps::translate

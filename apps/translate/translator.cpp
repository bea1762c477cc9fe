// Translates and scores lines of text with a model and its tokenizers, and reads and writes the
// parts of a model folder.
#include "tern/apps/translate/translator.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "tern/apps/common/command_line/started.h"
#include "tern/apps/common/training/evaluation.h"
#include "tern/apps/common/training/folder.h"
#include "tern/apps/common/training/train_program.h"
#include "tern/apps/common/training/weights_fit.h"
#include "tern/core/base/ceil_div.h"
#include "tern/core/base/error.h"
#include "tern/core/base/reading.h"
#include "tern/core/io/safetensors.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/data/text/unicode/unicode.h"
#include "tern/dist/shared_work.h"

namespace tern::apps::translate {
namespace {

constexpr int64_t kLossTokens = 4096;  // per batch, so that it takes little memory

std::vector<std::string> pieces(const datasets::Tokenizer& tokenizer, std::vector<int64_t> ids) {
  ids.push_back(datasets::kEndId);
  std::vector<std::string> out;
  for (int64_t id : ids) out.push_back(tokenizer.piece(id));
  return out;
}

}  // namespace

Translations translate_lines(const Search& search, const Tokenizers& tokenizers,
                             std::span<const std::string> lines,
                             const TranslationProgress& progress) {
  std::vector<std::vector<int64_t>> sources;
  for (const std::string& line : lines) sources.push_back(tokenizers.source.encode(line));
  Translations out;
  for (const std::vector<decoding::Hypothesis>& found : search(sources, progress)) {
    std::vector<TranslatedText>& texts = out.emplace_back();
    for (const decoding::Hypothesis& h : found)
      texts.push_back(
          {datasets::one_line(tokenizers.target.decode(h.tokens)), h.tokens, h.log_prob, h.score});
  }
  return out;
}

AttentionSentence explain(const TranslationModel& model, const Tokenizers& t,
                          const std::string& source, const TranslatedText& translation) {
  AttentionSentence s{source, translation.text, "", {}};
  const std::vector<int64_t> ids = t.source.encode(source);
  if (ids.empty()) return s;
  const std::vector<std::string> from = pieces(t.source, ids);
  const std::vector<std::string> to = pieces(t.target, translation.tokens);
  std::vector<std::string> said = to;  // the decoder's inputs
  said.pop_back();
  said.insert(said.begin(), std::string(datasets::special_name(datasets::kBeginId)));
  model.attend(ids, translation.tokens,
               [&](const std::string& kind, int64_t layer, const Tensor& weights) {
                 record_attention(s, kind, layer, weights, kind == "Encoder" ? from : to,
                                  kind == "Decoder" ? said : from);
               });
  return s;
}

std::optional<double> token_loss(const TranslationModel& model, const datasets::EncodedPairs& pairs,
                                 const TranslationProgress& progress, dist::World* world) {
  int64_t longest = kLossTokens;
  for (const datasets::EncodedPair& p : *pairs.pairs)
    longest = std::max({longest, std::ssize(p.source) + 1, std::ssize(p.target) + 1});
  datasets::Loader<datasets::PairBatch> batches =
      datasets::pair_loader(pairs.pairs, {.batch_tokens = longest, .shuffle = false});
  NoGradGuard no_grad;
  const auto score = [&](const datasets::PairBatch& b) {
    const Tensor logits = flatten(model.logits(b), 0, 1);
    return dist::Numbers{
        cross_entropy(logits, flatten(b.target_out),
                      {.ignore_index = datasets::kPadId, .reduction = Reduction::sum})
            .item(),
        tern::sum(b.target_lengths).item()};
  };
  const auto sentences = [](const datasets::PairBatch& b) { return b.source.size(0); };
  const auto sums =
      share_batches(world, "the validation's loss", batches, progress, sentences, score);
  if (!sums) return std::nullopt;
  double sum = 0, tokens = 0;
  for (const dist::Numbers& n : *sums) sum += n[0], tokens += n[1];
  return sum / tokens;  // NaN if there are no tokens
}

std::optional<std::vector<std::string>> best_translations(const Search& search,
                                                          const Tokenizers& tokenizers,
                                                          std::span<const std::string> lines,
                                                          const TranslationProgress& progress,
                                                          dist::World* world) {
  constexpr int64_t kShared = 64;  // lines per task of a rank
  const int64_t all = std::ssize(lines), at_once = world ? kShared : std::max<int64_t>(all, 1);
  const auto texts =
      dist::share(world, "the translations", ceil_div(all, at_once),
                  [&](int64_t i) -> std::optional<std::string> {
                    const int64_t begin = i * at_once, count = std::min(at_once, all - begin);
                    std::string text;
                    const Translations found =
                        translate_lines(search, tokenizers, lines.subspan(begin, count),
                                        [&](int64_t done) { return progress(begin + done); });
                    if (found.empty()) return std::nullopt;
                    for (const auto& best : found) text += best[0].text + "\n";
                    return text;
                  });
  if (!texts) return std::nullopt;
  std::vector<std::string> best;
  for (const std::string& text : *texts) {
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) best.push_back(line);
  }
  return best;
}

std::string score_text(std::span<const std::string> hypotheses,
                       std::span<const std::string> references,
                       const datasets::BleuOptions& options) {
  const datasets::ChrfOptions chrf{.lowercase = options.lowercase};
  const auto d2l_form = [](const std::string& text) {
    return datasets::normalize(text, datasets::NormalizeOptions::d2l_form());
  };
  double d2l = 0;
  for (size_t i = 0; i < hypotheses.size(); ++i)
    d2l += datasets::d2l_bleu(d2l_form(hypotheses[i]), d2l_form(references[i]), 2);
  return fmt::format("{}\nchrF2|{} = {:.2f}\nd2l bleu (k = 2, mean over sentences) = {:.3f}\n",
                     to_string(datasets::corpus_bleu(hypotheses, references, options), options),
                     datasets::chrf_signature(chrf),
                     datasets::corpus_chrf(hypotheses, references, chrf),
                     d2l / static_cast<double>(hypotheses.size()));
}

std::string config_path(const training::RunFolder& folder) { return folder.file("config.json"); }

std::string lexicon_path(const training::RunFolder& folder) {
  return folder.file("shortlist.safetensors");
}

TrainConfig load_config(const training::RunFolder& folder) {
  return apps::load_config<TrainConfig>(config_path(folder));
}

void save_tokenizers(const training::RunFolder& folder, const TrainConfig& config,
                     const Tokenizers& t) {
  if (config.shared) return t.source.save(folder.file("vocabulary.json"));
  t.source.save(folder.file("source.json"));
  t.target.save(folder.file("target.json"));
}

Tokenizers load_tokenizers(const training::RunFolder& folder, const TrainConfig& config) {
  const auto load = [&](const char* file) { return datasets::Tokenizer::load(folder.file(file)); };
  Tokenizers t = config.shared ? Tokenizers{load("vocabulary.json"), {}}
                               : Tokenizers{load("source.json"), load("target.json")};
  if (config.shared) t.target = t.source;
  const ModelConfig& m = config.model;
  check_io(m.source_vocab == t.source.size() && m.target_vocab == t.target.size(),
           "{}: the vocabularies beside it have {} and {} tokens, but the model has {} and {}",
           config_path(folder), t.source.size(), t.target.size(), m.source_vocab, m.target_vocab);
  return t;
}

TranslationModel load_weights(const training::RunFolder& folder, const TrainConfig& config) {
  return apps::load_weights(folder.weights(), config_path(folder),
                            [&] { return TranslationModel(config); });
}

void settings(Settings& s, Tuned& t) {
  s.number("alpha", t.alpha, kAlpha, "strength of the length penalty");
}

std::string tuned_path(const training::RunFolder& folder) { return folder.file("tuned.json"); }

SearchOptions completed(SearchOptions search, std::optional<double> alpha,
                        const training::RunFolder& folder, const TrainConfig& config) {
  Tuned tuned;
  if (std::filesystem::exists(tuned_path(folder)))
    apps::load_config(tuned_path(folder), settings_of(tuned));
  search.alpha = alpha.value_or(tuned.alpha);
  if (search.shortlist == 0 || config.model.model != "transformer") return search;
  const std::string path = lexicon_path(folder);
  check_io(
      std::filesystem::exists(path),
      "--shortlist: {0} has no lexicon; learn one with {1} shortlist --model {0} --source FILE "
      "--target FILE",
      folder.path, as_started("translate"));
  const SafeTensors state = load_safetensors(path);
  search.lexicon = reading(path, [&] {
    return std::make_shared<datasets::Lexicon>(datasets::Lexicon::from_state(state));
  });
  check(search.shortlist <= search.lexicon->most(),
        "--shortlist {}: {} has at most {} translations per token", search.shortlist, path,
        search.lexicon->most());
  return search;
}

Translator load_translator(const std::string& path) {
  const training::RunFolder folder{path};
  check_folder(path, "--model " + path);
  check_first_epoch_over(folder.weights());
  const TrainConfig config = load_config(folder);
  Translator t{config, load_tokenizers(folder, config), load_weights(folder, config)};
  nn::set_training(t.model, false);
  return t;
}

}  // namespace tern::apps::translate

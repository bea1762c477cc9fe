#include "tern/apps/translate/translator.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "tern/apps/common/folder.h"
#include "tern/apps/common/new_run.h"
#include "tern/apps/common/weights_fit.h"
#include "tern/core/base/error.h"
#include "tern/core/base/shape_only.h"
#include "tern/core/io/safetensors.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/data/text/lines.h"
#include "tern/data/text/unicode.h"

namespace tern::apps::translate {
namespace {

constexpr int64_t kLossTokens = 4096;  // a batch of the validation

// A model of zeros, whose memory comes as it is loaded: numbers that are drawn first would take
// twice as much.
TranslationModel without_weights(const ModelConfig& config) {
  const ShapeOnlyScope scope;
  return TranslationModel(config, 0);
}

}  // namespace

std::vector<std::vector<TranslatedText>> translate_lines(const Search& search,
                                                         const Tokenizers& tokenizers,
                                                         std::span<const std::string> lines,
                                                         const TranslationProgress& progress) {
  std::vector<std::vector<int64_t>> sources;
  for (const std::string& line : lines) sources.push_back(tokenizers.source.encode(line));
  std::vector<std::vector<TranslatedText>> out;
  for (const std::vector<decoding::Hypothesis>& found : search(sources, progress)) {
    std::vector<TranslatedText>& texts = out.emplace_back();
    for (const decoding::Hypothesis& h : found)
      texts.push_back(
          {data::one_line(tokenizers.target.decode(h.tokens)), h.tokens, h.log_prob, h.score});
  }
  return out;
}

std::vector<std::vector<TranslatedText>> translate_lines(const TranslationModel& model,
                                                         const Tokenizers& tokenizers,
                                                         std::span<const std::string> lines,
                                                         const SearchOptions& search,
                                                         const TranslationProgress& progress) {
  return translate_lines(Search(model, search), tokenizers, lines, progress);
}

double token_loss(const TranslationModel& model, const data::EncodedPairs& pairs,
                  const TranslationProgress& progress) {
  NoGradGuard no_grad;
  int64_t longest = 1;
  for (const data::EncodedPair& p : *pairs.pairs)
    longest = std::max({longest, std::ssize(p.source) + 1, std::ssize(p.target) + 1});
  data::Loader<data::PairBatch> loader = data::pair_loader(
      pairs.pairs, {.batch_tokens = std::max(longest, kLossTokens), .shuffle = false});
  double sum = 0;
  int64_t tokens = 0, done = 0;
  for (data::PairBatch& b : loader) {
    if (progress && !progress(done)) return 0;
    const Tensor logits = model.logits(b);
    sum += cross_entropy(flatten(logits, 0, 1), flatten(b.target_out),
                         {.ignore_index = data::kPadId, .reduction = Reduction::sum})
               .item();
    tokens += tern::sum(b.target_lengths).item<int64_t>();
    done += b.source.size(0);
  }
  return sum / static_cast<double>(tokens);  // NaN where there are none
}

double d2l_score(const std::string& hypothesis, const std::string& reference) {
  const data::NormalizeOptions form = data::NormalizeOptions::d2l_form();
  return data::d2l_bleu(data::normalize(hypothesis, form), data::normalize(reference, form), 2);
}

Scores score_lines(std::span<const std::string> hypotheses, std::span<const std::string> references,
                   const data::BleuOptions& options) {
  Scores s{.bleu = data::corpus_bleu(hypotheses, references, options), .options = options};
  s.chrf = data::corpus_chrf(hypotheses, references, {.lowercase = options.lowercase});
  for (size_t i = 0; i < hypotheses.size(); ++i) s.d2l += d2l_score(hypotheses[i], references[i]);
  s.d2l /= static_cast<double>(hypotheses.size());
  return s;
}

std::string to_text(const Scores& s) {
  return fmt::format("{}\nchrF2|{} = {:.2f}\nd2l bleu (k = 2, mean over sentences) = {:.3f}\n",
                     to_string(s.bleu, s.options),
                     data::chrf_signature({.lowercase = s.options.lowercase}), s.chrf, s.d2l);
}

void save_config(const ModelFiles& files, const TrainConfig& config) {
  write_file_atomically(files.config(), to_json(config) + "\n");
}

void save_description(const ModelFiles& files, const TrainConfig& config, const Tokenizers& t) {
  std::filesystem::remove(files.config());  // the last to come: a run that has it has all
  if (config.shared) {
    t.source.save(files.vocabulary("vocabulary"));
  } else {
    t.source.save(files.vocabulary("source"));
    t.target.save(files.vocabulary("target"));
  }
  save_config(files, config);
}

TrainConfig load_config(const ModelFiles& files) {
  const std::string text = data::read_text(files.config(), {.max_bytes = 1 << 20});
  try {
    return config_from_json(text);
  } catch (const Error& e) {
    fail_io(fmt::format("{}: {}", files.config(), e.what()));
  }
}

Tokenizers load_tokenizers(const ModelFiles& files, const TrainConfig& config) {
  if (!config.shared)
    return {data::Tokenizer::load(files.vocabulary("source")),
            data::Tokenizer::load(files.vocabulary("target"))};
  data::Tokenizer both = data::Tokenizer::load(files.vocabulary("vocabulary"));
  return {both, both};
}

SearchOptions with_lexicon(SearchOptions search, const std::string& folder,
                           const TrainConfig& config) {
  if (search.shortlist == 0 || config.model.model != "transformer") return search;
  const std::string path = ModelFiles{folder}.lexicon();
  check_io(std::filesystem::exists(path),
           "--shortlist: {} has no lexicon; learn one with translate shortlist --model {} "
           "--source FILE --target FILE",
           folder, folder);
  const SafeTensors state = load_safetensors(path);
  try {
    search.lexicon = std::make_shared<data::Lexicon>(data::Lexicon::from_state(state));
  } catch (const Error& e) {
    fail_io(fmt::format("{}: {}", path, e.what()));
  }
  check(search.shortlist <= search.lexicon->most(),
        "--shortlist {}: {} has {} translations of a token at most", search.shortlist, path,
        search.lexicon->most());
  return search;
}

Translator load_translator(const std::string& folder) {
  const ModelFiles files{folder};
  check_folder(folder, "--model " + folder);
  check_first_epoch_over(files.weights());
  TrainConfig config = load_config(files);
  Tokenizers tokenizers = load_tokenizers(files, config);
  const ModelConfig& m = config.model;
  check_io(m.source_vocab == tokenizers.source.size() && m.target_vocab == tokenizers.target.size(),
           "{}: the vocabularies beside it have {} and {} tokens, the model {} and {}",
           files.config(), tokenizers.source.size(), tokenizers.target.size(), m.source_vocab,
           m.target_vocab);
  SafeTensors weights = load_safetensors(files.weights());
  check_finite_weights(files.weights(), weights.tensors);
  try {
    TranslationModel model = without_weights(m);
    nn::load_state_dict(model, weights.tensors, {.take = true});
    nn::set_training(model, false);
    return {config, std::move(tokenizers), std::move(model)};
  } catch (const Error& e) {
    fail_io(fmt::format("{}: not the weights that {} describes: {}", files.weights(),
                        files.config(), e.what()));
  }
}

}  // namespace tern::apps::translate

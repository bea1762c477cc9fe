#include "tern/apps/translate/report.h"

#include <fmt/format.h>

#include <algorithm>

#include "tern/apps/common/html.h"

namespace tern::apps::translate {
namespace {

std::string sample_table(const std::vector<SampleTranslation>& samples) {
  if (samples.empty()) return "";
  std::string s =
      "<p>Validation pairs, translated greedily with the weights that were kept.</p>\n"
      "<div class=\"scroll\"><table class=\"texts\">\n<tr><th>source</th><th>translation</th>"
      "<th>reference</th><th>d2l bleu</th></tr>\n";
  for (const SampleTranslation& t : samples)
    s += fmt::format(
        "<tr><td dir=\"auto\">{}</td><td dir=\"auto\">{}</td><td dir=\"auto\">{}</td>"
        "<td>{:.3f}</td></tr>\n",
        escape_html(t.source), escape_html(t.translation), escape_html(t.reference), t.d2l);
  return s + "</table></div>\n";
}

}  // namespace

std::vector<SampleTranslation> sample_translations(const TranslationModel& model,
                                                   const Tokenizers& tokenizers,
                                                   const std::vector<data::SentencePair>& pairs,
                                                   size_t count) {
  constexpr size_t kPictures = 2;
  std::vector<std::string> sources;
  for (size_t i = 0; i < std::min(count, pairs.size()); ++i) sources.push_back(pairs[i].source);
  const auto found = translate_lines(Search(model, {}), tokenizers, sources);
  std::vector<SampleTranslation> samples;
  for (size_t i = 0; i < sources.size(); ++i) {
    const TranslatedText& best = found[i][0];
    samples.push_back(
        {sources[i], pairs[i].target, best.text, d2l_score(best.text, pairs[i].target),
         i < kPictures ? explain(model, tokenizers, sources[i], best) : AttentionSentence{}});
  }
  return samples;
}

std::string make_report(const RunSummary& run, const std::vector<SampleTranslation>& samples) {
  std::vector<AttentionSentence> pictures;
  for (const SampleTranslation& t : samples)
    if (!t.attention.groups.empty()) pictures.push_back(t.attention);
  return run_page(
      run,
      {.columns = {{"train_loss"}, {"valid_loss"}, {"valid_ppl"}, {"valid_bleu"}, {"lr"}},
       .measured_on = "validation",
       .unit = "tokens",
       .loss = {.title = "Loss per token", .lines = {{"train_loss"}, {"valid_loss"}}, .logs = true},
       .charts = {{.title = "BLEU of the validation pairs, greedy", .lines = {{"valid_bleu"}}}},
       .sections = {{"Translations", sample_table(samples)},
                    {"Attention", pictures.empty() ? "" : attention_page(pictures)}}});
}

}  // namespace tern::apps::translate

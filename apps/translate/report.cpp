#include "tern/apps/translate/report.h"

#include <fmt/format.h>

#include <algorithm>

#include "tern/apps/common/html.h"

namespace tern::apps::translate {
namespace {

std::string curves(const RunSummary& run) {
  return run_charts(
      run,
      {.title = "Loss of a token",
       .lines = {{"train", "train_loss"}, {"validation", "valid_loss"}},
       .logs = true},
      {{.title = "BLEU of the validation pairs, greedy", .lines = {{"BLEU", "valid_bleu"}}}});
}

std::string tables(const RunSummary& run) {
  return epoch_table(run,
                     {{"train loss", "train_loss"},
                      {"valid loss", "valid_loss", 3},
                      {"perplexity", "valid_ppl", 3},
                      {"BLEU", "valid_bleu", 2},
                      {"lr", "lr", 6}},
                     "tokens") +
         settings_table(run);
}

std::string sample_table(const std::vector<SampleTranslation>& samples) {
  std::string s =
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
  std::string s = page_head(run) + "<h2>Training</h2>\n" + curves(run);
  if (!samples.empty())
    s += "<h2>Translations</h2>\n<p>Validation pairs, greedy, with the weights that were "
         "kept.</p>\n" +
         sample_table(samples);
  std::vector<AttentionSentence> pictures;
  for (const SampleTranslation& t : samples)
    if (!t.attention.groups.empty()) pictures.push_back(t.attention);
  if (!pictures.empty()) s += attention_page("Attention", pictures);
  return html_page(run.title, s + "<h2>Numbers</h2>\n" + tables(run));
}

}  // namespace tern::apps::translate

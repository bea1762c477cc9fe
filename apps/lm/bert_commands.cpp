// lm fill, and lm eval of a bert.
#include "tern/apps/lm/bert_commands.h"

#include <fmt/format.h>

#include <ostream>

#include "tern/apps/common/attention_record.h"
#include "tern/apps/common/standard_streams.h"
#include "tern/apps/lm/bert_folder.h"
#include "tern/apps/lm/bert_score.h"
#include "tern/apps/lm/bert_text.h"
#include "tern/apps/lm/bert_training.h"
#include "tern/apps/lm/fill.h"
#include "tern/core/base/error.h"
#include "tern/data/text/lines.h"
#include "tern/train/interrupt.h"
#include "tern/train/progress.h"

namespace tern::apps::lm {

int fill_gaps(const LmOptions& o, std::ostream& out) {
  if (!o.attention.empty()) check_attention_path(o.attention);
  const LoadedBert bert = load_bert_folder(o.model);
  out << for_standard_output(describe_filled(fill_text(bert, o.gaps, o.guesses))) << '\n';
  check_written(out);
  if (!o.attention.empty())
    write_attention(o.attention, "Attention of " + o.model, {explain_bert(bert, o.gaps)});
  return 0;
}

int evaluate_bert(const LmOptions& o) {
  check(o.stride == 0, "--stride would change nothing: a bert reads lines, not windows");
  const LoadedBert bert = load_bert_folder(o.model);
  const int64_t context = bert.model.options.positions;
  std::string all;
  for (const std::string& path : o.text) all += data::read_text(path) + "\n\n";
  auto text = std::make_shared<data::Documents>(documents_of(all, bert.pieces, context));
  check(text->sentences() > 0, "--text: there is no word to mask");
  train::say(describe_model(bert.model), stderr);
  train::InterruptScope signals;
  BertScore score;
  {
    const bool pairs = bert.model.options.next_sentence && has_pairs(*text);
    auto batches = data::bert_loader(text, bert.pieces,
                                     {.max_tokens = context, .pairs = pairs, .shuffle = false});
    train::Progress bar("reading", "batches", batches.batches_per_epoch(), 0, stderr);
    score = score_batches(bert.model, batches, [&](int64_t done) {
      bar.update(done);
      return !train::interrupted();
    });
  }
  if (train::interrupted()) return train::kExitInterrupted;
  print(fmt::format(
      "{} of {} masked words are right ({:.1f} %), loss of one {:.4f}, perplexity {:.3f}\n",
      train::grouped(score.masked_right), train::grouped(score.masked),
      100 * static_cast<double>(score.masked_right) / static_cast<double>(score.masked),
      score.masked_loss(), score.perplexity()));
  if (score.pairs > 0)
    print(
        fmt::format("{} of {} pairs of sentences are told apart ({:.1f} %), loss of one {:.4f}\n",
                    train::grouped(score.pairs_right), train::grouped(score.pairs),
                    100 * static_cast<double>(score.pairs_right) / static_cast<double>(score.pairs),
                    score.next_loss()));
  return 0;
}

}  // namespace tern::apps::lm

// lm generate, lm eval.
#include "tern/apps/lm/commands.h"

#include <fmt/format.h>

#include <chrono>
#include <ostream>

#include "tern/apps/common/attention_record.h"
#include "tern/apps/common/new_run.h"
#include "tern/apps/common/standard_streams.h"
#include "tern/apps/lm/bert_commands.h"
#include "tern/apps/lm/bert_folder.h"
#include "tern/apps/lm/describe.h"
#include "tern/apps/lm/folder.h"
#include "tern/apps/lm/report.h"
#include "tern/apps/lm/score.h"
#include "tern/core/base/error.h"
#include "tern/core/io/safetensors.h"
#include "tern/data/text/lines.h"
#include "tern/data/text/unicode.h"
#include "tern/train/interrupt.h"
#include "tern/train/progress.h"

namespace tern::apps::lm {

int generate_text(const LmOptions& o, std::ostream& out) {
  if (!o.attention.empty()) check_attention_path(o.attention);
  const LoadedModel m = load_folder(o.model);
  check(o.attention.empty() || m.model.has_attention(),
        "--attention: there is nothing to show, a {} has none", m.model.config().model);
  train::InterruptScope signals;
  const std::string prompt = data::replace_invalid_utf8(o.prompt);
  out << for_standard_output(prompt) << std::flush;
  const auto start = std::chrono::steady_clock::now();
  const Generated text =
      generate(m.model, m.tokenizer, prompt, o.generate, [&](std::string_view piece) {
        out << for_standard_output(piece) << std::flush;
        return out.good() && !train::interrupted();
      });
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  out << '\n' << std::flush;
  check_written(out);
  complain(fmt::format("lm: {} tokens, {:.0f} a second", text.tokens,
                       static_cast<double>(text.tokens) / seconds.count()));
  if (!o.attention.empty()) {
    const AttentionSentence picture = explain(m.model, m.tokenizer, prompt + text.text);
    check(!picture.groups.empty(), "--attention: there is nothing to show");
    write_attention(o.attention, "Attention of " + o.model, {picture});
  }
  return text.interrupted ? train::kExitInterrupted : 0;
}

int evaluate_model(const LmOptions& o) {
  check_first_epoch_over(ModelFiles{o.model}.weights());
  if (is_bert_folder(o.model)) return evaluate_bert(o);
  const LoadedModel m = load_folder(o.model);
  std::vector<std::string> texts;
  for (const std::string& path : o.text) texts.push_back(data::read_text(path));
  const EncodedTexts encoded = encode_texts(texts, m.tokenizer);
  check(encoded.tokens > 0, "--text: there is no token to predict");
  const int64_t context = m.model.config().context;
  const int64_t stride = o.stride ? o.stride : std::max<int64_t>(1, context / 2);
  check(stride <= context, "--stride {} is above the model's context of {}", stride, context);
  train::say(describe_model(m.model), stderr);
  train::InterruptScope signals;
  Score score;
  double speed = 0;
  {
    train::Progress bar("reading", "tokens", encoded.tokens, 0, stderr);
    score = score_texts(m.model, encoded, {.stride = stride}, [&](int64_t done) {
      bar.update(done);
      return !train::interrupted();
    });
    speed = bar.speed();
  }
  if (train::interrupted()) return train::kExitInterrupted;
  print(fmt::format("{} tokens of {} bytes, windows of {} with a stride of {}, {:.0f} tokens/s\n",
                    train::grouped(score.tokens), train::grouped(score.bytes), context, stride,
                    speed));
  print(fmt::format("loss of a token {:.4f}, perplexity {:.3f}, bits a byte {:.4f}\n", score.loss(),
                    score.perplexity(), score.bits_per_byte()));
  return 0;
}

}  // namespace tern::apps::lm

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
#include "tern/core/base/precision.h"
#include "tern/core/io/safetensors.h"
#include "tern/data/text/lines.h"
#include "tern/data/text/unicode.h"
#include "tern/train/interrupt.h"
#include "tern/train/progress.h"

namespace tern::apps::lm {

namespace {

std::vector<std::string> prompts_of(const LmOptions& o) {
  std::vector<std::string> prompts = o.prompts.empty() ? o.prompt : data::read_lines(o.prompts);
  check(o.prompts.empty() || !prompts.empty(), "{}: there is no prompt in it", o.prompts);
  if (prompts.empty()) prompts.emplace_back();
  for (std::string& prompt : prompts) prompt = data::replace_invalid_utf8(prompt);
  return prompts;
}

/// keep: the model is still needed.
void pack(LanguageModel& model, const LmOptions& o, bool keep) {
  check(!o.int8 || model.can_pack(), "--int8: a gpt or llama can be packed so, not a {}",
        model.config().model);
  if (!model.can_pack()) return;
  const bool bf16 = matmul_precision() == MatmulPrecision::bf16;
  model.pack(o.int8 ? PackedType::int8 : bf16 ? PackedType::bf16 : PackedType::f32, keep);
}

}  // namespace

int generate_text(const LmOptions& o, std::ostream& out) {
  if (!o.attention.empty()) check_attention_path(o.attention);
  LoadedModel m = load_folder(o.model);
  check(o.attention.empty() || m.model.has_attention(),
        "--attention: there is nothing to show, a {} has none", m.model.config().model);
  const std::vector<std::string> prompts = prompts_of(o);
  check(o.attention.empty() || prompts.size() == 1,
        "--attention shows one text, and there are {} prompts", prompts.size());
  pack(m.model, o, /*keep=*/!o.attention.empty());
  train::InterruptScope signals;
  int64_t shown = -1;
  auto begin_up_to = [&](int64_t text) {
    for (; shown < text; ++shown)
      out << (shown < 0 ? "" : "\n\n") << for_standard_output(prompts[shown + 1]) << std::flush;
  };
  begin_up_to(0);
  const auto start = std::chrono::steady_clock::now();
  const std::vector<Generated> texts = generate_all(
      m.model, m.tokenizer, prompts, o.generate, [&](int64_t text, std::string_view piece) {
        begin_up_to(text);
        out << for_standard_output(piece) << std::flush;
        return out.good() && !train::interrupted();
      });
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  int64_t tokens = 0;
  bool interrupted = false;
  for (const Generated& text : texts) {
    tokens += text.tokens;
    interrupted = interrupted || text.interrupted;
  }
  if (!interrupted) begin_up_to(std::ssize(prompts) - 1);  // those that ended at once, too
  out << '\n' << std::flush;
  check_written(out);
  complain(fmt::format("lm: {} tokens, {:.0f} a second", tokens,
                       static_cast<double>(tokens) / seconds.count()));
  if (!o.attention.empty()) {
    const AttentionSentence picture = explain(m.model, m.tokenizer, prompts[0] + texts[0].text);
    check(!picture.groups.empty(), "--attention: there is nothing to show");
    write_attention(o.attention, "Attention of " + o.model, {picture});
  }
  return interrupted ? train::kExitInterrupted : 0;
}

int evaluate_model(const LmOptions& o) {
  check_first_epoch_over(ModelFiles{o.model}.weights());
  if (is_bert_folder(o.model)) {
    check(!o.int8, "--int8: a gpt or llama can be packed so, not a {}", kBert);
    return evaluate_bert(o);
  }
  LoadedModel m = load_folder(o.model);
  std::vector<std::string> texts;
  for (const std::string& path : o.text) texts.push_back(data::read_text(path));
  const EncodedTexts encoded = encode_texts(texts, m.tokenizer);
  check(encoded.tokens > 0, "--text: there is no token to predict");
  const int64_t context = m.model.config().context;
  const int64_t stride = o.stride ? o.stride : std::max<int64_t>(1, context / 2);
  check(stride <= context, "--stride {} is above the model's context of {}", stride, context);
  train::say(describe_model(m.model), stderr);
  // In f32 large products are as fast without, and the same as in training.
  if (o.int8 || matmul_precision() == MatmulPrecision::bf16) pack(m.model, o, /*keep=*/false);
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

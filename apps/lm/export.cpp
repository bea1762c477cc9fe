// The command export of lm: the model as an ONNX file.
#include <fmt/format.h>

#include "tern/apps/lm/folder.h"
#include "tern/apps/lm/program.h"
#include "tern/core/base/error.h"
#include "tern/onnx/onnx.h"
#include "tern/train/progress.h"

namespace tern::apps::lm {
namespace {

/// Token ids (N, T) with these sizes.
Tensor example(int64_t vocab, int64_t texts, int64_t tokens) {
  Rng rng(0);
  return randint(0, vocab, {texts, tokens}, rng);
}

void say_done(const LmFlags& f, const std::string& inputs) {
  training::say(fmt::format("{} as {}: {} to logits (N, T, words)", f.model, f.out, inputs),
                stderr);
}

/// Lengths of the two examples, for a model that reads up to `context` tokens.
std::pair<int64_t, int64_t> lengths_for(const LmFlags& f, int64_t context) {
  constexpr int64_t kLeast = 4, kUsual = 11;
  check(context >= kLeast, "{}: the model reads {} tokens; an export needs {}", f.model, context,
        kLeast);
  const int64_t longer = std::min(context, kUsual);
  return {longer, longer - 2};
}

void export_bert(const LmFlags& f) {
  const LoadedBert bert = load_bert_folder(f.model);
  const models::BertOptions& o = bert.model.options;
  const auto [longer, shorter] = lengths_for(f, o.positions);
  auto fn = [&](const OnnxTensors& x) {
    const nn::Mask mask = nn::Mask::lengths(x[1]);
    return OnnxTensors{bert.model.words(bert.model.bert({.tokens = x[0], .mask = mask}))};
  };
  export_onnx(f.out, bert.model, fn,
              {{example(o.vocab, 2, longer), tensor({longer, longer - 1})},
               {example(o.vocab, 3, shorter), tensor({int64_t{1}, shorter, shorter - 1})}},
              {.inputs = {"tokens", "lengths"}, .outputs = {"logits"}});
  say_done(f, "tokens i64 (N, T) and lengths i64 (N)");
}

}  // namespace

int export_model(const LmFlags& f) {
  if (is_bert_folder(f.model)) {
    export_bert(f);
    return 0;
  }
  const LoadedModel loaded = load_folder(f.model);
  const ModelConfig& c = loaded.model.config();
  const auto [longer, shorter] = lengths_for(f, c.context);
  export_onnx(f.out, loaded.model, {{example(c.vocab, 2, longer)}, {example(c.vocab, 3, shorter)}},
              {.inputs = {"tokens"}, .outputs = {"logits"}});
  say_done(f, "tokens i64 (N, T)");
  return 0;
}

}  // namespace tern::apps::lm

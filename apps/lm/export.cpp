// The command export of lm: the model as an ONNX file.
#include <fmt/format.h>

#include "tern/apps/lm/folder.h"
#include "tern/apps/lm/program.h"
#include "tern/core/base/error.h"
#include "tern/core/tape/autograd.h"
#include "tern/models/state_tensors.h"
#include "tern/onnx/onnx_step.h"
#include "tern/train/progress.h"

namespace tern::apps::lm {
namespace {

/// Token ids (N, T) with these sizes.
Tensor example(int64_t vocab, int64_t texts, int64_t tokens) {
  Rng rng(0);
  return randint(0, vocab, {texts, tokens}, rng);
}

OnnxOptions options_of(const LmFlags& f, std::vector<std::string> inputs) {
  return {.inputs = std::move(inputs), .outputs = {"logits"}, .opset = f.opset};
}

/// The length of the longest example, for a model that reads up to `context` tokens.
int64_t longest(const LmFlags& f, int64_t context) {
  constexpr int64_t kLeast = 5, kUsual = 11;
  check(context >= kLeast, "{}: the model reads {} tokens; an export needs {}", f.model, context,
        kLeast);
  return std::min(context, kUsual);
}

std::string export_bert(const LmFlags& f) {
  check(!f.caches, "--caches: a bert reads whole texts and has none");
  const LoadedBert bert = load_bert_folder(f.model);
  const models::BertOptions& o = bert.model.options;
  const int64_t most = longest(f, o.positions);
  auto fn = [&](const OnnxTensors& x) {
    const nn::Mask mask = nn::Mask::lengths(x[1]);
    return OnnxTensors{bert.model.words(bert.model.bert({.tokens = x[0], .mask = mask}))};
  };
  return export_onnx(f.out, bert.model, fn,
                     {{example(o.vocab, 4, 2), tensor({2, 1, 1, 2})},
                      {example(o.vocab, 2, 3), tensor({3, 1})},
                      {example(o.vocab, 3, most), tensor({most, most - 1, int64_t{2}})}},
                     options_of(f, {"tokens", "lengths"}));
}

/// The next tokens of texts whose earlier tokens are in caches.
std::string export_with_caches(const LmFlags& f, const models::Gpt& gpt) {
  constexpr int64_t kLeast = 10;  // tokens in the examples
  const models::GptOptions& o = gpt.options;
  check(o.context >= kLeast, "{}: the model reads {} tokens; an export with caches needs {}",
        f.model, o.context, kLeast);
  NoGradGuard no_grad;
  auto at = [&](int64_t texts, int64_t past, int64_t tokens) {
    return OnnxStepExample<models::GptState>{{example(o.vocab, texts, tokens)},
                                             gpt.encode(example(o.vocab, texts, past))};
  };
  auto step = [&](const OnnxTensors& x, const models::GptState& state) {
    models::Gpt::Step y = gpt.extend(state, x[0]);
    return std::pair(OnnxTensors{y.logits}, y.state);
  };
  OnnxOptions options = options_of(f, {"tokens"});
  options.sizes = {"N", "T", "P"};
  return export_onnx_step(f.out, gpt, step, std::vector{at(2, 4, 2), at(3, 2, 3), at(7, 6, 4)},
                          options);
}

std::string export_gpt(const LmFlags& f) {
  const LoadedModel loaded = load_folder(f.model);
  const ModelConfig& c = loaded.model.config();
  if (f.caches) {
    check(loaded.model.gpt() != nullptr, "--caches: a {} reads whole texts and has none", c.model);
    return export_with_caches(f, *loaded.model.gpt());
  }
  return export_onnx(f.out, loaded.model,
                     {{example(c.vocab, 4, 2)},
                      {example(c.vocab, 2, 3)},
                      {example(c.vocab, 3, longest(f, c.context))}},
                     options_of(f, {"tokens"}));
}

}  // namespace

int export_model(const LmFlags& f) {
  const std::string what = is_bert_folder(f.model) ? export_bert(f) : export_gpt(f);
  training::say(fmt::format("{} as {}: {}", f.model, f.out, what), stderr);
  return 0;
}

}  // namespace tern::apps::lm

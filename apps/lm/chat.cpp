// Conversations: the text of the template, what is new of it, and the tokens that end an answer.
#include "tern/apps/lm/chat.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "tern/apps/common/command_line/started.h"
#include "tern/core/base/error.h"

namespace tern::apps::lm {
namespace {

/// Lets the tokenizer end texts at the template's end tokens, too.
const LoadedModel& with_ends(LoadedModel& model, const pretrained::ChatTemplate& format) {
  std::vector<int64_t> ends = model.tokenizer.ends();
  for (const std::string& token : format.ends())
    if (const auto id = model.tokenizer.id(token)) ends.push_back(*id);
  check(!ends.empty(), "no token of the vocabulary ends a turn of this chat template");
  model.tokenizer.set_ends(std::move(ends));
  return model;
}

/// The system text. Error if the template leaves it out, as some do with roles that they do not
/// know. (A text may be equal to the template's own default, so two texts are compared.)
const std::string& heeded(const std::string& system, const pretrained::ChatTemplate& format) {
  const auto rendered = [&](const std::string& text) {
    return format.render(std::vector<pretrained::Message>{{"system", text}, {"user", "Hello"}});
  };
  check(system.empty() || rendered(system) != rendered(system + "."),
        "--system would change nothing: this template leaves it out; say it in the first line");
  return system;
}

}  // namespace

Conversation::Conversation(LoadedModel& model, const pretrained::ChatTemplate& format,
                           const std::string& system, const GenerateOptions& options)
    : turns_({.system = heeded(system, format),
              .context = model.model.config().context,
              .answer = std::min(options.max_tokens, model.model.config().context / 2)},
             [&tokenizer = with_ends(model, format).tokenizer, format](auto messages) {
               return pretrained::encode_chat(tokenizer, format, messages);
             }),
      chat_(model.model, model.tokenizer, options) {}

Generated Conversation::answer(const std::string& text,
                               const std::function<bool(std::string_view)>& show) {
  Generated answer = chat_.reply(turns_.ask(text), show);
  turns_.answered(answer.text);
  return answer;
}

pretrained::ChatTemplate chat_template_of(const LoadedModel& model, const std::string& name) {
  pretrained::ChatTemplate::Specials specials = model.chat.further;
  if (!model.chat.begin.empty()) specials["bos_token"] = model.chat.begin;
  if (!model.chat.end.empty()) specials["eos_token"] = model.chat.end;
  if (!name.empty()) return pretrained::ChatTemplate::named(name, specials);
  check(!model.chat.jinja.empty() || model.chat.others.empty(),
        "the model has the chat templates {}, but none that is called default; choose a format "
        "with --template ({})",
        fmt::join(model.chat.others, ", "), fmt::join(pretrained::ChatTemplate::names(), ", "));
  check(!model.chat.jinja.empty(),
        "the model has no chat template; choose one with --template ({}), or continue lines with "
        "{} complete",
        fmt::join(pretrained::ChatTemplate::names(), ", "), as_started("lm"));
  return pretrained::ChatTemplate(model.chat.jinja, specials);
}

}  // namespace tern::apps::lm

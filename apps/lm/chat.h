// A conversation with a model that has a chat template.
#pragma once

#include <string>

#include "tern/apps/lm/folder.h"
#include "tern/apps/lm/generate.h"
#include "tern/pretrained/conversation.h"

namespace tern::apps::lm {

/// A conversation, whose text the template of the model makes and the model continues.
class Conversation {
 public:
  /// `system` may be empty. REQUIRES: the model outlives this object. Error: no token ends a turn
  /// of the template; the template leaves the system text out; the context has no room besides an
  /// answer of options.max_tokens.
  Conversation(LoadedModel& model, const pretrained::ChatTemplate& format,
               const std::string& system, const GenerateOptions& options);
  /// The model's answer to the user's text. If the conversation does not fit into the context, the
  /// model forgets the oldest turns, never the system text. `show`: as in generate(). Error: this
  /// turn does not fit; the template refuses the conversation.
  Generated answer(const std::string& text, const std::function<bool(std::string_view)>& show = {});
  /// Whether the model forgot turns.
  bool forgot() const { return turns_.forgotten() > 0; }

 private:
  pretrained::Conversation turns_;
  Chat chat_;
};

/// The template of the model, or the one of that name. Error, which lists the names, if the model
/// has none and no name is given.
pretrained::ChatTemplate chat_template_of(const LoadedModel& model, const std::string& name);

}  // namespace tern::apps::lm

// Language models and encoders of texts, as the program lm has them.
#include <fmt/format.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <mutex>

#include "package.h"
#include "tern/apps/lm/chat.h"
#include "tern/apps/lm/embed.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/data/text/unicode/unicode.h"

namespace tern::python {
namespace {

using apps::lm::Embedder;
using apps::lm::Generated;
using apps::lm::GenerateOptions;
using apps::lm::LoadedModel;
using Path = std::filesystem::path;

LoadedModel open(const Path& path, const std::string& weights) {
  constexpr std::array kNames = {"f32", "bf16", "int8", "int4"};  // as in PackedType
  const auto type = std::ranges::find(kNames, weights) - kNames.begin();
  check(type < std::ssize(kNames), "weights are {}, not '{}'", fmt::join(kNames, ", "), weights);
  LoadedModel m = apps::lm::load_folder_packed(path.string(), static_cast<PackedType>(type));
  check(type == 0 || m.model.is_packed(), "weights in {} need a gpt or a llama, this is a {}",
        weights, m.model.config().model);
  return m;
}

NumpyArray logits(const LoadedModel& m, const nb::object& object) {
  Tensor ids = from_object(nb::module_::import_("numpy").attr("asarray")(object));
  check(ids.ndim() == 1 || ids.ndim() == 2, "logits: ids are (T) or (B, T), not {}", ids.shape());
  return to_numpy(computed([&] {
    const NoGradGuard no_grad;
    return ids.ndim() == 2 ? m.model(ids) : select(m.model(unsqueeze(ids, 0)), 0, 0);
  }));
}

GenerateOptions sampling_of(const nb::kwargs& sampling) {
  return nb::cast<GenerateOptions>(nb::type<GenerateOptions>()(**sampling));
}

Texts generate(const LoadedModel& m, const Texts& prompts, const OnText& on_text,
               const nb::kwargs& sampling) {
  const GenerateOptions options = sampling_of(sampling);
  return each(prompts, [&](std::vector<std::string> begun) {
    check(!on_text || begun.size() == 1, "generate: on_text takes 1 prompt, not {}", begun.size());
    std::ranges::replace(begun, "", m.beginning);
    const auto found = computed(on_text, [&](const Tick& tick) {
      return apps::lm::generate_all(m.model, m.tokenizer, begun, options,
                                    [&](int64_t, std::string_view piece) { return tick(piece); });
    });
    std::vector<std::string> texts;
    for (const Generated& g : found) {
      texts.push_back(g.text);
      if (g.unread > 0)
        warn(fmt::format("the first {} tokens of a prompt were not read: the context has {}",
                         g.unread, m.model.config().context));
    }
    return texts;
  });
}

/// A conversation. Its model is a copy with the same weights, because the template adds end tokens.
struct Chat {
  Chat(const LoadedModel& m, const std::string& system, const std::string& format,
       const GenerateOptions& options)
      : model(m), turns(model, apps::lm::chat_template_of(model, format), system, options) {}
  std::string ask(const std::string& text, const OnText& on_text);

  LoadedModel model;
  apps::lm::Conversation turns;
  std::mutex busy;
};

std::string Chat::ask(const std::string& text, const OnText& on_text) {
  const std::unique_lock lock(busy, std::try_to_lock);
  check(lock.owns_lock(), "Chat.ask: the last answer is still being written");
  const bool before = turns.forgot();
  const auto answer =
      computed(on_text, [&](const Tick& tick) { return turns.answer(text, tick).text; });
  if (turns.forgot() && !before)
    warn(
        fmt::format("the conversation does not fit into the context of {} tokens; the model "
                    "forgets the oldest turns",
                    model.model.config().context));
  return answer;
}

void new_model(LoadedModel* self, const Path& path, const std::string& weights) {
  new (self) LoadedModel(computed([&] { return open(path, weights); }));
  if (!self->generation.empty())
    warn(
        fmt::format("{}/generation_config.json asks for {}; such settings are arguments of "
                    "generate() and chat()",
                    path.string(), fmt::join(self->generation, ", ")));
}

NumpyArray embed(const Embedder& encoder, const Texts& texts) {
  const auto* const one = std::get_if<std::string>(&texts);
  const auto list = one ? std::vector{*one} : std::get<std::vector<std::string>>(texts);
  const apps::lm::EmbeddedTexts found = computed({}, [&](const Tick& tick) {
    return apps::lm::embed_texts(encoder, list, [&](int64_t) { return tick(""); });
  });
  if (found.cut > 0) warn(apps::lm::cut_text(encoder, found.cut, list.size()));
  const Tensor& v = found.vectors;
  return to_numpy(one && v.defined() ? select(v, 0, 0) : v);
}

void new_sampling(GenerateOptions* self, int64_t max_tokens, double temperature, int64_t top_k,
                  double top_p, double min_p, double repetition_penalty, int64_t repetition_window,
                  std::vector<std::string> stop, uint64_t seed) {
  check(max_tokens > 0, "max_tokens must be positive, it is {}", max_tokens);
  new (self) GenerateOptions{max_tokens,         temperature,       top_k,           top_p, min_p,
                             repetition_penalty, repetition_window, std::move(stop), seed};
}

}  // namespace

void bind_language_models(nb::module_& m) {
  nb::class_<GenerateOptions>(m, "Sampling", "How generate() and chat() draw tokens, and stop.")
      .def("__init__", &new_sampling, nb::kw_only(), "max_tokens"_a = 200, "temperature"_a = 0.8,
           "top_k"_a = 0, "top_p"_a = 1.0, "min_p"_a = 0.0, "repetition_penalty"_a = 1.0,
           "repetition_window"_a = 0, "stop"_a = std::vector<std::string>(), "seed"_a = 0,
           "temperature: 0 takes the likeliest token. top_k: draw among the k likeliest; 0: all. "
           "top_p: among the fewest whose probabilities reach it. min_p: among those with this "
           "share of the likeliest one's. repetition_penalty: above 1, the last repetition_window "
           "tokens (0: all) become less likely. stop: texts that end it.");
  nb::class_<Chat>(m, "Chat", "A conversation; LanguageModel.chat() begins one.")
      .def("ask", &Chat::ask, "text"_a, "on_text"_a = nb::none(),
           "The model's answer. on_text gets it in pieces while it is written. Ctrl-C ends the "
           "answer, and the conversation can go on.");
  const auto encode = [](const LoadedModel& self, const std::string& text) {
    return self.tokenizer.encode_prompt(text);
  };
  const auto decode = [](const LoadedModel& self, const std::vector<int64_t>& ids) {
    return datasets::replace_invalid_utf8(self.tokenizer.decode(ids));
  };
  const auto chat = [](const LoadedModel& self, const std::string& system,
                       const std::string& format, const nb::kwargs& sampling) {
    return std::make_unique<Chat>(self, system, format, sampling_of(sampling));
  };
  const auto context = [](const LoadedModel& self) { return self.model.config().context; };
  nb::class_<LoadedModel>(m, "LanguageModel", "Continues texts. Threads may share a model.")
      .def(
          "__init__", &new_model, "path"_a, "weights"_a = "f32",
          "path: a folder of transformers or of lm train, or a GGUF file. weights: f32, bf16, int8 "
          "or int4.")
      .def_prop_ro("context", context, "The most tokens that the model reads at once.")
      .def("encode", encode, "text"_a, "The ids of a text, behind the tokens that begin one.")
      .def("decode", decode, "ids"_a)
      .def("logits", &logits, "ids"_a,
           "float32 (B, T, V) of ids (B, T), or (T, V) of (T), T at most the context. Those at t "
           "depend on the ids up to t.")
      .def("generate", &generate, "prompt"_a, "on_text"_a = nb::none(), "sampling"_a,
           "Continues a text, or a list of texts together. The result is without the prompt. "
           "on_text gets it in pieces while it is written. sampling: see Sampling.")
      .def("chat", chat, "system"_a = "", "template"_a = "", "sampling"_a,
           "Begins a conversation by the model's chat template, or by the one of that name. "
           "sampling: see Sampling.");
  const auto load = [](Embedder* self, const Path& folder) {
    new (self) Embedder(computed([&] { return apps::lm::load_embedder(folder.string()); }));
  };
  nb::class_<Embedder>(m, "Encoder", "Makes vectors of texts. Threads may share an encoder.")
      .def("__init__", load, "folder"_a,
           "folder: of sentence-transformers, transformers or lm train --model bert.")
      .def("embed", &embed, "texts"_a, "float32 (N, D) of a list of N texts, or (D) of a text.");
  m.def("_is_encoder", [](const Path& p) { return apps::lm::is_encoder_folder(p.string()); });
}

}  // namespace tern::python

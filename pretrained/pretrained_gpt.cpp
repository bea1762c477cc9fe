// Opens the folders of published causal language models, and loads their weights.
#include "tern/pretrained/pretrained_gpt.h"

#include <filesystem>
#include <memory>
#include <utility>

#include "tern/core/base/error.h"
#include "tern/core/base/reading.h"
#include "tern/core/io/file_kind.h"
#include "tern/core/io/json_value.h"
#include "tern/core/io/random_file.h"
#include "tern/data/text/lines/lines.h"
#include "tern/data/text/pretrained/pretrained_folder.h"
#include "tern/nn/unfilled.h"
#include "tern/pretrained/gguf_model.h"
#include "tern/pretrained/gguf_tokenizer.h"

namespace tern::pretrained {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMostConfig = 1 << 24;  // bytes of a JSON file beside the weights

std::string read_config(const std::string& path) {
  return datasets::read_text(path, {.max_bytes = kMostConfig});
}

/// Calls use(root) for the JSON object in a file, if the file exists.
template <class Use>
void with_json(const std::string& path, Use use) {
  if (!fs::exists(path)) return;
  const std::string text = read_config(path);
  reading(path, [&] { use(JsonDocument(text).root()); });
}

/// The template for conversations: a text, or a list of named ones.
void read_template(const JsonValue& given, ChatTexts& chat) {
  if (given.is_null()) return;
  if (!given.is_list()) {
    chat.jinja = given.text();
    return;
  }
  for (const JsonValue& one : given.elements())
    if (const std::string& name = one.at("name").text(); name == "default")
      chat.jinja = one.at("template").text();
    else
      chat.others.push_back(name);
}

/// transformers' classes for Llama's tokenizers have these, unless the folder says otherwise.
constexpr std::pair<const char*, const char*> kLlamaTokens[] = {
    {"bos_token", "<s>"}, {"eos_token", "</s>"}, {"unk_token", "<unk>"}};

/// The class of the tokenizer where the folder does not name it.
std::string usual_class(const std::string& family) {
  return family == "llama" || family == "mistral" || family == "phi3" ? "LlamaTokenizer" : "";
}

void read_chat(const std::string& folder, GptFiles& files) {
  std::string kind = usual_class(files.config.family);
  with_json(folder + "/tokenizer_config.json", [&](const JsonValue& j) {
    read_template(j.find("chat_template"), files.chat);
    kind = j.get("tokenizer_class", kind);
  });
  auto texts = datasets::detail::read_special_texts(folder);
  if (kind == "LlamaTokenizer" || kind == "LlamaTokenizerFast")
    for (const auto& [name, text] : kLlamaTokens)
      if (files.tokenizer.id(text)) texts.emplace(name, text);
  std::erase_if(texts, [](const auto& token) { return token.second.empty(); });
  const auto take = [&](const char* name) {
    const auto found = texts.extract(name);
    return found ? found.mapped() : std::string();
  };
  files.chat.begin = take("bos_token");
  files.chat.end = take("eos_token");
  files.chat.further = std::move(texts);
  // Newer versions of transformers write the template into a file of its own.
  const std::string path = folder + "/chat_template.jinja";
  if (fs::exists(path)) files.chat.jinja = read_config(path);
}

/// The end tokens of generation_config.json replace those of config.json, as in transformers.
/// Without either, the tokenizer's eos_token is the end. Ids beyond the model's table, such as the
/// default 50256 beside a small vocabulary, are left out: the model cannot write them.
void read_generation(const std::string& folder, GptFiles& files) {
  const std::string path = folder + "/generation_config.json";
  if (fs::exists(path))
    reading(path, [&, text = read_config(path)] {
      if (auto ends = end_tokens(text); !ends.empty()) files.config.ends = std::move(ends);
      files.generation = generation_settings(text);
    });
  std::erase_if(files.config.ends, [&](int64_t id) {
    const bool unknown = id >= files.config.options.vocab;
    if (unknown) files.unknown_ends.push_back(id);
    return unknown;
  });
  if (files.config.ends.empty())
    if (const auto end = files.tokenizer.id(files.chat.end)) files.config.ends = {*end};
  if (!files.config.ends.empty()) files.tokenizer.set_ends(files.config.ends);
}

}  // namespace

bool is_gguf(const std::string& path) {
  return fs::is_regular_file(path) &&
         file_kind(RandomFile(path).first_bytes(kFirstBytes)) == FileKind::gguf;
}

namespace {

/// A table may be larger than the vocabulary: some are padded to a round number. It may lack added
/// tokens.
void check_table(const std::string& path, const GptFiles& files) {
  const datasets::LanguageTokenizer& tokenizer = files.tokenizer;
  const int64_t known = files.config.options.vocab;
  int64_t beyond = tokenizer.size() - known;
  for (const std::string& token : tokenizer.added(/*special=*/true))
    if (tokenizer.id(token) >= known) --beyond;  // such as a pad_token that no text has
  check_io(beyond <= 0, "{}: the tokenizer has {} tokens, but the model knows {}", path,
           tokenizer.size(), known);
}

GptFiles open_gguf(const std::string& path) {
  const GgufFile file(path);
  return reading(path, [&] {
    const std::string config = gguf_config(file);
    GptFiles files{.config_json = config,
                   .config = read_gpt_config(config),
                   .tokenizer = datasets::PretrainedTokenizer::parse(gguf_tokenizer(file)),
                   .chat = gguf_chat(file)};
    check_table(path, files);
    if (!files.config.ends.empty()) files.tokenizer.set_ends(files.config.ends);
    return files;
  });
}

}  // namespace

GptFiles open_gpt(const std::string& path) {
  if (is_gguf(path)) return open_gguf(path);
  const std::string config = path + "/config.json";
  check_io(fs::exists(config), "{}: it has no config.json; is it the folder of a model?", path);
  return open_gpt(path, read_config(config));
}

GptFiles open_gpt(const std::string& path, const std::string& config_json) {
  GptFiles files{
      .config_json = config_json,
      .config = reading(path + "/config.json", [&] { return read_gpt_config(config_json); }),
      .tokenizer = datasets::LanguageTokenizer::load(path),
      .chat = {}};
  check_table(path, files);
  read_chat(path, files);
  reading(path, [&] { read_generation(path, files); });
  return files;
}

std::string weights_path(const std::string& path) {
  return is_gguf(path) ? path : find_weights(path);
}

void load_weights(const std::string& weights_path, models::Gpt& model) {
  if (!is_gguf(weights_path)) return models::load_gpt_weights(weights_path, model);
  reading(weights_path,
          [&] { models::load_gpt_state(load_gguf_weights(GgufFile(weights_path)), model); });
}

TensorSource open_weights(const std::string& path) {
  if (!is_gguf(path)) return open_tensors(path);
  return reading(path, [&] { return open_gguf_weights(std::make_shared<const GgufFile>(path)); });
}

Pretrained load_pretrained(const std::string& path) {
  GptFiles files = open_gpt(path);
  Rng rng(0);
  models::Gpt model = nn::unfilled(
      [&] { return reading(path, [&] { return models::Gpt(files.config.options, rng); }); });
  load_weights(weights_path(path), model);
  nn::set_training(model, false);
  return {std::move(files), std::move(model)};
}

}  // namespace tern::pretrained

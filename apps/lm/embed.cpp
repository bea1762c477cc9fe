// Reads the folders of sentence-transformers, cuts texts to the model's length, and makes vectors.
#include "tern/apps/lm/embed.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "tern/apps/common/training/folder.h"
#include "tern/apps/common/training/weights_fit.h"
#include "tern/apps/lm/folder.h"
#include "tern/core/base/reading.h"
#include "tern/core/io/json_value.h"
#include "tern/data/text/unicode/unicode.h"
#include "tern/train/progress.h"

namespace tern::apps::lm {
namespace {

namespace fs = std::filesystem;

/// Calls read(root) with the JSON of folder/name, if the file is there. Members that it does not
/// read may change the vectors: they are an error.
template <class Read>
bool read_json(const std::string& folder, const std::string& name, Read read) {
  const std::string path = (fs::path(folder) / name).string();
  std::error_code error;
  if (!fs::exists(path, error)) return false;
  const std::string text = read_small_file(path);
  reading(path, [&] {
    const JsonDocument file(text);
    read(file.root());
    file.refuse_unread();
  });
  return true;
}

void read_pooling(const JsonValue& j, EmbedRecipe& recipe) {
  using models::Pooling;
  j.ignore("word_embedding_dimension embedding_dimension");
  recipe.pools_prompt = j.get("include_prompt", true);
  std::vector<Pooling> chosen;
  for (const auto& [key, pooling] : {std::pair("pooling_mode_mean_tokens", Pooling::mean),
                                     {"pooling_mode_cls_token", Pooling::first},
                                     {"pooling_mode_lasttoken", Pooling::last},
                                     {"pooling_mode_max_tokens", Pooling::max}})
    if (j.get(key, false)) chosen.push_back(pooling);
  for (const char* key : {"pooling_mode_mean_sqrt_len_tokens", "pooling_mode_weightedmean_tokens"})
    if (j.get(key, false)) j.find(key).fail("tern has no such pooling");
  check(chosen.size() == 1, "{} kinds of pooling are chosen; one is needed", chosen.size());
  recipe.pooling = chosen[0];
}

void read_modules(const std::string& folder, const JsonValue& modules, EmbedRecipe& recipe) {
  recipe.normalise = false;
  bool pooled = false;
  for (const JsonValue& module : modules.elements()) {
    module.ignore("idx name kwargs");
    const std::string& type = module.at("type").text();
    const std::string path = module.get("path", ""), kind = type.substr(type.rfind('.') + 1);
    if (kind == "Pooling") {
      check(path.find("..") == path.npos && !path.starts_with('/'), "'{}' is not in the folder",
            path);
      pooled = read_json(folder, path + "/config.json",
                         [&](const JsonValue& j) { read_pooling(j, recipe); });
      check(pooled, "there is no {}/config.json", path);
    } else if (kind == "Normalize") {
      recipe.normalise = true;
    } else {
      if (kind != "Transformer") module.at("type").fail("tern has no such layer: " + type);
      if (!path.empty()) module.at("path").fail("the model must be in the folder itself");
    }
  }
  check(pooled, "no Pooling is in it");
}

/// The length of texts. sentence-transformers takes the first of these files that is there: older
/// folders name it after their model.
void read_length(const std::string& folder, EmbedRecipe& recipe) {
  for (const char* name : {"sentence_bert_config.json", "sentence_roberta_config.json",
                           "sentence_distilbert_config.json", "sentence_camembert_config.json",
                           "sentence_albert_config.json", "sentence_xlm-roberta_config.json",
                           "sentence_xlnet_config.json"}) {
    const bool found = read_json(folder, name, [&](const JsonValue& j) {
      if (const JsonValue length = j.find("max_seq_length"); !length.is_null())
        recipe.max_tokens = length.integer(1);
      if (j.get("do_lower_case", false))
        j.find("do_lower_case").fail("tern changes no letters before the tokenizer");
    });
    if (found) return;
  }
}

void read_prompts(const JsonValue& j, EmbedRecipe& recipe) {
  j.ignore("__version__ model_type similarity_fn_name");
  const std::string name = j.get("default_prompt_name", "");
  const JsonValue prompts = j.find("prompts");
  if (!name.empty()) recipe.prompt = prompts.at(name).text();
  if (!recipe.prompt.empty() && !recipe.pools_prompt)
    prompts.at(name).fail("the Pooling leaves this text out (include_prompt); tern cannot");
  j.ignore("prompts");
}

/// The number of tokens that the tokenizer's own file allows; nothing if it says none.
std::optional<int64_t> tokenizer_length(const std::string& folder) {
  const std::string path = ModelFiles{folder}.tokenizer_config();
  std::error_code error;
  if (!fs::exists(path, error)) return {};
  return reading(path, [&]() -> std::optional<int64_t> {
    const JsonDocument file(read_small_file(path));
    const double length = file.root().get("model_max_length", 1e30);  // 1e30: no limit
    check(length >= 1, "model_max_length is {}", length);
    if (length > 1e9) return {};
    return static_cast<int64_t>(length);
  });
}

/// From tokenizer.json, or else from vocab.txt. IoError: its vocabulary is larger than `known`.
Encoder load_encoder(const std::string& folder, int64_t max_tokens, int64_t known) {
  const auto whole = load_encoder_tokenizer(folder, known).encode;
  // The special tokens behind a text stay when its end is left out.
  const std::vector<int64_t> none = whole(""), one = whole("a");
  const auto [left, right] = std::ranges::mismatch(none, one);
  const int64_t behind = none.end() - left;
  check_io(max_tokens > std::ssize(none), "{}: texts of {} tokens leave no room for words", folder,
           max_tokens);
  return [whole, behind, max_tokens](const std::string& text, int64_t& cut) {
    std::vector<int64_t> ids = whole(text);
    if (std::ssize(ids) > max_tokens) {
      ids.erase(ids.begin() + (max_tokens - behind), ids.end() - behind);
      ++cut;
    }
    return ids;
  };
}

}  // namespace

EmbedRecipe read_recipe(const std::string& folder) {
  EmbedRecipe recipe;
  recipe.found = read_json(folder, "modules.json", [&](const JsonValue& modules) {
    read_modules(folder, modules, recipe);
  });
  read_length(folder, recipe);
  read_json(folder, "config_sentence_transformers.json",
            [&](const JsonValue& j) { read_prompts(j, recipe); });
  if (!recipe.max_tokens) recipe.max_tokens = tokenizer_length(folder);
  return recipe;
}

Embedder load_embedder(const std::string& folder) {
  check_folder(folder, folder);
  const ModelFiles files{folder};
  check_first_epoch_over(files.weights());
  EmbedRecipe recipe = read_recipe(folder);
  Rng rng(0);
  models::BertFileReport report;
  models::Bert model = models::load_bert_encoder(files.weights(), rng, {}, &report);
  check_finite_weights(files.weights(), nn::named_parameters(model));
  say_unknown(files.foreign_config(), report.unknown);
  if (!report.unused.empty())
    training::say(fmt::format("{}: not used: {}", files.weights(), fmt::join(report.unused, ", ")),
                  stderr);
  const int64_t positions = model.options.positions;
  const int64_t max_tokens = std::min(recipe.max_tokens.value_or(positions), positions);
  Encoder encode = load_encoder(folder, max_tokens, model.options.vocab);
  return {std::move(recipe), max_tokens, std::move(encode), std::move(model)};
}

EmbeddedTexts embed_texts(const Embedder& e, std::span<const std::string> texts,
                          const std::function<bool(int64_t)>& progress) {
  EmbeddedTexts out;
  std::vector<std::vector<int64_t>> ids;
  for (const std::string& text : texts)  // spaces around a text do not count
    ids.push_back(e.encode(std::string(datasets::strip_spaces(e.recipe.prompt + text)), out.cut));
  out.vectors = models::embed(
      e.model, ids,
      {.pooling = e.recipe.pooling, .normalise = e.recipe.normalise, .progress = progress});
  return out;
}

std::string assumed_text(const EmbedRecipe& recipe, bool pooling, bool normalise) {
  std::vector<std::string> assumed;
  if (!recipe.found && pooling) assumed.emplace_back("is the mean of the last states (--pooling)");
  if (!recipe.found && normalise) assumed.emplace_back("has length 1 (--normalise)");
  if (assumed.empty()) return "";
  return fmt::format("there is no modules.json; a vector {}", fmt::join(assumed, " and "));
}

std::string cut_text(const Embedder& e, int64_t cut, size_t texts) {
  return fmt::format("{} of {} texts {} more than {} tokens; {} left out", training::grouped(cut),
                     training::grouped(static_cast<int64_t>(texts)), cut == 1 ? "has" : "have",
                     e.max_tokens, cut == 1 ? "its end was" : "their ends were");
}

std::string json_lines(const Tensor& vectors) {
  std::string lines;
  const std::vector<float> values = vectors.to_vector<float>();
  const auto dim = static_cast<size_t>(vectors.size(1));
  for (size_t i = 0; i < values.size(); i += dim)
    lines += fmt::format("[{}]\n", fmt::join(std::span(values).subspan(i, dim), ", "));
  return lines;
}

}  // namespace tern::apps::lm

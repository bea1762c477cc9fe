#include "tern/apps/lm/folder.h"

#include <fmt/format.h>

#include <filesystem>

#include "tern/apps/common/folder.h"
#include "tern/apps/common/new_run.h"
#include "tern/apps/lm/corpus.h"
#include "tern/apps/lm/transformers_config.h"
#include "tern/core/base/error.h"
#include "tern/core/io/safetensors.h"
#include "tern/data/text/lines.h"

namespace tern::apps::lm {
namespace {

/// parse(text of the file), whose errors become those of the file.
template <class Parse>
auto parsed(const std::string& path, Parse parse) {
  const std::string text = data::read_text(path, {.max_bytes = 1 << 24});
  try {
    return parse(text);
  } catch (const Error& e) {
    fail_io(fmt::format("{}: {}", path, e.what()));
  }
}

}  // namespace

void save_config(const ModelFiles& files, const TrainConfig& config) {
  write_file_atomically(files.config(), to_json(config) + "\n");
}

void save_description(const ModelFiles& files, const TrainConfig& config,
                      const data::ByteBpe& tokenizer) {
  std::filesystem::remove(files.config());  // the last to come: a run that has it has all
  tokenizer.save(files.vocabulary(), files.merges());
  if (const auto foreign = sizes_to_transformers(config.model, tokenizer.id(kEndOfText)))
    write_file_atomically(files.foreign_config(), *foreign);
  save_config(files, config);
}

TrainConfig load_config(const ModelFiles& files) {
  return parsed(files.config(), config_from_json);
}

data::ByteBpe load_tokenizer(const ModelFiles& files) {
  return data::ByteBpe::load(files.vocabulary(), files.merges());
}

ModelConfig load_sizes(const ModelFiles& files) {
  check_folder(files.folder, files.folder);
  if (std::filesystem::exists(files.config())) return load_config(files).model;
  check_io(std::filesystem::exists(files.foreign_config()),
           "{}: it holds neither lm.json nor config.json", files.folder);
  return parsed(files.foreign_config(), sizes_from_transformers);
}

LoadedModel load_folder(const std::string& folder) {
  const ModelFiles files{folder};
  check_first_epoch_over(files.weights());
  const ModelConfig sizes = load_sizes(files);
  check_io(sizes.model != kBert, "{}: a {} does not go on with texts, it fills gaps: lm fill",
           folder, sizes.model);
  data::ByteBpe tokenizer = load_tokenizer(files);
  // A table of embeddings may be longer than the vocabulary: some are filled up to a round number.
  check_io(tokenizer.size() <= sizes.vocab, "{}: there are {} tokens, the model knows {}",
           files.vocabulary(), tokenizer.size(), sizes.vocab);
  return {std::move(tokenizer), load_model(sizes, files.weights())};
}

}  // namespace tern::apps::lm

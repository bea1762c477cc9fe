// Writes and reads model folders of lm, and reads those of transformers.
#include "tern/apps/lm/folder.h"

#include <fmt/format.h>

#include <filesystem>

#include "tern/apps/common/training/folder.h"
#include "tern/apps/common/training/train_program.h"
#include "tern/apps/common/training/weights_fit.h"
#include "tern/apps/lm/transformers_config.h"
#include "tern/core/base/error.h"
#include "tern/core/base/reading.h"
#include "tern/core/io/safetensors.h"
#include "tern/data/text/lines/lines.h"
#include "tern/train/progress.h"

namespace tern::apps::lm {
namespace {

/// Calls parse(text of the file, unknown). Prints a message about members that tern does not know.
template <class Parse>
auto parsed(const std::string& path, Parse parse) {
  const std::string text = datasets::read_text(path, {.max_bytes = 1 << 24});
  Unknown unknown;
  auto result = reading(path, [&] { return parse(text, &unknown); });
  if (!unknown.empty())
    training::say(fmt::format("{}: tern does not know {}; if {} what the model computes, the "
                              "results are wrong",
                              path, fmt::join(unknown, ", "),
                              unknown.size() == 1 ? "it changes" : "they change"),
                  stderr);
  return result;
}

/// Whether the folder has lm.json. Error if it has neither lm.json nor config.json.
bool is_ours(const ModelFiles& files) {
  check_folder(files.folder, files.folder);
  if (std::filesystem::exists(files.config())) return true;
  check_io(std::filesystem::exists(files.foreign_config()),
           "{}: it holds neither lm.json nor config.json; is it the folder of a run, or of a model "
           "from transformers?",
           files.folder);
  return false;
}

/// IoError if the vocabulary is larger than the embedding table. The table may be larger: some are
/// padded to a round number.
void check_known(const std::string& path, int64_t tokens, const char* what, int64_t known) {
  check_io(tokens <= known, "{}: there are {} {}, but the model knows {}", path, tokens, what,
           known);
}

}  // namespace

models::BertOptions bert_sizes(const TrainConfig& c, int64_t pad) {
  const ModelConfig& m = c.model;
  return {.vocab = m.vocab,
          .dim = m.dim,
          .layers = m.layers,
          .heads = m.heads,
          .ffn = m.ffn ? m.ffn : 4 * m.dim,
          .positions = m.context,
          .dropout = m.dropout,
          .attention_dropout = m.dropout,
          .eps = m.eps,
          .pad = pad,
          .next_sentence = c.pairs,
          .recompute = nn::recompute_named(c.memory_use.recompute)};
}

void save_description(const ModelFiles& files, const TrainConfig& config, const Corpus& corpus) {
  const datasets::ByteBpe& tokenizer = corpus.tokenizer;
  std::filesystem::remove(files.config());
  tokenizer.save(files.vocabulary(), files.merges());
  corpus.file.keep(files.tokens());
  if (const auto foreign = sizes_to_transformers(config.model, tokenizer.id(kEndOfText)))
    write_file_atomically(files.foreign_config(), *foreign);
}

void save_description(const ModelFiles& files, const TrainConfig& c, const BertCorpus& corpus) {
  const datasets::WordPiece& pieces = *corpus.tokenizer;
  std::filesystem::remove(files.config());
  pieces.save(files.pieces());
  write_file_atomically(files.tokenizer_config(),
                        pieces_to_transformers(pieces.options(), c.model.context));
  write_file_atomically(files.foreign_config(),
                        bert_to_transformers(bert_sizes(c, pieces.pad_id())));
}

TrainConfig load_config(const ModelFiles& files) {
  TrainConfig c;
  apps::load_config(files.config(), settings_of(c), [&] { check_config(c); });
  return c;
}

datasets::ByteBpe load_tokenizer(const ModelFiles& files) {
  return datasets::ByteBpe::load(files.vocabulary(), files.merges());
}

datasets::WordPiece load_pieces(const ModelFiles& files) {
  const std::string config = files.tokenizer_config();
  return datasets::WordPiece::load(files.pieces(), std::filesystem::exists(config)
                                                       ? parsed(config, pieces_from_transformers)
                                                       : datasets::WordPieceOptions{});
}

ModelConfig load_sizes(const ModelFiles& files) {
  return is_ours(files) ? load_config(files).model
                        : parsed(files.foreign_config(), sizes_from_transformers);
}

bool is_bert_folder(const std::string& folder) {
  const ModelFiles files{folder};
  return kBert == (is_ours(files)
                       ? load_config(files).model.model
                       : parsed(files.foreign_config(), [](const std::string& text, Unknown*) {
                           return transformers_model(text);
                         }));
}

LoadedModel load_folder(const std::string& folder) {
  const ModelFiles files{folder};
  check_first_epoch_over(files.weights());
  const ModelConfig sizes = load_sizes(files);
  check_io(sizes.model != kBert, "{}: a {} does not continue texts; it fills gaps: lm fill", folder,
           sizes.model);
  datasets::ByteBpe tokenizer = load_tokenizer(files);
  check_known(files.vocabulary(), tokenizer.size(), "tokens", sizes.vocab);
  return {std::move(tokenizer), load_model(sizes, files.weights())};
}

LoadedBert load_bert_folder(const std::string& folder) {
  const ModelFiles files{folder};
  check_first_epoch_over(files.weights());
  check_io(is_bert_folder(folder), "{}: this is not a BERT; lm fill needs one", folder);
  const models::BertOptions rest = parsed(files.foreign_config(), bert_from_transformers);
  datasets::WordPiece pieces = load_pieces(files);
  models::Bert model = reading(files.foreign_config(), [&] {  // error: heads must divide channels
    Rng rng(0);
    return models::load_bert(files.weights(), rng, rest);
  });
  check_finite_weights(files.weights(), nn::named_parameters(model));
  check_known(files.pieces(), pieces.size(), "pieces", model.options.vocab);
  nn::set_training(model, false);
  return {std::move(pieces), std::move(model)};
}

}  // namespace tern::apps::lm

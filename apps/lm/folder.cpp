// Writes and reads model folders of lm, and reads those of transformers.
#include "tern/apps/lm/folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tern/apps/common/command_line/started.h"
#include "tern/apps/common/training/folder.h"
#include "tern/apps/common/training/train_program.h"
#include "tern/apps/common/training/weights_fit.h"
#include "tern/apps/lm/transformers_config.h"
#include "tern/core/base/error.h"
#include "tern/core/base/reading.h"
#include "tern/core/io/safetensors.h"
#include "tern/data/text/lines/lines.h"
#include "tern/models/bert_config.h"
#include "tern/train/progress.h"

namespace tern::apps::lm {

void say_unknown(const std::string& path, const Unknown& unknown) {
  if (!unknown.empty())
    training::say(fmt::format("{}: tern does not know {}; if {} what the model computes, the "
                              "results are wrong",
                              path, fmt::join(unknown, ", "),
                              unknown.size() == 1 ? "it changes" : "they change"),
                  stderr);
}

namespace {

std::string small_text(const std::string& path) {
  return datasets::read_text(path, {.max_bytes = 1 << 24});
}

/// Calls parse(text of the file, unknown).
template <class Parse>
auto parsed(const std::string& path, Parse parse) {
  const std::string text = small_text(path);
  Unknown unknown;
  auto result = reading(path, [&] { return parse(text, &unknown); });
  say_unknown(path, unknown);
  return result;
}

pretrained::GptFiles open_published(const ModelFiles& files) {
  pretrained::GptFiles published = pretrained::open_gpt(files.folder);
  say_unknown(pretrained::is_gguf(files.folder) ? files.folder : files.foreign_config(),
              published.config.unknown);
  if (!published.unknown_ends.empty())
    training::say(fmt::format("{}: eos_token_id names {}, beyond the vocabulary of {}: the model "
                              "cannot end a text by it",
                              files.folder, fmt::join(published.unknown_ends, ", "),
                              published.config.options.vocab),
                  stderr);
  check_sizes(sizes_of(published));
  return published;
}

/// Whether the folder has lm.json. Error if it has neither lm.json nor config.json.
bool is_ours(const ModelFiles& files) {
  if (pretrained::is_gguf(files.folder)) return false;
  check_folder(files.folder, files.folder);
  if (std::filesystem::exists(files.config())) return true;
  check_io(std::filesystem::exists(files.foreign_config()),
           "{}: it holds neither lm.json nor config.json; is it the folder of a run, or of a model "
           "from transformers?",
           files.folder);
  return false;
}

/// IoError if the vocabulary is larger than the embedding table.
void check_known(const std::string& path, int64_t tokens, const char* what, int64_t known) {
  check_io(tokens <= known, "{}: there are {} {}, but the model knows {}", path, tokens, what,
           known);
}

/// config.json, if transformers has the family, and what AutoTokenizer needs beside tokenizer.json.
void save_own_config(const ModelFiles& files, const ModelConfig& sizes,
                     const datasets::LanguageTokenizer& tokenizer) {
  const bool gpt = sizes.model == "gpt" || sizes.model == "llama";
  const auto config =
      gpt ? pretrained::write_gpt_config(gpt_options(sizes), tokenizer.boundary()) : std::nullopt;
  if (!config) return;
  write_file_atomically(files.foreign_config(), *config);
  nlohmann::json j = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                      {"model_max_length", sizes.context}};
  if (const auto boundary = tokenizer.boundary())
    j["bos_token"] = j["eos_token"] = tokenizer.decode({{*boundary}});
  write_file_atomically(files.tokenizer_config(), j.dump(2) + "\n");
}

/// Ends texts at the token that training puts in front of each document, too: the model has learned
/// to write it behind one.
void end_at_boundary(datasets::LanguageTokenizer& tokenizer) {
  const std::optional<int64_t> boundary = tokenizer.boundary();
  if (!boundary || tokenizer.is_end(*boundary)) return;
  std::vector<int64_t> ends = tokenizer.ends();
  ends.push_back(*boundary);
  tokenizer.set_ends(std::move(ends));
}

/// The text of a config.json or generation_config.json, with the boundary among its end tokens.
std::string ending_at_boundary(const std::string& text, const datasets::LanguageTokenizer& from) {
  const std::vector<int64_t> ends = pretrained::end_tokens(text);
  const std::optional<int64_t> boundary = from.boundary();
  const bool knows = !boundary || std::ranges::count(ends, *boundary) > 0;
  return knows ? text : pretrained::with_ends(text, from.ends());
}

/// The files beside the weights of the published model that a run starts from. transformers takes
/// the end tokens from generation_config.json, or without it from config.json.
void copy_published(const TrainConfig& config, const std::string& folder) {
  namespace fs = std::filesystem;
  pretrained::GptFiles from = pretrained::open_gpt(config.from);
  end_at_boundary(from.tokenizer);
  const std::string ends = fs::exists(config.from + "/generation_config.json")
                               ? "generation_config.json"
                               : "config.json";
  const auto write = [&](const std::string& name, const std::string& text) {
    write_file_atomically(folder + "/" + name,
                          name == ends ? ending_at_boundary(text, from.tokenizer) : text);
  };
  write("config.json", config.model.published);
  if (pretrained::is_gguf(config.from)) {  // one file instead of those
    nlohmann::json j = {{"tokenizer_class", "PreTrainedTokenizerFast"}};
    for (const auto& [key, text] : {std::pair("chat_template", from.chat.jinja),
                                    {"bos_token", from.chat.begin},
                                    {"eos_token", from.chat.end}})
      if (!text.empty()) j[key] = text;
    return write("tokenizer_config.json", j.dump(2) + "\n");
  }
  for (const std::string name : {"generation_config.json", "tokenizer_config.json",
                                 "special_tokens_map.json", "chat_template.jinja"})
    if (const std::string path = config.from + "/" + name; fs::exists(path))
      write(name, small_text(path));
}

}  // namespace

models::BertOptions bert_sizes(const TrainConfig& c, int64_t pad) {
  const ModelConfig& m = c.model;
  const double attention = m.published.empty()
                               ? m.dropout
                               : models::bert_options_from_json(m.published).attention_dropout;
  return {.vocab = m.vocab,
          .dim = m.dim,
          .layers = m.layers,
          .heads = m.heads,
          .ffn = m.ffn ? m.ffn : 4 * m.dim,
          .positions = m.context,
          .dropout = m.dropout,
          .attention_dropout = attention,
          .eps = m.eps,
          .pad = pad,
          .next_sentence = c.pairs,
          .recompute = nn::recompute_named(c.memory_use.recompute)};
}

void save_description(const ModelFiles& files, const TrainConfig& config, const Corpus& corpus) {
  std::filesystem::remove(files.config());
  corpus.tokenizer.save(files.folder);
  corpus.file.keep(files.tokens());
  if (config.model.published.empty()) return save_own_config(files, config.model, corpus.tokenizer);
  copy_published(config, files.folder);
}

void save_description(const ModelFiles& files, const TrainConfig& c, const BertCorpus& corpus) {
  const datasets::WordPiece& pieces = *corpus.tokenizer;
  std::filesystem::remove(files.config());
  pieces.save(files.pieces());
  write_file_atomically(files.tokenizer_config(),
                        pieces_to_transformers(pieces.options(), c.model.context));
  write_file_atomically(files.foreign_config(),
                        models::bert_options_to_json(bert_sizes(c, pieces.pad_id())));
}

TrainConfig load_config(const ModelFiles& files) {
  return apps::load_config<TrainConfig>(files.config());
}

datasets::LanguageTokenizer load_tokenizer(const ModelFiles& files) {
  if (pretrained::is_gguf(files.folder)) return open_published(files).tokenizer;
  if (!std::filesystem::exists(files.config()))
    return datasets::LanguageTokenizer::load(files.folder);
  // A tokenizer that lm learned never finds its special tokens in a text.
  const TrainConfig run = load_config(files);
  if (run.model.published.empty() && !run.published_tokenizer)
    return datasets::ByteBpe::load(files.vocabulary(), files.merges());
  datasets::LanguageTokenizer published = datasets::LanguageTokenizer::load(files.folder);
  end_at_boundary(published);
  return published;
}

namespace {

/// IoError if tokenizer_config.json contradicts tokenizer.json, which is there.
void check_files_agree(const ModelFiles& files) {
  const std::string config = files.tokenizer_config(), model = files.foreign_config();
  if (!std::filesystem::exists(config)) return;
  reading(config, [&] {
    check_normalizer(small_text(config), std::filesystem::exists(model) ? small_text(model) : "{}",
                     datasets::read_text(files.folder + "/tokenizer.json"));
  });
}

/// IoError with the file: it adds tokens to vocab.txt.
void check_nothing_added(const ModelFiles& files, const datasets::WordPiece& pieces) {
  namespace fs = std::filesystem;
  const std::string config = files.tokenizer_config(), ids = files.folder + "/added_tokens.json";
  const auto decoder = [&](const std::string& text, Unknown*) {
    return refuse_added_pieces(text, pieces);
  };
  if (fs::exists(config) && parsed(config, decoder)) return;
  if (fs::exists(ids)) reading(ids, [&] { refuse_added_ids(small_text(ids), pieces); });
}

}  // namespace

datasets::WordPiece load_pieces(const ModelFiles& files) {
  const std::string config = files.tokenizer_config();
  // transformers writes no vocab.txt since version 5.
  if (const std::string published = files.folder + "/tokenizer.json";
      !std::filesystem::exists(files.pieces()) && std::filesystem::exists(published)) {
    datasets::WordPiece pieces =
        reading(published, [&] { return pieces_of_tokenizer(datasets::read_text(published)); });
    check_files_agree(files);
    return pieces;
  }
  datasets::WordPiece pieces = datasets::WordPiece::load(
      files.pieces(), std::filesystem::exists(config) ? parsed(config, pieces_from_transformers)
                                                      : datasets::WordPieceOptions{});
  check_nothing_added(files, pieces);
  return pieces;
}

ModelConfig load_sizes(const ModelFiles& files) {
  return is_ours(files) ? load_config(files).model : sizes_of(open_published(files));
}

namespace {

/// The model of lm.json, or else the model_type of config.json; empty for a GGUF file.
std::string kind_of(const std::string& folder) {
  const ModelFiles files{folder};
  if (pretrained::is_gguf(folder)) return "";
  if (is_ours(files)) return load_config(files).model.model;
  return parsed(files.foreign_config(),
                [](const std::string& text, Unknown*) { return pretrained::model_type(text); });
}

}  // namespace

bool is_bert_folder(const std::string& folder) { return kind_of(folder) == kBert; }
bool is_encoder_folder(const std::string& folder) {
  return models::is_encoder_type(kind_of(folder));
}

namespace {

/// `load` makes the model from sizes and the file of weights.
template <class Load>
LoadedModel load_language_model(const std::string& folder, Load load) {
  const ModelFiles files{folder};
  if (std::filesystem::is_directory(folder)) check_first_epoch_over(files.weights());
  if (!is_ours(files)) {
    pretrained::GptFiles published = open_published(files);
    return {std::move(published.tokenizer),
            load(sizes_of(published), pretrained::weights_path(folder)), std::move(published.chat),
            std::move(published.generation)};
  }
  constexpr int64_t kFewDocuments = 20;
  const TrainConfig config = load_config(files);
  const ModelConfig& sizes = config.model;
  const std::string beginning = config.documents_found < kFewDocuments ? "\n" : "";
  check_io(sizes.model != kBert, "{}: a {} does not continue texts; it fills gaps: {} fill", folder,
           sizes.model, as_started("lm"));
  if (!sizes.published.empty()) {
    pretrained::GptFiles published = pretrained::open_gpt(folder, sizes.published);
    end_at_boundary(published.tokenizer);
    return {std::move(published.tokenizer), load(sizes, files.weights()), std::move(published.chat),
            std::move(published.generation), beginning};
  }
  datasets::LanguageTokenizer tokenizer = load_tokenizer(files);
  check_known(files.vocabulary(), tokenizer.size(), "tokens", sizes.vocab);
  return {std::move(tokenizer), load(sizes, files.weights()), {}, {}, beginning};
}

}  // namespace

LoadedModel load_folder(const std::string& folder) {
  return load_language_model(folder, load_model);
}

LoadedModel load_folder_packed(const std::string& folder, PackedType type) {
  return load_language_model(folder, [&](const ModelConfig& sizes, const std::string& weights) {
    const bool can_pack = sizes.model == "gpt" || sizes.model == "llama";
    return can_pack ? load_packed(sizes, weights, type) : load_model(sizes, weights);
  });
}

namespace {

models::Bert load_encoder_with_heads(const ModelFiles& files) {
  Rng rng(0);
  models::BertFileReport report;
  models::Bert model = models::load_bert(files.weights(), rng, {}, &report);
  say_unknown(files.foreign_config(), report.unknown);
  check_finite_weights(files.weights(), nn::named_parameters(model));
  return model;
}

}  // namespace

LoadedBert load_bert_folder(const std::string& folder) {
  const ModelFiles files{folder};
  check_first_epoch_over(files.weights());
  check_io(is_bert_folder(folder), "{}: this is not a BERT, which this command needs", folder);
  datasets::WordPiece pieces = load_pieces(files);
  models::Bert model = load_encoder_with_heads(files);
  check_known(files.pieces(), pieces.size(), "pieces", model.options.vocab);
  return {std::move(pieces), std::move(model)};
}

EncoderTokenizer encoder_tokenizer(const datasets::WordPiece& pieces) {
  return {.encode =
              [pieces](const std::string& text) {
                return datasets::bert_tokens(pieces, pieces.encode(text)).tokens;
              },
          .decode = [pieces](const auto& ids) { return pieces.decode(ids); },
          .token = [pieces](int64_t id) { return pieces.piece(id); },
          .size = pieces.size(),
          .mask = pieces.mask_id()};
}

EncoderTokenizer load_encoder_tokenizer(const std::string& folder, int64_t known) {
  const ModelFiles files{folder};
  const std::string path = folder + "/tokenizer.json";
  if (!std::filesystem::exists(path)) {
    EncoderTokenizer tokenizer = encoder_tokenizer(load_pieces(files));
    check_known(files.pieces(), tokenizer.size, "tokens", known);
    return tokenizer;
  }
  const auto tokenizer = datasets::PretrainedTokenizer::load(path);
  check_known(path, tokenizer.size(), "tokens", known);
  check_files_agree(files);
  const std::optional<int64_t> mask = tokenizer.id("[MASK]");
  return {.encode = [tokenizer](const std::string& text) { return tokenizer.encode(text); },
          .decode = [tokenizer](const auto& ids) { return tokenizer.decode(ids); },
          .token = [tokenizer](int64_t id) { return tokenizer.bytes(id); },
          .size = tokenizer.size(),
          .mask = mask ? mask : tokenizer.id("<mask>")};
}

GapModel load_gap_model(const std::string& folder) {
  const ModelFiles files{folder};
  check_first_epoch_over(files.weights());
  check_io(is_encoder_folder(folder), "{}: this model continues texts; it fills no gaps", folder);
  models::Bert model = load_encoder_with_heads(files);
  check_io(model.options.masked_lm, "{}: the model has no head for masked words", files.weights());
  EncoderTokenizer tokenizer = load_encoder_tokenizer(folder, model.options.vocab);
  check_io(tokenizer.mask.has_value(), "{}: its tokenizer has neither [MASK] nor <mask>", folder);
  return {std::move(tokenizer), std::move(model)};
}

}  // namespace tern::apps::lm

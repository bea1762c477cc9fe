#include "tern/apps/lm/bert_folder.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tern/apps/common/folder.h"
#include "tern/apps/common/json_config.h"
#include "tern/apps/common/new_run.h"
#include "tern/apps/common/weights_fit.h"
#include "tern/core/base/error.h"
#include "tern/core/io/json_text.h"
#include "tern/core/io/safetensors.h"
#include "tern/data/text/lines.h"

namespace tern::apps::lm {
namespace {

using nlohmann::json;

std::string vocabulary(const ModelFiles& files) { return files.folder + "/vocab.txt"; }
std::string tokenizer_config(const ModelFiles& files) {
  return files.folder + "/tokenizer_config.json";
}

/// use(what the file says); errors become those of the file.
template <class Use>
auto from_json_file(const std::string& path, Use use) {
  const std::string text = data::read_text(path, {.max_bytes = 1 << 24});
  try {
    return use(parse_json(text));
  } catch (const json::exception& e) {
    fail_io(fmt::format("{}: it cannot be read: {}", path, e.what()));
  } catch (const Error& e) {
    fail_io(fmt::format("{}: {}", path, e.what()));
  }
}

Activation activation_named(const std::string& name) {
  if (name == "gelu") return Activation::gelu;
  if (name == "gelu_new" || name == "gelu_pytorch_tanh") return Activation::gelu_tanh;
  if (name == "relu") return Activation::relu;
  if (name == "silu" || name == "swish") return Activation::silu;
  fail(fmt::format("hidden_act is {}; gelu, gelu_new, relu and silu are known", name));
}

/// What shapes do not say.
models::BertOptions rest_of(const json& j) {
  const auto kind = value_or<std::string>(j, "model_type", "none");
  check(kind == kBert, "model_type is {}; a {} is needed", kind, kBert);
  const auto positions = value_or<std::string>(j, "position_embedding_type", "absolute");
  check(positions == "absolute", "position_embedding_type is {}; only absolute is known",
        positions);
  check(!value_or(j, "is_decoder", false), "is_decoder is true; it must be false");
  models::BertOptions o;
  o.heads = value_or<int64_t>(j, "num_attention_heads", 12);
  o.activation = activation_named(value_or<std::string>(j, "hidden_act", "gelu"));
  o.dropout = value_or<double>(j, "hidden_dropout_prob", 0.1);
  o.attention_dropout = value_or<double>(j, "attention_probs_dropout_prob", 0.1);
  o.eps = value_or<double>(j, "layer_norm_eps", 1e-12);
  o.pad = value_or<int64_t>(j, "pad_token_id", 0);
  check(o.heads > 0 && o.dropout >= 0 && o.dropout < 1 && o.attention_dropout >= 0 &&
            o.attention_dropout < 1 && o.eps > 0 && o.pad >= 0,
        "heads {}, dropouts {} and {}, layer_norm_eps {}, pad_token_id {} cannot be", o.heads,
        o.dropout, o.attention_dropout, o.eps, o.pad);
  return o;
}

json to_transformers(const models::BertOptions& o) {
  return {{"architectures", {o.next_sentence ? "BertForPreTraining" : "BertForMaskedLM"}},
          {"model_type", kBert},
          {"dtype", "float32"},
          {"vocab_size", o.vocab},
          {"hidden_size", o.dim},
          {"num_hidden_layers", o.layers},
          {"num_attention_heads", o.heads},
          {"intermediate_size", o.ffn},
          {"hidden_act", "gelu"},
          {"hidden_dropout_prob", o.dropout},
          {"attention_probs_dropout_prob", o.attention_dropout},
          {"max_position_embeddings", o.positions},
          {"type_vocab_size", o.segments},
          {"layer_norm_eps", o.eps},
          {"pad_token_id", o.pad}};
}

}  // namespace

models::BertOptions bert_sizes(const TrainConfig& c, const data::WordPiece& pieces) {
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
          .pad = pieces.pad_id(),
          .next_sentence = c.pairs,
          .recompute = nn::recompute_named(m.recompute)};
}

void save_bert_description(const ModelFiles& files, const TrainConfig& c,
                           const data::WordPiece& pieces) {
  std::filesystem::remove(files.config());  // the last to come: a run that has it has all
  pieces.save(vocabulary(files));
  const data::WordPieceOptions& o = pieces.options();
  const json tokenizer = {{"tokenizer_class", "BertTokenizer"},
                          {"do_lower_case", o.lower},
                          {"strip_accents", o.strip_accents ? json(*o.strip_accents) : json()},
                          {"tokenize_chinese_chars", o.split_cjk},
                          {"model_max_length", c.model.context}};
  write_file_atomically(tokenizer_config(files), tokenizer.dump(2) + "\n");
  write_file_atomically(files.foreign_config(),
                        to_transformers(bert_sizes(c, pieces)).dump(2) + "\n");
  save_config(files, c);
}

data::WordPiece load_pieces(const ModelFiles& files) {
  data::WordPieceOptions options;
  if (std::filesystem::exists(tokenizer_config(files)))
    options = from_json_file(tokenizer_config(files), [](const json& j) {
      data::WordPieceOptions o;
      o.lower = value_or(j, "do_lower_case", true);
      if (const auto strip = j.find("strip_accents"); strip != j.end() && !strip->is_null())
        o.strip_accents = strip->get<bool>();
      o.split_cjk = value_or(j, "tokenize_chinese_chars", true);
      return o;
    });
  return data::WordPiece::load(vocabulary(files), options);
}

bool is_bert_folder(const std::string& folder) {
  const ModelFiles files{folder};
  check_folder(folder, folder);
  if (std::filesystem::exists(files.config())) return load_config(files).model.model == kBert;
  check_io(std::filesystem::exists(files.foreign_config()),
           "{}: it holds neither lm.json nor config.json", folder);
  return from_json_file(files.foreign_config(), [](const json& j) {
    return value_or<std::string>(j, "model_type", "none") == kBert;
  });
}

LoadedBert load_bert_folder(const std::string& folder) {
  const ModelFiles files{folder};
  check_first_epoch_over(files.weights());
  check_io(is_bert_folder(folder), "{}: it is no bert, which alone fills masks", folder);
  const models::BertOptions rest = from_json_file(files.foreign_config(), rest_of);
  data::WordPiece pieces = load_pieces(files);
  models::Bert model = [&] {
    try {
      Rng rng(0);
      return models::load_bert(files.weights(), rng, rest);
    } catch (const IoError&) {
      throw;
    } catch (const Error& e) {  // heads, say, that do not divide the channels
      fail_io(fmt::format("{}: {}", files.foreign_config(), e.what()));
    }
  }();
  check_finite_weights(files.weights(), nn::named_parameters(model));
  // A table of words may be longer than the vocabulary: some are filled up to a round number.
  check_io(pieces.size() <= model.options.vocab, "{}: there are {} pieces, the model knows {}",
           vocabulary(files), pieces.size(), model.options.vocab);
  nn::set_training(model, false);
  return {std::move(pieces), std::move(model)};
}

}  // namespace tern::apps::lm

// Loads files of transformers' encoders: maps names of other models and older names to BERT's, and
// infers sizes from shapes.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <initializer_list>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "tern/core/base/reading.h"
#include "tern/core/io/json_text.h"
#include "tern/core/io/tensor_file.h"
#include "tern/models/bert_config.h"
#include "tern/nn/unfilled.h"

namespace tern::models {
namespace {

namespace fs = std::filesystem;

constexpr const char* kWords = "bert.embeddings.word_embeddings.weight";
constexpr const char* kDecoder = "cls.predictions.decoder.weight";
constexpr const char* kProjection = "bert.embeddings_project.weight";
constexpr const char* kBias = "cls.predictions.bias";
constexpr const char* kDecoderBias = "cls.predictions.decoder.bias";
constexpr int64_t kLargestConfig = 1 << 24;  // bytes

const Tensor* find(const NamedTensors& state, const std::string& name) {
  for (const auto& [n, t] : state)
    if (n == name) return &t;
  return nullptr;
}

bool has_prefix(const NamedTensors& state, std::string_view prefix) {
  return std::any_of(state.begin(), state.end(),
                     [&](const auto& entry) { return entry.first.starts_with(prefix); });
}

struct Renaming {
  std::string_view theirs, ours;
};
// Beginnings of names. A classifier of two layers is a pooler with a classifier.
constexpr Renaming kBeginnings[] = {
    // the models
    {"roberta.", "bert."},  // also XLM-RoBERTa and CamemBERT
    {"distilbert.", "bert."},
    {"electra.", "bert."},
    {"mpnet.", "bert."},
    // RoBERTa and MPNet
    {"lm_head.dense.", "cls.predictions.transform.dense."},
    {"lm_head.layer_norm.", "cls.predictions.transform.LayerNorm."},
    {"lm_head.decoder.", "cls.predictions.decoder."},
    {"lm_head.bias", "cls.predictions.bias"},
    {"classifier.dense.", "bert.pooler.dense."},  // also ELECTRA
    {"classifier.out_proj.", "classifier."},
    // DistilBERT
    {"vocab_transform.", "cls.predictions.transform.dense."},
    {"vocab_layer_norm.", "cls.predictions.transform.LayerNorm."},
    {"vocab_projector.weight", "cls.predictions.decoder.weight"},
    {"vocab_projector.bias", "cls.predictions.bias"},
    {"pre_classifier.", "bert.pooler.dense."},
    // ELECTRA's generator
    {"generator_predictions.dense.", "cls.predictions.transform.dense."},
    {"generator_predictions.LayerNorm.", "cls.predictions.transform.LayerNorm."},
    {"generator_lm_head.weight", "cls.predictions.decoder.weight"},
    {"generator_lm_head.bias", "cls.predictions.bias"},
};
// Parts of a layer's names.
constexpr Renaming kParts[] = {
    // DistilBERT
    {".transformer.layer.", ".encoder.layer."},
    {".attention.q_lin.", ".attention.self.query."},
    {".attention.k_lin.", ".attention.self.key."},
    {".attention.v_lin.", ".attention.self.value."},
    {".attention.out_lin.", ".attention.output.dense."},
    {".sa_layer_norm.", ".attention.output.LayerNorm."},
    {".ffn.lin1.", ".intermediate.dense."},
    {".ffn.lin2.", ".output.dense."},
    {".output_layer_norm.", ".output.LayerNorm."},
    // MPNet
    {".attention.attn.q.", ".attention.self.query."},
    {".attention.attn.k.", ".attention.self.key."},
    {".attention.attn.v.", ".attention.self.value."},
    {".attention.attn.o.", ".attention.output.dense."},
    {".attention.LayerNorm.", ".attention.output.LayerNorm."},
    // the first BERTs
    {".LayerNorm.gamma", ".LayerNorm.weight"},
    {".LayerNorm.beta", ".LayerNorm.bias"},
};

/// BERT's name of today; empty if it is not a weight.
std::string own_name(std::string name, bool without_prefix) {
  if (name.ends_with("embeddings.position_ids") || name.ends_with("embeddings.token_type_ids"))
    return "";
  if (without_prefix) name.insert(0, "bert.");
  for (const auto& [theirs, ours] : kBeginnings)
    if (name.starts_with(theirs)) {
      name.replace(0, theirs.size(), ours);
      break;
    }
  for (const auto& [theirs, ours] : kParts)
    if (const size_t at = name.find(theirs); at != name.npos) name.replace(at, theirs.size(), ours);
  return name;
}

bool same_elements(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() && all(eq(a, b)).item<int>() == 1;
}

/// A file's weights with BERT's names, and what the file's own names say.
struct State {
  NamedTensors tensors;
  bool offset = false;  // a model whose positions have an offset
  Activation pooler = Activation::tanh;
};

State read_state(const std::string& path) {
  const SafeTensors file = load_tensors(path);
  auto has = [&](std::string_view prefix) { return has_prefix(file.tensors, prefix); };
  const bool without_prefix = has("embeddings."), two_layers = has("classifier.dense.");
  State state;
  state.offset = has("roberta.") || has("mpnet.");
  if (has("pre_classifier.")) state.pooler = Activation::relu;
  if (has("electra.") && two_layers) state.pooler = Activation::gelu;
  for (const auto& [name, t] : file.tensors) {
    // Older files have a pooler beside such a classifier, which nothing uses.
    if (two_layers && name.find(".pooler.") != name.npos) continue;
    if (std::string own = own_name(name, without_prefix); !own.empty())
      state.tensors.emplace_back(std::move(own), t);
  }
  for (const auto& [own, tied] : {std::pair(kDecoder, kWords), {kDecoderBias, kBias}}) {
    const Tensor *a = find(state.tensors, own), *b = find(state.tensors, tied);
    check_io(
        !a || !b || same_elements(*a, *b),
        "{}: {} differs from {}; a separate decoder (tie_word_embeddings = false) is not supported",
        path, own, tied);
  }
  return state;
}

/// The sizes of a tensor with two axes.
std::pair<int64_t, int64_t> matrix(const std::string& path, const NamedTensors& state,
                                   const std::string& name) {
  const Tensor* t = find(state, name);
  check_io(t, "{}: not a BERT or another encoder, such as MiniLM or MPNet: there is no {}", path,
           name);
  check_io(t->ndim() == 2 && t->size(0) > 0 && t->size(1) > 0,
           "{}: {} is {}, but a matrix is needed", path, name, t->shape());
  return {t->size(0), t->size(1)};
}

/// The number of layers 0, 1, ... that have a name in the file.
int64_t count_layers(const NamedTensors& state) {
  constexpr std::string_view kPrefix = "bert.encoder.layer.";
  std::set<int64_t> numbers;
  for (const auto& [name, t] : state) {
    if (!name.starts_with(kPrefix)) continue;
    int64_t number = -1;
    const char* begin = name.data() + kPrefix.size();
    if (std::from_chars(begin, name.data() + name.size(), number).ec == std::errc())
      numbers.insert(number);
  }
  int64_t layers = 0;
  while (numbers.contains(layers)) ++layers;
  return layers;
}

/// Sizes come from names and shapes: a model must not need more weights than the file has.
void check_size(const std::string& path, const NamedTensors& state, const BertOptions& o) {
  double held = 0;
  for (const auto& [name, t] : state) held += static_cast<double>(t.numel());
  const auto dim = static_cast<double>(o.dim), ffn = static_cast<double>(o.ffn);
  const auto width = o.embedding_dim ? static_cast<double>(o.embedding_dim) : dim;
  const bool pooler = o.next_sentence || (o.classes > 0 && !o.classes_of_tokens);
  const double least = static_cast<double>(o.layers) * (4 * dim + 2 * ffn) * dim +
                       pooler * dim * dim + o.masked_lm * width * dim;
  check_io(held >= least, "{}: {:.0f} weights are too few for {} layers of {} channels", path, held,
           o.layers, o.dim);
}

/// Sizes and heads on top, from names and shapes. Positions: all rows of the table.
BertOptions sizes_of(const std::string& path, const State& file, const BertFileOptions& rest) {
  BertOptions o;
  o.classes_of_tokens = rest.classes_of_tokens;
  o.recompute = rest.recompute;
  const NamedTensors& state = file.tensors;
  auto rows = [&](const char* name) {
    return find(state, name) ? matrix(path, state, name).first : 0;
  };
  std::tie(o.vocab, o.dim) = matrix(path, state, find(state, kWords) ? kWords : kDecoder);
  if (find(state, kProjection)) std::tie(o.dim, o.embedding_dim) = matrix(path, state, kProjection);
  o.positions = matrix(path, state, "bert.embeddings.position_embeddings.weight").first;
  o.segments = rows("bert.embeddings.token_type_embeddings.weight");
  o.relative_buckets = rows("bert.encoder.relative_attention_bias.weight");
  o.layers = count_layers(state);
  if (o.layers > 0)
    o.ffn = matrix(path, state, "bert.encoder.layer.0.intermediate.dense.weight").first;
  o.masked_lm = has_prefix(state, "cls.predictions.");
  o.next_sentence = has_prefix(state, "cls.seq_relationship.");
  o.classes = has_prefix(state, "classifier.") ? matrix(path, state, "classifier.weight").first : 0;
  if (o.classes > 0 && !has_prefix(state, "bert.pooler.")) o.classes_of_tokens = true;
  o.pooler_activation = file.pooler;
  check_size(path, state, o);
  return o;
}

/// `o`, with what the weights do not show from `rest`, and what is not given there from `others`.
BertOptions completed(BertOptions o, const BertFileOptions& rest, const BertOptions& others) {
  o.heads = rest.heads.value_or(others.heads);
  o.dropout = rest.dropout.value_or(others.dropout);
  o.attention_dropout = rest.attention_dropout.value_or(others.attention_dropout);
  o.classifier_dropout = others.classifier_dropout;
  if (rest.classifier_dropout) o.classifier_dropout = rest.classifier_dropout;
  o.activation = rest.activation.value_or(others.activation);
  o.eps = rest.eps.value_or(others.eps);
  o.pad = rest.pad.value_or(others.pad);
  o.position_offset = rest.position_offset.value_or(others.position_offset);
  o.classes_of_tokens = o.classes_of_tokens || others.classes_of_tokens;
  return o;
}

/// Error unless config.json has the sizes of the weights.
void check_sizes(const BertOptions& config, const BertOptions& o) {
  using O = BertOptions;
  const std::initializer_list<std::pair<const char*, int64_t O::*>> members = {
      {"vocab", &O::vocab},
      {"dim", &O::dim},
      {"layers", &O::layers},
      {"ffn", &O::ffn},
      {"segments", &O::segments},
      {"embedding_dim", &O::embedding_dim},
      {"relative_buckets", &O::relative_buckets}};
  check(config.dim % config.heads == 0, "{} channels cannot be split into {} attention heads",
        config.dim, config.heads);
  for (const auto& [name, member] : members)
    check(config.*member == o.*member, "{} is {}, but the weights have {}", name, config.*member,
          o.*member);
  const int64_t rows = config.position_offset + config.positions;
  check(rows == o.positions, "there are {} positions, but the weights have {}", rows, o.positions);
}

/// Error unless config.json has what `rest` says.
void check_agrees(const BertOptions& config, const BertFileOptions& rest) {
  const auto same = [](const char* name, const auto& ours, const auto& given) {
    check(ours == given.value_or(ours), "{} is {}, but the options say {}", name, ours,
          given.value_or(ours));
  };
  same("heads", config.heads, rest.heads);
  same("pad", config.pad, rest.pad);
  same("position_offset", config.position_offset, rest.position_offset);
  same("eps", config.eps, rest.eps);
  check(config.activation == rest.activation.value_or(config.activation),
        "its activation is not that of the options");
}

/// The options of the model in this file, as load_bert() says.
BertOptions options_of(const std::string& path, const State& file, const BertFileOptions& rest,
                       BertFileReport& report, bool unknown_allowed) {
  BertOptions o = sizes_of(path, file, rest), others;
  const std::string config = (fs::path(path).parent_path() / "config.json").string();
  if (std::error_code error; fs::exists(config, error))
    others = reading(config, [&] {
      const std::string text = read_json_text(config, kLargestConfig);
      const BertOptions read =
          bert_options_from_json(text, unknown_allowed ? &report.unknown : nullptr);
      check_sizes(read, o);
      check_agrees(read, rest);
      return read;
    });
  else
    check_io(rest.heads.has_value(),
             "{}: there is no config.json beside it, which says how many attention heads the model "
             "has; copy it there, or give the option .heads",
             path);
  o = completed(o, rest, others);
  check_io(o.position_offset > 0 || !file.offset,
           "{}: there is no config.json beside it, and the positions of such a model do not begin "
           "at 0; give the options .pad (usually 1), .position_offset (1 above pad) and .eps",
           path);
  check_io(o.position_offset < o.positions, "{}: {} positions are too few for an offset of {}",
           path, o.positions, o.position_offset);
  o.positions -= o.position_offset;
  if (o.pad >= o.vocab) o.pad = -1;
  return o;
}

/// Moves weights of heads that the model lacks out of `state`.
std::vector<std::string> leave_heads_aside(NamedTensors& state, const Bert& model) {
  std::vector<std::string_view> absent;
  if (!model.bert.pooler) absent.push_back("bert.pooler.");
  if (!model.predictions) absent.push_back("cls.predictions.");
  if (!model.seq_relationship) absent.push_back("cls.seq_relationship.");
  if (!model.classifier) absent.push_back("classifier.");
  std::vector<std::string> names;
  std::erase_if(state, [&](const auto& entry) {
    const bool aside = std::any_of(absent.begin(), absent.end(), [&](std::string_view prefix) {
      return entry.first.starts_with(prefix);
    });
    if (aside) names.push_back(entry.first);
    return aside;
  });
  return names;
}

LoadStateReport load_into(const std::string& path, NamedTensors state, Bert& model,
                          const LoadStateOptions& options) {
  // The file may have the table only as the decoder.
  if (const Tensor* decoder = find(state, kDecoder); decoder && !find(state, kWords))
    state.emplace_back(kWords, Tensor(*decoder));
  const std::vector<std::string> aside = leave_heads_aside(state, model);
  LoadStateOptions taking = options;
  taking.take = true;
  LoadStateReport report = reading(path, [&] { return nn::load_state_dict(model, state, taking); });
  report.unexpected.insert(report.unexpected.end(), aside.begin(), aside.end());
  return report;
}

/// Takes the weights of heads that no Bert has out of `state`.
std::vector<std::string> take_other_heads(NamedTensors& state) {
  std::vector<std::string> names;
  std::erase_if(state, [&](const auto& entry) {
    const std::string& name = entry.first;
    const bool ours =
        name.starts_with("bert.") || name.starts_with("cls.") || name.starts_with("classifier.");
    if (!ours) names.push_back(name);
    return !ours;
  });
  return names;
}

Bert load(const std::string& path, Rng& rng, const BertFileOptions& rest, BertFileReport* report,
          bool heads) {
  State file = read_state(path);
  BertFileReport found;
  BertOptions o = options_of(path, file, rest, found, report != nullptr);
  found.unused = take_other_heads(file.tensors);
  if (!heads) {
    o.masked_lm = o.next_sentence = false;
    o.classes = 0;
  } else if (!found.unused.empty()) {
    fail_io(fmt::format(
        "{}: Bert has no head for {} (of {} such weights); load_bert_encoder() loads the model "
        "without heads",
        path, found.unused[0], found.unused.size()));
  }
  Bert model = nn::unfilled([&] { return Bert(o, rng); });
  for (std::string& name : load_into(path, std::move(file.tensors), model, {}).unexpected)
    found.unused.push_back(std::move(name));
  if (report) *report = std::move(found);
  nn::set_training(model, false);
  return model;
}

}  // namespace

Bert load_bert(const std::string& path, Rng& rng, const BertFileOptions& rest,
               BertFileReport* report) {
  return load(path, rng, rest, report, /*heads=*/true);
}

Bert load_bert_encoder(const std::string& path, Rng& rng, const BertFileOptions& rest,
                       BertFileReport* report) {
  return load(path, rng, rest, report, /*heads=*/false);
}

LoadStateReport load_bert_weights(const std::string& path, Bert& model,
                                  const LoadStateOptions& options) {
  return load_into(path, read_state(path).tensors, model, options);
}

}  // namespace tern::models

// Loads files of transformers' BERT models: maps old names to current ones and infers sizes from
// shapes.
#include <algorithm>
#include <array>
#include <charconv>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "tern/core/base/reading.h"
#include "tern/core/io/safetensors.h"
#include "tern/models/bert.h"

namespace tern::models {
namespace {

constexpr const char* kWords = "bert.embeddings.word_embeddings.weight";
constexpr const char* kDecoder = "cls.predictions.decoder.weight";
constexpr const char* kBias = "cls.predictions.bias";
constexpr const char* kDecoderBias = "cls.predictions.decoder.bias";
constexpr int64_t kHeadChannels = 64;  // per head, in every published model

const Tensor* find(const NamedTensors& state, const std::string& name) {
  for (const auto& [n, t] : state)
    if (n == name) return &t;
  return nullptr;
}

bool has_prefix(const NamedTensors& state, std::string_view prefix) {
  return std::any_of(state.begin(), state.end(),
                     [&](const auto& entry) { return entry.first.starts_with(prefix); });
}

/// The name as in current files; empty if it is not a weight.
std::string name_of_today(std::string name, bool without_prefix) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 2> kOldEnds = {
      {{"LayerNorm.gamma", "LayerNorm.weight"}, {"LayerNorm.beta", "LayerNorm.bias"}}};
  for (const auto& [old, today] : kOldEnds)
    if (name.ends_with(old)) name.replace(name.size() - old.size(), old.size(), today);
  if (name.ends_with("embeddings.position_ids") || name.ends_with("embeddings.token_type_ids"))
    return "";
  return without_prefix ? "bert." + name : name;
}

bool same_elements(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() && all(eq(a, b)).item<int>() == 1;
}

/// The file's weights with current names.
NamedTensors read_state(const std::string& path) {
  const SafeTensors file = load_safetensors(path);
  const bool without_prefix =
      !has_prefix(file.tensors, "bert.") && has_prefix(file.tensors, "embeddings.");
  NamedTensors state;
  for (const auto& [name, t] : file.tensors)
    if (std::string today = name_of_today(name, without_prefix); !today.empty())
      state.emplace_back(std::move(today), t);
  for (const auto& [own, tied] : {std::pair(kDecoder, kWords), {kDecoderBias, kBias}}) {
    const Tensor *a = find(state, own), *b = find(state, tied);
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
  check_io(t, "{}: not a BERT model: there is no {}", path, name);
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
  const double squares = 4 * static_cast<double>(o.layers) + (o.next_sentence || o.classes > 0) +
                         static_cast<double>(o.masked_lm);
  const double least = squares * dim * dim + 2 * static_cast<double>(o.layers) * dim * ffn;
  check_io(held >= least, "{}: {:.0f} weights are too few for {} layers of {} channels", path, held,
           o.layers, o.dim);
}

BertOptions options_of(const std::string& path, const NamedTensors& state, BertOptions o) {
  std::tie(o.vocab, o.dim) = matrix(path, state, find(state, kWords) ? kWords : kDecoder);
  o.positions = matrix(path, state, "bert.embeddings.position_embeddings.weight").first;
  o.segments = matrix(path, state, "bert.embeddings.token_type_embeddings.weight").first;
  o.layers = count_layers(state);
  if (o.layers > 0)
    o.ffn = matrix(path, state, "bert.encoder.layer.0.intermediate.dense.weight").first;
  o.masked_lm = has_prefix(state, "cls.predictions.");
  o.next_sentence = has_prefix(state, "cls.seq_relationship.");
  o.classes = has_prefix(state, "classifier.") ? matrix(path, state, "classifier.weight").first : 0;
  check_size(path, state, o);
  if (o.heads == 0) {
    check_io(o.dim % kHeadChannels == 0,
             "{}: {} channels cannot be split into heads of {}; give the number of heads", path,
             o.dim, kHeadChannels);
    o.heads = o.dim / kHeadChannels;
  }
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

}  // namespace

Bert load_bert(const std::string& path, Rng& rng, const BertOptions& rest) {
  NamedTensors state = read_state(path);
  Bert model(options_of(path, state, rest), rng);
  load_into(path, std::move(state), model, {});
  return model;
}

LoadStateReport load_bert_weights(const std::string& path, Bert& model,
                                  const LoadStateOptions& options) {
  return load_into(path, read_state(path), model, options);
}

}  // namespace tern::models

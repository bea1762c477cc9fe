// The table of model families with their defaults and constructors, and generation with models that
// cannot be packed.
#include "tern/apps/lm/family.h"

#include <fmt/format.h>

#include <algorithm>

#include "tern/apps/common/training/weights_fit.h"
#include "tern/core/base/error.h"
#include "tern/core/base/precision.h"
#include "tern/core/base/reading.h"
#include "tern/core/io/tensor_file.h"
#include "tern/models/gmlp_text.h"
#include "tern/nn/unfilled.h"

namespace tern::apps::lm {
namespace {

int64_t gpt_weights(const ModelConfig& c) { return models::gpt_weights(gpt_options(c)); }

LanguageModel make_gpt(const ModelConfig& c, Rng& rng) {
  return {c, models::Gpt(gpt_options(c), rng)};
}

models::GmlpTextOptions gmlp(const ModelConfig& c) {
  return {.vocab = c.vocab,
          .context = c.context,
          .dim = c.dim,
          .layers = c.layers,
          .d_ffn = c.ffn,
          .attention_dim = c.attention_dim,
          .dropout = c.dropout,
          .tie_head = c.tie,
          .recompute = nn::recompute_named(c.recompute)};
}

}  // namespace

const std::vector<Family>& families() {
  // To add a family, include its header in family.h and add a row here.
  static const std::vector<Family> kAll = {
      {.name = "gpt",
       .flags = {"--heads", "--kv-heads", "--tie"},
       .defaults = [](ModelConfig&) {},
       .ffn = [](int64_t dim) { return 4 * dim; },
       .weights = gpt_weights,
       .make = make_gpt},
      {.name = "llama",
       .flags = {"--heads", "--kv-heads", "--tie"},
       .defaults =
           [](ModelConfig& c) {
             c.tie = c.bias = false;
             c.eps = 1e-6;
             c.dropout = 0;
           },
       // Three matrices of 8/3 times the width have as many weights as two of 4 times the width.
       .ffn = [](int64_t dim) { return (8 * dim / 3 + 31) / 32 * 32; },
       .weights = gpt_weights,
       .make = make_gpt},
      {.name = "gmlp",
       .flags = {"--attention-dim", "--tie"},
       .defaults = [](ModelConfig& c) { c.heads = 1; },  // one matrix mixes the tokens
       .ffn = [](int64_t dim) { return 6 * dim; },
       .weights = [](const ModelConfig& c) { return models::gmlp_text_weights(gmlp(c)); },
       .make = [](const ModelConfig& c, Rng& rng) -> LanguageModel {
         return {c, models::GmlpLanguageModel(gmlp(c), rng)};
       }},
  };
  return kAll;
}

std::vector<std::string> family_names() {
  std::vector<std::string> names;
  for (const Family& f : families()) names.push_back(f.name);
  return names;
}

const Family& find_family(const std::string& name) {
  for (const Family& f : families())
    if (f.name == name) return f;
  fail(fmt::format("there is no model '{}'; there are {}", name, fmt::join(family_names(), ", ")));
}

bool has_size(const std::string& name, const std::string& flag) {
  if (name == kBert) return flag == "--heads";
  return std::ranges::any_of(families(), [&](const Family& f) {
    return f.name == name && std::ranges::count(f.flags, flag) > 0;
  });
}

models::GptOptions gpt_options(const ModelConfig& c) {
  models::GptOptions o;
  if (c.published.empty()) {
    o = c.model == "llama" ? models::llama_form() : models::GptOptions{};
    o.vocab = c.vocab;
    o.dim = c.dim;
    o.layers = c.layers;
    o.heads = c.heads;
    o.kv_heads = c.kv_heads;
    o.ffn_dim = c.ffn;
    o.tie_head = c.tie;
    o.bias = c.bias ? nn::Bias::yes : nn::Bias::no;
    o.eps = c.eps;
    if (o.positions == models::GptPositions::rotary) o.rope_base = c.rope_base;
  } else {
    o = pretrained::read_gpt_config(c.published).options;
  }
  if (c.published.empty() || c.dropout != o.dropout) {
    o.dropout = c.dropout;
    o.embed_dropout = o.attention_dropout = {};
  }
  o.context = c.context;
  o.recompute = nn::recompute_named(c.recompute);
  return o;
}

ModelConfig sizes_of(const pretrained::GptFiles& files) {
  const models::GptOptions& o = files.config.options;
  ModelConfig c;
  c.model = o.names == models::GptNames::gpt2 ? "gpt" : "llama";
  c.vocab = o.vocab;
  c.context = o.context;
  c.dim = o.dim;
  c.layers = o.layers;
  c.heads = o.heads;
  c.kv_heads = o.kv_heads;
  c.ffn = o.ffn_dim;
  c.dropout = o.dropout;
  c.tie = o.tie_head;
  c.published = files.config_json;
  return c;
}

LanguageModel make_model(const ModelConfig& config, uint64_t seed) {
  Rng rng(seed);
  return find_family(config.model).make(config, rng);
}

LanguageModel make_model(const TrainConfig& config) {
  ModelConfig sizes = config.model;
  sizes.recompute = config.memory_use.recompute;
  return make_model(sizes, config.seed);
}

namespace {

/// IoError if the configuration has a size out of bounds, or more weights than the file can hold.
void check_holds(const ModelConfig& config, const std::string& path) {
  check_sizes(config);
  const int64_t weights = find_family(config.model).weights(config);
  if (pretrained::is_gguf(path)) return;
  const int64_t bytes = safetensors_bytes(path);
  constexpr int64_t kTooSmall = 1 << 16;  // perhaps a pointer of Git LFS: the reader says so
  if (weights > bytes / 2 && bytes < kTooSmall) load_tensors(path);
  check_io(weights <= bytes / 2,
           "{}: a {} of these sizes has {} weights, more than {} bytes can hold", path,
           config.model, weights, bytes);
}

}  // namespace

LanguageModel load_model(const ModelConfig& config, const std::string& path) {
  check_holds(config, path);
  LanguageModel model = nn::unfilled([&] { return make_model(config, 0); });
  model.load(path);
  check_finite_weights(path, nn::named_parameters(model));
  nn::set_training(model, false);
  return model;
}

LanguageModel load_packed(const ModelConfig& config, const std::string& path, PackedType type) {
  check_holds(config, path);
  const models::GptOptions options = gpt_options(config);
  const TensorSource weights = finite_weights(path, pretrained::open_weights(path));
  return reading(
      path, [&] { return LanguageModel(config, decoding::PackedGpt(options, type, weights)); });
}

PackedType packed_type() {
  return matmul_precision() == MatmulPrecision::bf16 ? PackedType::bf16 : PackedType::f32;
}

namespace {

/// A module without weights.
struct Nothing {
  static void fields(auto&, auto&&) {}
};
Nothing& nothing() {
  static Nothing none;
  return none;
}

/// Steps texts without a cache: the model reads the whole text again for each new token.
class WholeTexts final : public decoding::TextStepper {
 public:
  explicit WholeTexts(const LanguageModel& model) : model_(model) {}
  int64_t batch() const override { return std::ssize(texts_); }
  void add(std::span<const std::vector<int64_t>> texts) override {
    texts_.insert(texts_.end(), texts.begin(), texts.end());
  }
  void extend(int64_t row, std::span<const int64_t> tokens) override {
    texts_[row].insert(texts_[row].end(), tokens.begin(), tokens.end());
  }
  Tensor step(const Tensor& tokens) override {
    std::vector<Tensor> logits;
    for (int64_t row = 0; row < batch(); ++row) {
      std::vector<int64_t>& text = texts_[row];
      text.push_back(tokens.data<int64_t>()[row]);
      const int64_t length = std::ssize(text);
      logits.push_back(select(model_(tensor(text, {1, length})), 1, length - 1));
    }
    return logits.size() == 1 ? logits[0] : cat(logits, 0);
  }
  void select_rows(const Tensor& rows) override {
    std::vector<std::vector<int64_t>> picked;
    for (const int64_t row : rows.to_vector<int64_t>()) picked.push_back(texts_[row]);
    texts_ = std::move(picked);
  }

 private:
  const LanguageModel& model_;
  std::vector<std::vector<int64_t>> texts_;
};

}  // namespace

LanguageModel::LanguageModel(const ModelConfig& config, decoding::PackedGpt packed)
    : config_(config),
      module_(nothing()),
      packed_(std::make_shared<decoding::PackedGpt>(std::move(packed))) {
  forward_ = [weights = packed_](const Tensor& tokens) { return (*weights)(tokens); };
  loss_ = [weights = packed_](const Tensor& tokens, const Tensor& labels) {
    return cross_entropy(flatten((*weights)(tokens), 0, 1), flatten(labels));
  };
  load_ = [](const std::string& path) { fail(path + ": packed weights cannot be replaced"); };
}

std::unique_ptr<decoding::TextStepper> LanguageModel::texts() const {
  if (packed_) return packed_->texts();
  return std::make_unique<WholeTexts>(*this);
}

void LanguageModel::pack(PackedType type, bool keep) {
  packed_ = std::make_shared<decoding::PackedGpt>(pack_(type, keep));
  forward_ = [packed = packed_](const Tensor& tokens) { return (*packed)(tokens); };
}

}  // namespace tern::apps::lm

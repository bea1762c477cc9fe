// LanguageModel, one type for all models that lm can train, and the table of their families.
#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tern/apps/lm/config.h"
#include "tern/core/base/rng.h"
#include "tern/core/ops/ops.h"
#include "tern/decode/packed_gpt.h"
#include "tern/models/gpt.h"
#include "tern/models/heatmaps.h"
#include "tern/nn/module_ref.h"
#include "tern/pretrained/pretrained_gpt.h"

namespace tern::apps::lm {

/// A handle on a module that computes logits (B, T, V) from tokens i64 (B, T); those at t depend on
/// the tokens up to t. It uses these optional members of the module:
///   loss(tokens, labels)                  cross entropy, without the logits of all tokens at once
///   attend(tokens).attention              weights (B, H, T, T) of every layer
///   heatmaps(tokens)                      models/heatmaps.h
/// It is a module too. Copies share one model.
class LanguageModel {
 public:
  template <class M>
  LanguageModel(const ModelConfig& config, M model)
      : LanguageModel(config, std::make_shared<M>(std::move(model))) {}

  /// A model that has only packed weights.
  LanguageModel(const ModelConfig& config, decoding::PackedGpt packed);

  const ModelConfig& config() const { return config_; }
  Tensor operator()(const Tensor& tokens) const { return forward_(tokens); }
  /// The mean cross entropy of labels i64 (B, T).
  Tensor loss(const Tensor& tokens, const Tensor& labels) const { return loss_(tokens, labels); }
  /// IoError if the file does not fit; the model then stays unchanged.
  void load(const std::string& path) const { load_(path); }
  /// Generates several texts in parallel; there are none at first. A model that is not packed reads
  /// each text anew in every step. REQUIRES: evaluation mode, gradients off.
  std::unique_ptr<decoding::TextStepper> texts() const;
  bool can_pack() const { return pack_ != nullptr; }
  bool is_packed() const { return packed_ != nullptr; }
  /// From now on uses packed weights to generate texts and to score tokens (decode/packed_gpt.h).
  /// `keep`: the original weights stay, for attention(). Otherwise they are freed in all copies of
  /// the model. REQUIRES: can_pack().
  void pack(PackedType type, bool keep);
  bool has_attention() const { return attention_ != nullptr; }
  /// Empty if the model has no attention.
  std::vector<Tensor> attention(const Tensor& tokens) const {
    return attention_ ? attention_(tokens) : std::vector<Tensor>{};
  }
  models::Heatmaps heatmaps(const Tensor& tokens) const {
    return heatmaps_ ? heatmaps_(tokens) : models::Heatmaps{};
  }
  /// The model if it is a gpt or llama that is not packed, else nullptr.
  const models::Gpt* gpt() const { return gpt_.get(); }
  static void fields(auto& m, auto&& visit) { visit("", m.module_); }

 private:
  template <class M>
  LanguageModel(const ModelConfig& config, std::shared_ptr<M> model);

  ModelConfig config_;
  std::function<Tensor(const Tensor&)> forward_;
  std::function<Tensor(const Tensor&, const Tensor&)> loss_;
  std::function<void(const std::string&)> load_;
  nn::ModuleRef module_;
  std::shared_ptr<const models::Gpt> gpt_;
  std::function<decoding::PackedGpt(PackedType, bool keep)> pack_;
  std::shared_ptr<decoding::PackedGpt> packed_;
  std::function<std::vector<Tensor>(const Tensor&)> attention_;
  std::function<models::Heatmaps(const Tensor&)> heatmaps_;
};

struct Family {
  std::string name;
  std::vector<std::string> flags;          ///< its sizes besides context, layers, dim, ffn, dropout
  void (*defaults)(ModelConfig&);          ///< sets the family's own defaults
  int64_t (*ffn)(int64_t dim);             ///< default number of hidden units for a width
  int64_t (*weights)(const ModelConfig&);  ///< number of weights
  LanguageModel (*make)(const ModelConfig&, Rng& rng);
};

const std::vector<Family>& families();
std::vector<std::string> family_names();
/// Error, which lists the names, if there is no family of that name.
const Family& find_family(const std::string& name);
/// Whether models of that name, including bert, have the size that this flag sets.
bool has_size(const std::string& name, const std::string& flag);

/// The options of a gpt or llama.
models::GptOptions gpt_options(const ModelConfig& config);
/// The sizes of a published model.
ModelConfig sizes_of(const pretrained::GptFiles& files);

/// A model with random weights from `seed`.
LanguageModel make_model(const ModelConfig& config, uint64_t seed);
/// The same with the configuration's sizes, recomputation and seed.
LanguageModel make_model(const TrainConfig& config);

/// A gpt or llama with packed weights, of which memory never holds more than one layer unpacked.
/// IoError as load_model().
LanguageModel load_packed(const ModelConfig& config, const std::string& weights_path,
                          PackedType type);
/// The type that weights are packed with for the current precision of products.
PackedType packed_type();

/// A model with the weights of a file, in evaluation mode. IoError if they do not fit. If the file
/// is too short for the sizes, it is refused before anything is allocated.
LanguageModel load_model(const ModelConfig& config, const std::string& weights_path);

template <class M>
LanguageModel::LanguageModel(const ModelConfig& config, std::shared_ptr<M> model)
    : config_(config),
      forward_([model](const Tensor& tokens) { return (*model)(tokens); }),
      loss_([model](const Tensor& tokens, const Tensor& labels) {
        if constexpr (requires { model->loss(tokens, labels); })
          return model->loss(tokens, labels);
        else
          return cross_entropy(flatten((*model)(tokens), 0, 1), flatten(labels));
      }),
      load_([model](const std::string& path) {
        if constexpr (requires { pretrained::load_weights(path, *model); })
          pretrained::load_weights(path, *model);
        else
          nn::load_weights(path, *model);
      }),
      module_(*model) {
  if constexpr (std::same_as<M, models::Gpt>) gpt_ = model;
  if constexpr (requires { decoding::PackedGpt(*model, PackedType::f32); })
    pack_ = [model](PackedType type, bool keep) {
      return keep ? decoding::PackedGpt(*model, type)
                  : decoding::PackedGpt(std::move(*model), type);
    };
  if constexpr (requires(Tensor x) { model->attend(x).attention; })
    attention_ = [model](const Tensor& tokens) { return model->attend(tokens).attention; };
  if constexpr (requires(Tensor x) { model->heatmaps(x); })
    heatmaps_ = [model](const Tensor& tokens) { return model->heatmaps(tokens); };
}

}  // namespace tern::apps::lm

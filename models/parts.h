// What several models share: tables of named options, weights with normal initial values, checks of
// images, and attention that may give its weights. Inside of models only.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "tern/core/base/error.h"
#include "tern/core/ops/attention/attention.h"
#include "tern/core/ops/ops.h"
#include "tern/nn/init.h"
#include "tern/nn/parameter.h"

namespace tern::models {

template <class Options>
std::vector<std::string> names_of(const std::vector<std::pair<std::string, Options>>& table) {
  std::vector<std::string> names;
  for (const auto& entry : table) names.push_back(entry.first);
  return names;
}

/// The options with this name. If there is none, an Error lists the names of the `model`.
template <class Options>
Options options_named(const char* model, const std::string& name,
                      const std::vector<std::pair<std::string, Options>>& table) {
  for (const auto& [known, options] : table)
    if (known == name) return options;
  fail(fmt::format("{}: no configuration '{}'; there are {}", model, name,
                   fmt::join(names_of(table), ", ")));
}

/// Error unless both vocabularies have words: the options' default of 0 stands for "not set".
inline void check_vocabularies(const char* model, int64_t source, int64_t target) {
  check(source > 0 && target > 0,
        "{}: vocabularies must be positive, got {} and {} words; set source_vocab and target_vocab",
        model, source, target);
}

/// A parameter that starts in N(0, std^2).
inline nn::Parameter normal_parameter(const Shape& shape, double std, Rng& rng) {
  nn::Parameter p(empty(shape));
  nn::init::normal(p, 0, std, rng);
  return p;
}

/// Error unless images are (B, channels, image, image), as the model's options say.
template <class Options>
void check_images(const char* model, const Tensor& images, const Options& o) {
  check(images.ndim() == 4 && images.size(1) == o.channels && images.size(2) == o.image &&
            images.size(3) == o.image,
        "{}: needs images (B, {}, {}, {}), the shape is {}", model, o.channels, o.image, o.image,
        images.shape());
}

/// attention(q, k, v, options). `weights`, if given, receives those of every head (B, H, T, S).
inline Tensor attend_heads(const Tensor& q, const Tensor& k, const Tensor& v,
                           const AttentionOptions& options, Tensor* weights) {
  if (!weights) return attention(q, k, v, options);
  Attended y = attention_with_weights(q, k, v, options);
  *weights = y.weights;
  return y.context;
}

}  // namespace tern::models

// Subjects of single layers and image models, and the choice of a subject by name.
#include "tern/tests/parity/subjects.h"

#include "tern/core/ops/ops.h"
#include "tern/models/gmlp.h"
#include "tern/models/resnet.h"
#include "tern/models/vit.h"
#include "tern/nn/nn.h"

namespace tern::parity {
namespace {

Tensor class_loss(const Inputs& outputs, const Inputs& targets) {
  return cross_entropy(outputs[0], targets[0]);
}

Subject linear_subject(const Reference& r, Rng& rng) {
  const Tensor& w = r.param("weight");
  return make(r, nn::Linear(w.size(1), w.size(0), rng));
}

Subject conv1d_subject(const Reference& r, Rng& rng) {
  const Tensor& w = r.param("weight");
  return make(r, nn::Conv1d(w.size(1), w.size(0), w.size(2), rng,
                            {.stride = r.option("stride"), .padding = r.option("padding")}));
}

Subject conv2d_subject(const Reference& r, Rng& rng) {
  const Tensor& w = r.param("weight");
  auto pair = [&](const char* key) { return r.config.at(key).get<std::array<int64_t, 2>>(); };
  return make(
      r, nn::Conv2d(
             w.size(1), w.size(0), pair("kernel"), rng,
             {.stride = pair("stride"), .padding = pair("padding"), .dilation = pair("dilation")}));
}

Subject embedding_subject(const Reference& r, Rng& rng) {
  const Tensor& w = r.param("weight");
  EmbeddingOptions options;
  if (r.config.contains("padding_idx")) options.padding_idx = r.option("padding_idx");
  return make(r, nn::Embedding(w.size(0), w.size(1), rng, options));
}

Subject gmlp_subject(const Reference& r, Rng& rng) {
  models::GmlpOptions o;
  const Tensor& patches = r.param("model.patch_embed.proj.weight");
  o.patch = r.option("patch");
  o.dim = patches.size(0);
  o.layers = r.option("layers");
  o.fc_dim = r.param("fc_1.weight").size(0);
  o.d_ffn = r.option("d_ffn");
  o.classes = r.param("head.weight").size(0);
  o.image = r.inputs[0].size(2);
  Subject s = make(r, models::Gmlp(o, rng));
  s.loss = class_loss;
  return s;
}

Subject vit_subject(const Reference& r, Rng& rng) {
  Subject s = make(r, models::Vit(models::vit_options_of(r.parameters, r.option("heads")), rng));
  s.loss = class_loss;
  return s;
}

Subject resnet_subject(const Reference& r, Rng& rng) {
  Subject s = make(r, models::ResNet(models::resnet_options_of(r.parameters), rng));
  s.loss = class_loss;
  return s;
}

Subject gmlp_timm_subject(const Reference& r, Rng& rng) {
  models::GmlpOptions o = models::gmlp_paper_form(r.param("stem.proj.weight").size(0), 0);
  o.image = r.inputs[0].size(2);
  o.patch = r.option("patch");
  o.layers = r.option("blocks");
  o.d_ffn = r.option("mlp_ratio") * o.dim;
  o.classes = r.param("head.weight").size(0);
  Subject s = make(r, models::Gmlp(o, rng));
  s.loss = class_loss;
  return s;
}

}  // namespace

std::optional<Subject> layer_subject(const Reference& r, Rng& rng) {
  auto is = [&](const char* name) { return r.name == name; };
  if (is("linear")) return linear_subject(r, rng);
  if (is("layer_norm")) return make(r, nn::LayerNorm(r.param("weight").shape()));
  if (is("batch_norm2d")) return make(r, nn::BatchNorm2d(r.param("weight").size(0)));
  if (is("conv1d")) return conv1d_subject(r, rng);
  if (is("conv2d")) return conv2d_subject(r, rng);
  if (is("embedding")) return embedding_subject(r, rng);
  if (is("gmlp")) return gmlp_subject(r, rng);
  if (is("vit")) return vit_subject(r, rng);
  if (r.name.starts_with("gmlp_timm")) return gmlp_timm_subject(r, rng);
  if (r.name.starts_with("resnet")) return resnet_subject(r, rng);
  return std::nullopt;
}

std::function<Tensor(const Inputs&, const Inputs&)> token_loss(const Reference& r) {
  const CrossEntropyOptions loss{.ignore_index = r.option("ignore_index", -100),
                                 .label_smoothing = r.config.value("label_smoothing", 0.0)};
  return [loss](const Inputs& y, const Inputs& t) {
    return cross_entropy(flatten(y[0], 0, 1), flatten(t[0]), loss);
  };
}

std::optional<Subject> make_subject(const Reference& r) {
  Rng rng(0);
  for (auto family :
       {layer_subject, recurrent_subject, attention_subject, gpt_subject, bert_subject})
    if (std::optional<Subject> s = family(r, rng)) return s;
  return std::nullopt;
}

}  // namespace tern::parity

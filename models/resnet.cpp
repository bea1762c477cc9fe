// ResNet's blocks, stages and head, and its class activation maps. Named sizes and states:
// resnet_options.cpp.
#include "tern/models/resnet.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "tern/core/ops/einsum/einsum.h"
#include "tern/core/tape/autograd.h"

namespace tern::models {
namespace {

// Channels of a block's output per plane.
int64_t expansion(const ResNetOptions& o) { return o.block == ResNetBlockKind::bottleneck ? 4 : 1; }

// Channels of a bottleneck's 3x3.
int64_t inner_width(const ResNetOptions& o, int64_t planes) {
  return planes * o.width_per_group / 64 * o.groups;
}

void check_resnet(const ResNetOptions& o) {
  check(!o.layers.empty() && std::all_of(o.layers.begin(), o.layers.end(),
                                         [](int64_t blocks) { return blocks > 0; }),
        "ResNet: needs at least one stage, and at least one block in each; layers are {}",
        fmt::join(o.layers, ", "));
  check(o.layers.size() <= 16,
        "ResNet: got {} stages; at most 16 are allowed, because each doubles the width",
        o.layers.size());
  check(o.channels > 0 && o.width > 0 && o.classes >= 0,
        "ResNet: {} colours, width {}, {} classes; the first two must be positive, the last not "
        "negative",
        o.channels, o.width, o.classes);
  if (o.block == ResNetBlockKind::basic)
    check(o.groups == 1 && o.width_per_group == 64,
          "ResNet: basic blocks have neither groups nor width_per_group; use a bottleneck");
  check(o.groups > 0 && o.width_per_group > 0 && inner_width(o, o.width) > 0,
        "ResNet: {} groups with width_per_group {} leave no channels of width {}", o.groups,
        o.width_per_group, o.width);
}

// Starts as in torchvision. Padded so that stride 1 keeps the size.
nn::Conv2d convolution(int64_t in, int64_t out, int64_t kernel, Rng& rng,
                       Conv2dOptions options = {}) {
  options.padding = kernel / 2;
  nn::Conv2d conv(in, out, kernel, rng, options, nn::Bias::no);
  nn::init::kaiming_normal(
      conv.weight, rng, {.fan = nn::init::Fan::out, .nonlinearity = nn::init::Nonlinearity::relu});
  return conv;
}

nn::Conv2d first_convolution(const ResNetOptions& o, Rng& rng) {
  check_resnet(o);
  return o.small_pictures ? convolution(o.channels, o.width, 3, rng)
                          : convolution(o.channels, o.width, 7, rng, {.stride = 2});
}

}  // namespace

ResNetBlock::ResNetBlock(const ResNetOptions& o, int64_t in, int64_t planes, int64_t stride,
                         Rng& rng)
    : conv1(o.block == ResNetBlockKind::basic ? convolution(in, planes, 3, rng, {.stride = stride})
                                              : convolution(in, inner_width(o, planes), 1, rng)),
      bn1(conv1.weight.size(0)),
      conv2(o.block == ResNetBlockKind::basic
                ? convolution(planes, planes, 3, rng)
                : convolution(bn1.weight.size(0), bn1.weight.size(0), 3, rng,
                              {.stride = stride, .groups = o.groups})),
      bn2(conv2.weight.size(0)) {
  const int64_t out = planes * expansion(o);
  if (o.block == ResNetBlockKind::bottleneck) {
    conv3 = convolution(bn2.weight.size(0), out, 1, rng);
    bn3.emplace(out);
  }
  if (stride != 1 || in != out)
    downsample.emplace(convolution(in, out, 1, rng, {.stride = stride}), nn::BatchNorm2d(out));
  if (o.zero_init_residual) nn::init::constant((bn3 ? *bn3 : bn2).weight, 0);
}

Tensor ResNetBlock::operator()(const Tensor& x) const {
  Tensor h = bn2(conv2(relu(bn1(conv1(x)))));
  if (conv3) h = (*bn3)((*conv3)(relu(h)));
  return relu(h + (downsample ? (*downsample)(x) : x));
}

ResNet::ResNet(const ResNetOptions& o, Rng& rng)
    : options(o), conv1(first_convolution(o, rng)), bn1(o.width), dropout(o.dropout, rng) {
  int64_t in = o.width, planes = o.width;
  for (size_t s = 0; s < o.layers.size(); ++s, planes *= 2) {
    std::vector<ResNetBlock>& blocks = stages.emplace_back();
    for (int64_t i = 0; i < o.layers[s]; ++i) {
      blocks.emplace_back(o, in, planes, s > 0 && i == 0 ? 2 : 1, rng);
      in = planes * expansion(o);
    }
  }
  if (o.classes > 0) fc.emplace(in, o.classes, rng);
}

Tensor ResNet::features(const Tensor& images) const {
  check(images.ndim() == 4 && images.size(1) == options.channels,
        "ResNet: needs images (B, {}, H, W), the shape is {}", options.channels, images.shape());
  Tensor x = relu(bn1(conv1(images)));
  if (!options.small_pictures) x = max_pool2d(x, {.kernel = 3, .stride = 2, .padding = 1});
  for (const std::vector<ResNetBlock>& stage : stages)
    for (const ResNetBlock& block : stage)
      x = nn::recomputed(options.recompute, {x},
                         [&block](std::span<const Tensor> in) { return block(in[0]); });
  return x;
}

Tensor ResNet::operator()(const Tensor& images) const {
  const Tensor pooled = mean(features(images), {2, 3});
  return fc ? (*fc)(dropout(pooled)) : pooled;
}

int64_t ResNet::feature_channels() const {
  return options.width * expansion(options) << (options.layers.size() - 1);
}

std::string ResNet::summary() const {
  int64_t blocks = 0;
  for (const int64_t n : options.layers) blocks += n;
  return fmt::format("{} {} blocks in {} stages of {} to {} channels{}", blocks,
                     options.block == ResNetBlockKind::basic ? "basic" : "bottleneck",
                     options.layers.size(), options.width * expansion(options), feature_channels(),
                     options.small_pictures ? ", behind a stem for small pictures" : "");
}

PatchMaps ResNet::patch_maps(const Tensor& images) const {
  if (!fc) return {};
  NoGradGuard no_grad;
  const Tensor last = features(images);                                // (B,F,h,w)
  const Tensor classes = argmax((*fc)(mean(last, {2, 3})), -1);        // (B)
  const Tensor weights = index_select(fc->weight, 0, classes);         // (B,F)
  const Tensor parts = relu(einsum("bfhw,bf->bhw", {last, weights}));  // (B,h,w)
  const Tensor all = maximum(sum(parts, {1, 2}, true), 1e-30);         // no parts: all 0
  return {"Class activation",
          "What each place of the last features adds to the logit of the predicted class, as its "
          "share of all that speaks for this class (class activation map). What speaks against it "
          "counts as 0.",
          {{"Predicted class", unsqueeze(parts / all, 1)}}};
}

}  // namespace tern::models

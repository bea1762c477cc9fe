// The airbench94 network: whitening convolution, blocks that begin as the identity, and a scaled
// head.
#include "tern/models/airbench.h"

#include <fmt/format.h>

#include "tern/core/base/error.h"
#include "tern/core/ops/convolution/pooling.h"
#include "tern/models/parts.h"
#include "tern/nn/init.h"

namespace tern::models {
namespace {

nn::Conv2d identity_conv(int64_t in, int64_t out, Rng& rng) {
  nn::Conv2d conv(in, out, 3, rng, {.padding = 1}, nn::Bias::no);
  nn::init::dirac(narrow(conv.weight.own().detach(), 0, 0, std::min(in, out)));
  return conv;
}

nn::BatchNormConfig norm_of(const AirbenchOptions& o) {
  return {.eps = o.norm_eps, .momentum = o.norm_momentum, .scale = false};
}

int64_t whitening_filters(const AirbenchOptions& o) {
  return 2 * o.channels * o.whiten_kernel * o.whiten_kernel;
}

}  // namespace

AirbenchOptions airbench_options(const std::string& name) {
  check(name == "airbench94", "airbench: no configuration '{}'; the only one is airbench94", name);
  return {};
}

std::vector<std::string> airbench_names() { return {"airbench94"}; }

AirbenchBlock::AirbenchBlock(int64_t in, int64_t out, const AirbenchOptions& o, Rng& rng)
    : conv1(identity_conv(in, out, rng)),
      norm1(out, norm_of(o)),
      conv2(identity_conv(out, out, rng)),
      norm2(out, norm_of(o)) {}

Tensor AirbenchBlock::operator()(const Tensor& x) const {
  const Tensor h = gelu(norm1(max_pool2d(conv1(x))));
  return gelu(norm2(conv2(h)));
}

Airbench::Airbench(const AirbenchOptions& o, Rng& rng)
    : options(o),
      whitening(o.channels, whitening_filters(o), o.whiten_kernel, rng),
      dropout(o.dropout, rng),
      head(o.widths.empty() ? whitening_filters(o) : o.widths.back(), o.classes, rng,
           nn::Bias::no) {
  const int64_t halved = int64_t{1} << o.widths.size();
  check(o.image - o.whiten_kernel + 1 >= halved,
        "Airbench: {} blocks need images of at least {} pixels per side, they have {}",
        o.widths.size(), halved + o.whiten_kernel - 1, o.image);
  Tensor(whitening.weight.own()).set_requires_grad(false);
  nn::init::constant(whitening.bias, 0);
  int64_t in = whitening_filters(o);
  for (const int64_t out : o.widths) {
    blocks.emplace_back(in, out, o, rng);
    in = out;
  }
}

Tensor Airbench::operator()(const Tensor& images) const {
  check_images("Airbench", images, options);
  Tensor x = gelu(whitening(images));
  for (const AirbenchBlock& block : blocks) x = block(x);
  x = flatten(adaptive_max_pool2d(x, 1), 1);  // (B, C)
  return head(dropout(x)) * options.scale;
}

void Airbench::whiten(const Tensor& images) { nn::init::whitening(whitening.weight.own(), images); }

void Airbench::train_whitening_bias(bool on) { Tensor(whitening.bias.own()).set_requires_grad(on); }

std::string Airbench::summary() const {
  return fmt::format("{} whitening filters and blocks of {} channels", whitening_filters(options),
                     fmt::join(options.widths, ", "));
}

}  // namespace tern::models

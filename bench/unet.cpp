// Training step of a U-Net that reconstructs 16 pictures of 32 x 32, built from layers of nn.
#include "tern/bench/cases.h"
#include "tern/nn/nn.h"

namespace tern::bench {
namespace {

nn::Conv2d conv3x3(int64_t in, int64_t out, Rng& rng, int64_t stride = 1) {
  return {in, out, 3, rng, {.stride = stride, .padding = 1}};
}

/// Doubles height and width.
nn::ConvTranspose2d enlarge(int64_t in, int64_t out, Rng& rng) {
  return {in, out, 4, rng, {.stride = 2, .padding = 1}};
}

/// silu(norm(conv(x))), with a norm of 8 groups.
struct NormedConv {
  nn::Conv2d conv;
  nn::GroupNorm norm;
  NormedConv(int64_t in, int64_t out, int64_t stride, Rng& rng)
      : conv(conv3x3(in, out, rng, stride)), norm(8, out) {}
  Tensor operator()(const Tensor& x) const { return silu(norm(conv(x))); }
  static void fields(auto& m, auto&& visit) { visit("conv", m.conv), visit("norm", m.norm); }
};

/// A U-Net (Ronneberger et al. 2015) from pictures to pictures: each level of the decoder also gets
/// the encoder's output of the same size.
struct UNet {
  NormedConv large, medium, small, middle;
  nn::Conv2d middle_out, medium_out, large_out, picture;
  nn::ConvTranspose2d to_medium, to_large;
  explicit UNet(Rng& rng)
      : large(3, 64, 1, rng),
        medium(64, 128, 2, rng),
        small(128, 256, 2, rng),
        middle(256, 256, 1, rng),
        middle_out(conv3x3(256, 256, rng)),
        medium_out(conv3x3(256, 128, rng)),
        large_out(conv3x3(128, 64, rng)),
        picture(conv3x3(64, 3, rng)),
        to_medium(enlarge(256, 128, rng)),
        to_large(enlarge(128, 64, rng)) {}
  Tensor operator()(const Tensor& x) const {  // (B, 3, H, W), H and W multiples of 4
    const Tensor a = large(x), b = medium(a);
    Tensor y = silu(middle_out(middle(small(b))));
    y = silu(medium_out(cat({to_medium(y), b}, 1)));
    y = silu(large_out(cat({to_large(y), a}, 1)));
    return picture(y);
  }
  static void fields(auto& m, auto&& visit) {
    visit("large", m.large), visit("medium", m.medium), visit("small", m.small);
    visit("middle", m.middle), visit("middle_out", m.middle_out);
    visit("to_medium", m.to_medium), visit("medium_out", m.medium_out);
    visit("to_large", m.to_large), visit("large_out", m.large_out), visit("picture", m.picture);
  }
};

Workload make_unet(nn::Recompute) {
  Rng rng(0);
  auto model = std::make_shared<UNet>(rng);
  const Tensor x = randn({16, 3, 32, 32}, rng);
  return {nn::named_parameters(*model), [=] { return mse_loss((*model)(x), x); }};
}

}  // namespace

std::vector<Case> unet_cases() { return {{"unet/b16", 16, make_unet}}; }

}  // namespace tern::bench

// Augmentation of training pictures: byte operations against Pillow's results, crops and mirrors
// against naive loops, random choices against all possible ones.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <vector>

#include "tern/core/base/error.h"
#include "tern/core/tape/autograd.h"
#include "tern/core/tape/record.h"
#include "tern/data/images/augment.h"
#include "tern/data/images/image_ops.h"
#include "tern/tests/support/errors.h"

namespace tern::test_augment {
using namespace tern::datasets;

namespace {

uint8_t at(const SquarePicture& x, int c, int row, int col) { return x[(c * 32 + row) * 32 + col]; }

/// The two pictures whose results in Pillow are known: a smooth one with many values, and one with
/// three values per channel.
SquarePicture smooth_image(int side = 32) {
  SquarePicture image;
  for (int c = 0; c < 3; ++c)
    for (int y = 0; y < side; ++y)
      for (int x = 0; x < side; ++x)
        image.push_back(static_cast<uint8_t>(
            40 + (x * (5 + c) + y * (3 * c + 2) + (x * y * (c + 3)) % 17) % 160));
  return image;
}

SquarePicture coarse_image() {
  SquarePicture image;
  for (int c = 0; c < 3; ++c)
    for (int y = 0; y < 32; ++y)
      for (int x = 0; x < 32; ++x)
        image.push_back(static_cast<uint8_t>((x * x + 7 * y * c) % 3 * 100 + c));
  return image;
}

/// FNV-1a over the bytes of (3, S, S), in the order of numpy.
uint64_t hash(const SquarePicture& x) {
  uint64_t h = 0xcbf29ce484222325;
  for (uint8_t b : x) h = (h ^ b) * 0x100000001b3;
  return h;
}

struct PillowRow {
  const char* name;
  uint64_t smooth, coarse;  // hashes of Pillow 13's results
  uint64_t large;           // the same for the smooth picture of side 45; 0: unknown
  SquarePicture (*op)(const SquarePicture& x);
};

// ImageOps.autocontrast(i) etc.; rotate(-30, fillcolor=(128,)*3), transform(size, AFFINE, (...)).
constexpr PillowRow kPillow[] = {
    {"autocontrast", 0xa8fd37bcf5a0285b, 0xc5568f3ccf2e7fc8, 0xff8049673e3b8022, autocontrast},
    {"equalize", 0x7f73d19f64418167, 0x7809a1628367b5fd, 0xf27457f28bb08417, equalize},
    {"posterize 3", 0x84b1b4e4ef90ee85, 0x90c95c021b6ed305, 0x847c7d78c998d677,
     [](const SquarePicture& x) { return posterize(x, 3); }},
    {"posterize 8", 0x73a785190fb78e8c, 0x1498e968b7bdef79, 0,
     [](const SquarePicture& x) { return posterize(x, 8); }},
    {"solarize 100", 0x6d0af97bbd545d53, 0xda8887bd193ab140, 0x12f175646edf6215,
     [](const SquarePicture& x) { return solarize(x, 100); }},
    {"solarize 256", 0x73a785190fb78e8c, 0x1498e968b7bdef79, 0,
     [](const SquarePicture& x) { return solarize(x, 256); }},
    {"brightness .4", 0x9054fc124c18dbbf, 0x46de5bc76b3504ad, 0,
     [](const SquarePicture& x) { return adjust_brightness(x, .4f); }},
    {"brightness 1.7", 0x2bb5d5231859e196, 0x2f3eb5f040fd85f1, 0x23bd7d6ec1f98259,
     [](const SquarePicture& x) { return adjust_brightness(x, 1.7f); }},
    {"color 0", 0x413972dea6eb58a, 0xed275f9ed604ce2f, 0,
     [](const SquarePicture& x) { return adjust_color(x, 0); }},
    {"color 1.63", 0x5568e9ad7d907b72, 0xf3b5750e67a7ebc0, 0x1497dcc13f26b704,
     [](const SquarePicture& x) { return adjust_color(x, 1.63f); }},
    {"contrast .3", 0xce3439dddaf72c15, 0x48deee4d7ed4ad8b, 0x724d4d93b5aa8636,
     [](const SquarePicture& x) { return adjust_contrast(x, .3f); }},
    {"contrast 1.9", 0xfbb91c487c20c1ad, 0x5e97e1a7235ffd80, 0,
     [](const SquarePicture& x) { return adjust_contrast(x, 1.9f); }},
    {"sharpness 0", 0x4c292c0f4df9db09, 0x4d3d79907ac5ee39, 0,
     [](const SquarePicture& x) { return adjust_sharpness(x, 0); }},
    {"sharpness 1.5", 0x21bfe5ccb09dc95e, 0xdbb050d849434905, 0x6d92ebad145f86f4,
     [](const SquarePicture& x) { return adjust_sharpness(x, 1.5f); }},
    {"rotate 17", 0xfbb775940170f85, 0xcd46bf3419be293d, 0xd08c6caab5c8adf1,
     [](const SquarePicture& x) { return rotate(x, 17); }},
    {"rotate -30", 0x627fa3d677b25a6, 0x135ade9b92bc6911, 0xd7ea60dbcdd39ba0,
     [](const SquarePicture& x) { return rotate(x, -30, 128); }},
    {"shear x", 0xc4828a661f8ad0cc, 0x6ff9014677c39b5b, 0,
     [](const SquarePicture& x) {
       return affine(x, {1, .27, 0, 0, 1, 0});
     }},
    {"shear y", 0x28d5599c6f89308e, 0x4afc7ab0ac19d36f, 0,
     [](const SquarePicture& x) {
       return affine(x, {1, 0, 0, -.15, 1, 0}, 9);
     }},
    {"translate x", 0x316643d706be425b, 0x70d46fe396e3f411, 0,
     [](const SquarePicture& x) {
       return affine(x, {1, 0, 5, 0, 1, 0});
     }},
    {"affine", 0xe3b485700b23fe44, 0xaf2f04f18430de91, 0xa122cdd6a94cc3f1,
     [](const SquarePicture& x) {
       return affine(x, {.9, .2, 3.3, -.1, 1.2, -2.7});
     }},
};

/// Images (n, 3, 32, 32), picture i filled with i + 1.
Tensor numbered_images(int64_t n) {
  Fresh t({n, 3, 32, 32}, DType::f32);
  for (int64_t i = 0; i < n; ++i)
    std::fill_n(t.data<float>() + i * kImageBytes, kImageBytes, static_cast<float>(i + 1));
  return not_differentiable(t);
}

std::vector<float> augmented(const SquarePicture& x, const AugmentOptions& options, uint64_t seed,
                             const Normalization& normalization = {}) {
  std::vector<float> out(kImageBytes);
  Rng rng(seed);
  augment(x, options, normalization, rng, out.data());
  return out;
}

const Normalization kBytes = {{0, 0, 0}, {1 / 255., 1 / 255., 1 / 255.}};  // keeps the bytes

}  // namespace

TEST_CASE("augment: operations on bytes equal Pillow's") {
  for (const PillowRow& row : kPillow) {
    CHECK_MESSAGE(hash(row.op(smooth_image())) == row.smooth, row.name);
    CHECK_MESSAGE(hash(row.op(coarse_image())) == row.coarse, row.name);
    if (row.large) CHECK_MESSAGE(hash(row.op(smooth_image(45))) == row.large, row.name);
  }
  // A few values, at positions 0, 1000, 2000 and 3071.
  auto values = [](const SquarePicture& x) {
    return std::vector<int>{x[0], x[1000], x[2000], x[3071]};
  };
  const SquarePicture x = smooth_image();
  CHECK(values(x) == std::vector<int>{40, 155, 142, 196});
  CHECK(values(autocontrast(x)) == std::vector<int>{0, 184, 163, 250});
  CHECK(values(equalize(x)) == std::vector<int>{0, 248, 218, 255});
  CHECK(values(posterize(x, 3)) == std::vector<int>{32, 128, 128, 192});
  CHECK(values(solarize(x, 100)) == std::vector<int>{40, 100, 113, 59});
}

TEST_CASE("augment: a picture that is not square is refused") {
  const SquarePicture wrong(3 * 45 * 44);
  CHECK_THROWS_WITH_AS(rotate(wrong, 17), doctest::Contains("not three square planes"), Error);
}

TEST_CASE("augment: options that make no sense are refused, before anything random is drawn") {
  std::vector<float> out(kImageBytes);
  const auto refused = [&](const AugmentOptions& options) {
    Rng rng(1);
    const std::string error =
        test::error_of([&] { augment(smooth_image(), options, {}, rng, out.data()); });
    CHECK(rng == Rng(1));
    return error;
  };
  CHECK(test::contains(refused({.crop_padding = -1}), "crop_padding -1, "));
  CHECK(test::contains(refused({.randaugment = -1}), "randaugment -1 "));
  CHECK(test::contains(refused({.cutout = -1}), "cutout -1 must not be negative"));
  CHECK(test::contains(refused({.crop_padding = kImageSide, .reflect = true}),
                       "a picture of side 32 has no 32 pixels to reflect"));
  for (const int bits : {-1, 9})
    CHECK_THROWS_WITH_AS(posterize(smooth_image(), bits), doctest::Contains("; 0 to 8"), Error);
  CHECK(MixOptions{.mixup = -1}.on());  // so that a loader calls mix_images, which refuses it
}

TEST_CASE("augment: neutral parameters leave a picture unchanged") {
  for (const SquarePicture& x : {smooth_image(), coarse_image()}) {
    for (auto adjust : {adjust_brightness, adjust_color, adjust_contrast, adjust_sharpness})
      CHECK(adjust(x, 1) == x);
    CHECK(rotate(x, 0) == x);
    CHECK(rotate(x, 360) == x);
    CHECK(rotate(rotate(x, 90), -90) == x);
    CHECK(shift_flip(x, 0, 0, false) == x);
    CHECK(shift_flip(shift_flip(x, 0, 0, true), 0, 0, true) == x);
    CHECK(affine(x, {1, 0, 0, 0, 1, 0}) == x);
  }
  const SquarePicture flat(kImageBytes, 77);
  CHECK(autocontrast(flat) == flat);
  CHECK(equalize(flat) == flat);
  CHECK(posterize(flat, 0) == SquarePicture(kImageBytes));
}

TEST_CASE("augment: shift and mirror, against a naive loop") {
  const SquarePicture x = smooth_image();
  for (int right : {-40, -32, -5, 0, 3, 31, 32, 99})
    for (int down : {-33, -4, 0, 1, 32})
      for (bool flip : {false, true}) {
        const SquarePicture y = shift_flip(x, right, down, flip, 9);
        bool same = true;
        for (int c = 0; c < 3; ++c)
          for (int row = 0; row < 32; ++row)
            for (int col = 0; col < 32; ++col) {
              const int from_row = row - down, from_col = col - right;
              const bool inside = from_row >= 0 && from_row < 32 && from_col >= 0 && from_col < 32;
              const int expected = inside ? at(x, c, from_row, from_col) : 9;
              same &= at(y, c, row, flip ? 31 - col : col) == expected;
            }
        CHECK_MESSAGE(same, right, " ", down, " ", flip);
      }
}

TEST_CASE("augment: normalize computes (byte / 255 - mean) / std") {
  const SquarePicture x = smooth_image();
  const std::vector<float> out = augmented(x, {}, 0);
  const double mean[] = {.4914, .4822, .4465}, std[] = {.2470, .2435, .2616};
  double worst = 0;
  for (int i = 0; i < kImageBytes; ++i)
    worst = std::max(worst, std::abs(out[i] - (x[i] / 255. - mean[i / 1024]) / std[i / 1024]));
  CHECK(worst < 1e-6);  // four roundings of numbers below 4
}

TEST_CASE("augment: the standard pipeline gives every crop and mirror, and nothing else") {
  const SquarePicture x = smooth_image();
  std::set<std::vector<float>> expected, seen;
  for (int right = -4; right <= 4; ++right)
    for (int down = -4; down <= 4; ++down)
      for (bool flip : {false, true}) {
        std::vector<float> y(kImageBytes);
        normalize(shift_flip(x, right, down, flip), kBytes, y.data());
        expected.insert(y);
      }
  CHECK(expected.size() == 162);
  for (uint64_t seed = 0; seed < 2000; ++seed)  // misses one of 162 with probability 7e-4
    seen.insert(augmented(x, AugmentOptions::named("standard"), seed, kBytes));
  CHECK(seen == expected);
}

TEST_CASE("augment: translate gives every reflected shift and mirror, and nothing else") {
  const SquarePicture x = smooth_image();
  const auto reflected = [](int i) { return i < 0 ? -i : i > 31 ? 62 - i : i; };
  std::set<std::vector<float>> expected, seen;
  for (int right = -2; right <= 2; ++right)
    for (int down = -2; down <= 2; ++down)
      for (bool flip : {false, true}) {
        std::vector<float> y;
        for (int c = 0; c < 3; ++c)
          for (int row = 0; row < 32; ++row)
            for (int col = 0; col < 32; ++col)
              y.push_back(
                  at(x, c, reflected(row - down), reflected((flip ? 31 - col : col) - right)));
        expected.insert(y);
      }
  CHECK(expected.size() == 50);
  for (uint64_t seed = 0; seed < 800; ++seed) {  // misses one of 50 with probability 5e-6
    auto y = augmented(x, AugmentOptions::named("translate"), seed, kBytes);
    for (float& v : y) v = std::round(v);
    seen.insert(std::move(y));
  }
  CHECK(seen == expected);
  CHECK_THROWS_WITH_AS(shift_flip_reflected(x, 0, 32, false), doctest::Contains("(0, 32)"), Error);
}

TEST_CASE("augment: cutout zeroes a square and leaves the rest") {
  const SquarePicture x = smooth_image();  // has no zero bytes
  bool whole = false, cut = false, rest_stays = true;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const auto out = augmented(x, {.cutout = 8}, seed, kBytes);
    std::array<int, 3> zeros{};
    int top = 32, bottom = -1, left = 32, right = -1;
    for (int i = 0; i < kImageBytes; ++i) {
      if (out[i] != 0) {
        rest_stays &= std::lround(out[i]) == x[i];
        continue;
      }
      ++zeros[i / 1024];
      top = std::min(top, i / 32 % 32), bottom = std::max(bottom, i / 32 % 32);
      left = std::min(left, i % 32), right = std::max(right, i % 32);
    }
    const int area = (bottom - top + 1) * (right - left + 1);
    CHECK(zeros == std::array<int, 3>{area, area, area});
    CHECK(bottom - top < 8);
    CHECK(right - left < 8);
    CHECK(area >= 16);
    whole |= area == 64;
    cut |= area < 64;
  }
  CHECK(rest_stays);
  CHECK(whole);
  CHECK(cut);
}

TEST_CASE("augment: the same generator gives the same picture") {
  const SquarePicture x = smooth_image();
  std::set<std::vector<float>> different;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const auto out = augmented(x, AugmentOptions::named("strong"), seed);
    CHECK(out == augmented(x, AugmentOptions::named("strong"), seed));
    different.insert(out);
  }
  CHECK(different.size() == 50);
  CHECK(augmented(x, AugmentOptions::named("none"), 1) == augmented(x, {}, 2));
  CHECK_THROWS_WITH_AS(
      AugmentOptions::named("weak"),
      "augment: unknown name \"weak\"; there are none, translate, standard and strong", Error);
}

TEST_CASE("augment: RandAugment draws all its operations") {
  const SquarePicture x = smooth_image();
  std::set<uint64_t> seen;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    Rng rng(seed);
    seen.insert(hash(rand_augment(x, 1, 15, rng)));
  }
  // Identity, autocontrast, equalize, solarize, posterize, and nine with a sign.
  CHECK(seen.size() == 5 + 2 * 9);
  for (auto expected :
       {x, autocontrast(x), equalize(x), solarize(x, 128), posterize(x, 6), rotate(x, 15, 128),
        rotate(x, -15, 128), adjust_color(x, 1.45f), adjust_contrast(x, 0.55f),
        adjust_sharpness(x, 1.45f), adjust_brightness(x, 0.55f),
        affine(x, {1, .15, 0, 0, 1, 0}, 128), affine(x, {1, 0, 0, -.15, 1, 0}, 128),
        shift_flip(x, 7, 0, false, 128), shift_flip(x, 0, -7, false, 128)})
    CHECK(seen.contains(hash(expected)));
  Rng rng(0);
  CHECK(rand_augment(x, 0, 9, rng) == x);
  CHECK_THROWS_AS(rand_augment(x, 1, 31, rng), Error);
}

TEST_CASE("augment: RandAugment's solarize inverts bytes from 255 - 8.5 magnitude on") {
  // A picture of one colour: other operations keep it, give another byte or add grey borders.
  for (int magnitude = 0; magnitude <= 30; ++magnitude) {
    CAPTURE(magnitude);
    const int least = (510 - 17 * magnitude + 1) / 2;  // the ceiling of 255 - 8.5 magnitude
    for (int byte : {least - 1, least}) {
      if (byte < 0 || byte > 255) continue;
      const SquarePicture x(kImageBytes, static_cast<uint8_t>(byte));
      const bool inverts = byte == least;
      std::set<uint64_t> seen;
      for (uint64_t seed = 0; seed < 200; ++seed) {
        Rng rng(seed);
        seen.insert(hash(rand_augment(x, 1, magnitude, rng)));
      }
      const SquarePicture inverted(kImageBytes, static_cast<uint8_t>(255 - byte));
      CHECK(seen.contains(hash(inverted)) == inverts);
    }
  }
}

TEST_CASE("augment: sample_beta has the moments of the Beta distribution") {
  for (double alpha : {0.2, 1.0, 4.0}) {
    Rng rng(3);
    const int n = 20000;
    double sum = 0, squares = 0;
    bool inside = true;
    for (int i = 0; i < n; ++i) {
      const double b = sample_beta(alpha, rng);
      inside &= b >= 0 && b <= 1;
      sum += b;
      squares += (b - .5) * (b - .5);
    }
    CHECK(inside);
    const double variance = 1 / (4 * (2 * alpha + 1));
    CHECK(std::abs(sum / n - .5) < 5 * std::sqrt(variance / n));
    // (b - 1/2)^2 is at most 1/4, so its mean has a standard deviation below 1/8 / sqrt(n).
    CHECK(std::abs(squares / n - variance) < 5 * .125 / std::sqrt(n));
  }
  Rng rng(0);
  CHECK_THROWS_AS(sample_beta(0, rng), Error);
  CHECK_THROWS_AS(sample_beta(std::numeric_limits<double>::infinity(), rng), Error);
  const double tiny = sample_beta(1e-4, rng);  // almost surely 0 or 1, never NaN
  CHECK((tiny >= 0 && tiny <= 1));
}

TEST_CASE("augment: mixup blends every picture with the next one") {
  NoGradGuard no_grad;
  Rng rng(5);
  for (int64_t n : {1, 2, 5}) {
    const Tensor images = numbered_images(n);
    const double lambda = mix_images(images, {.mixup = 1}, rng);
    for (int64_t i = 0; i < n; ++i) {
      const double expected = lambda * (i + 1) + (1 - lambda) * ((i + 1) % n + 1);
      for (int64_t j : {0, 1500, 3071})
        CHECK(images.data<float>()[i * kImageBytes + j] == doctest::Approx(expected).epsilon(1e-6));
    }
  }
}

TEST_CASE("augment: CutMix pastes a rectangle of the next picture; lambda is the rest") {
  NoGradGuard no_grad;
  Rng rng(6);
  bool inner = false;
  for (int run = 0; run < 30; ++run) {
    const Tensor images = numbered_images(4);
    const double lambda = mix_images(images, {.cutmix = 1}, rng);
    for (int64_t i = 0; i < 4; ++i) {
      const float* p = images.data<float>() + i * kImageBytes;
      const auto own = std::count(p, p + kImageBytes, static_cast<float>(i + 1));
      const auto next = std::count(p, p + kImageBytes, static_cast<float>((i + 1) % 4 + 1));
      CHECK(own + next == kImageBytes);
      CHECK(static_cast<double>(own) / kImageBytes == doctest::Approx(lambda).epsilon(1e-12));
      CHECK(std::equal(p, p + 1024, p + 1024));  // the same place in every channel
      inner |= own > 0 && next > 0;
    }
  }
  CHECK(inner);
}

TEST_CASE("augment: mixing chooses a method at random, can be off, and checks its options") {
  NoGradGuard no_grad;
  Rng rng(7);
  int blended = 0;
  for (int run = 0; run < 40; ++run) {
    const Tensor images = numbered_images(2);
    mix_images(images, {.mixup = 1, .cutmix = 1}, rng);
    const float v = images.data<float>()[0];
    blended += v != 1 && v != 2;
  }
  CHECK(blended > 5);
  CHECK(blended < 35);
  const Tensor images = numbered_images(3);
  CHECK(mix_images(images, {}, rng) == 1);
  CHECK(images.to_vector<float>() == numbered_images(3).to_vector<float>());
  CHECK_THROWS_AS(mix_images(images, {.mixup = -1}, rng), Error);
}

TEST_CASE("augment: soft targets give both labels their weights") {
  Fresh labels({3}, DType::i64);
  std::copy_n(std::array<int64_t, 3>{2, 0, 2}.begin(), 3, labels.data<int64_t>());
  const Tensor targets = mix_targets(not_differentiable(labels), 3, 0.75);
  CHECK(targets.to_vector<float>() == std::vector<float>{.25f, 0, .75f, .75f, 0, .25f, 0, 0, 1});
  Fresh bad({1}, DType::i64);
  bad.data<int64_t>()[0] = 3;
  CHECK_THROWS_AS(mix_targets(not_differentiable(bad), 3, 0.75), Error);
}

}  // namespace tern::test_augment

// Draws the generated pictures: shapes as functions of the plane, with random place, size, colour
// and noise.
#include "tern/apps/train_cifar/drawn.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "tern/core/base/error.h"
#include "tern/core/base/threads.h"

namespace tern::apps::train_cifar {
namespace {

// A shape, which extends from about -1 to 1: covers() says whether it contains the point (u, v).
struct Shape2d {
  const char* name;
  bool (*covers)(float u, float v);
};

float largest(float u, float v) { return std::max(std::abs(u), std::abs(v)); }
float smallest(float u, float v) { return std::min(std::abs(u), std::abs(v)); }
bool is_odd(float x) { return (static_cast<int>(std::floor(x)) & 1) != 0; }
constexpr float kStripes = 2.0f;  // stripes per radius
constexpr float kHalfRoot = 0.70710678f;

constexpr std::array<Shape2d, 10> kShapes = {{
    {"disc", [](float u, float v) { return u * u + v * v < 0.81f; }},
    {"ring", [](float u, float v) { return std::abs(std::hypot(u, v) - 0.75f) < 0.22f; }},
    {"square", [](float u, float v) { return largest(u, v) < 0.8f; }},
    {"frame", [](float u, float v) { return std::abs(largest(u, v) - 0.68f) < 0.2f; }},
    {"triangle", [](float u, float v) { return v < 0.8f && 2 * std::abs(u) < v + 1; }},
    {"plus", [](float u, float v) { return smallest(u, v) < 0.22f && largest(u, v) < 1; }},
    {"cross",
     [](float u, float v) {
       const float a = kHalfRoot * (u + v), b = kHalfRoot * (u - v);
       return smallest(a, b) < 0.22f && largest(a, b) < 1.1f;
     }},
    {"horizontal stripes",
     [](float u, float v) { return largest(u, v) < 1 && is_odd(v * kStripes); }},
    {"vertical stripes",
     [](float u, float v) { return largest(u, v) < 1 && is_odd(u * kStripes); }},
    {"checkers",
     [](float u, float v) {
       return largest(u, v) < 1 && is_odd(u * kStripes) != is_odd(v * kStripes);
     }},
}};

constexpr float kMaxShift = 4, kMinRadius = 9, kMaxRadius = 13;  // pixels
constexpr float kMaxTurn = 0.15f;                                // radians
constexpr float kMinContrast = 100, kMaxNoise = 16;              // of 255
constexpr int kSub = 3;                                          // samples per pixel and axis

using Color = std::array<float, datasets::kImageChannels>;

float between(Rng& rng, float low, float high) {
  return static_cast<float>(rng.uniform(low, high));
}

Color random_color(Rng& rng) {
  Color c;
  for (float& v : c) v = between(rng, 0, 255);
  return c;
}

float distance(const Color& a, const Color& b) {
  float sum = 0;
  for (int c = 0; c < datasets::kImageChannels; ++c) sum += (a[c] - b[c]) * (a[c] - b[c]);
  return std::sqrt(sum);
}

// The share of each pixel that the shape covers, from 0 to 1.
std::array<float, datasets::kImagePixels> coverage(const Shape2d& shape, Rng& rng) {
  const float x0 = datasets::kImageSide / 2.0f + between(rng, -kMaxShift, kMaxShift);
  const float y0 = datasets::kImageSide / 2.0f + between(rng, -kMaxShift, kMaxShift);
  const float radius = between(rng, kMinRadius, kMaxRadius);
  const float turn = between(rng, -kMaxTurn, kMaxTurn);
  const float c = std::cos(turn) / radius, s = std::sin(turn) / radius;
  std::array<float, datasets::kImagePixels> covered{};
  for (int i = 0; i < datasets::kImagePixels * kSub * kSub; ++i) {
    const int pixel = i / (kSub * kSub), sub = i % (kSub * kSub);
    const float x = pixel % datasets::kImageSide + (sub % kSub + 0.5f) / kSub - x0;
    const float y = pixel / datasets::kImageSide + (sub / kSub + 0.5f) / kSub - y0;
    if (shape.covers(c * x + s * y, c * y - s * x)) covered[pixel] += 1.0f / (kSub * kSub);
  }
  return covered;
}

// `draw(i, label)` gives picture i.
template <class Draw>
std::shared_ptr<const datasets::ImageSet> make_image_set(int64_t n, Draw draw) {
  auto set = std::make_shared<datasets::ImageSet>();
  set->images.resize(static_cast<size_t>(n));
  set->labels.resize(static_cast<size_t>(n));
  parallel_for(n, 8, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      set->labels[i] = static_cast<uint8_t>(i % std::ssize(kShapes));
      set->images[i] = draw(i, set->labels[i]);
    }
  });
  return set;
}

std::shared_ptr<const datasets::ImageSet> draw_set(int64_t n, const Rng& rng) {
  return make_image_set(n, [&](int64_t i, int64_t label) {
    return draw_image(label, rng.stream(static_cast<uint64_t>(i)));
  });
}

datasets::Cifar10 with_names(std::shared_ptr<const datasets::ImageSet> train,
                             std::shared_ptr<const datasets::ImageSet> test) {
  datasets::Cifar10 set{std::move(train), std::move(test), {}};
  for (const Shape2d& shape : kShapes) set.class_names.emplace_back(shape.name);
  return set;
}

}  // namespace

datasets::Image draw_image(int64_t label, Rng rng) {
  check(label >= 0 && label < std::ssize(kShapes), "draw_image: class {}; there are 0 to {}", label,
        kShapes.size() - 1);
  const auto covered = coverage(kShapes[label], rng);
  const Color back = random_color(rng);
  Color front = random_color(rng);
  while (distance(front, back) < kMinContrast) front = random_color(rng);
  std::array<float, datasets::kImageBytes> noise;
  rng.fill_normal(noise.data(), datasets::kImageBytes, 0, between(rng, 0, kMaxNoise));
  datasets::Image image;
  for (int i = 0; i < datasets::kImageBytes; ++i) {
    const int c = i / datasets::kImagePixels;
    const float v = back[c] + covered[i % datasets::kImagePixels] * (front[c] - back[c]) + noise[i];
    image[i] = static_cast<uint8_t>(std::clamp(v + 0.5f, 0.0f, 255.0f));
  }
  return image;
}

datasets::Cifar10 draw_cifar10(int64_t train_n, int64_t test_n, uint64_t seed) {
  check(train_n >= 0 && test_n >= 0, "draw_cifar10: {} training and {} test pictures", train_n,
        test_n);
  return with_names(draw_set(train_n, Rng(seed).stream(0)), draw_set(test_n, Rng(seed).stream(1)));
}

datasets::Cifar10 blank_cifar10(int64_t train_n, int64_t test_n) {
  const auto black = [](int64_t, int64_t) { return datasets::Image{}; };
  return with_names(make_image_set(train_n, black), make_image_set(test_n, black));
}

}  // namespace tern::apps::train_cifar

#include "tern/apps/train_cifar/images.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "tern/core/base/error.h"
#include "tern/core/base/rng.h"
#include "tern/core/ops/ops.h"

namespace tern::apps::train_cifar {

namespace {

// data::augment() of bytes of any form, without RandAugment.
void augment_any(const uint8_t* x, const PictureForm& f, const data::AugmentOptions& o, Rng& rng,
                 float* out) {
  const int64_t s = f.side, places = 2 * o.crop_padding + 1;
  int64_t right = 0, down = 0;
  bool flip = false;
  if (o.crop_padding > 0 || o.flip) {
    right = rng.below(places) - o.crop_padding;
    down = rng.below(places) - o.crop_padding;
    flip = o.flip && (rng.next_u32() & 1);
  }
  for (int64_t c = 0; c < f.channels; ++c) {
    const auto i = static_cast<size_t>(c);
    const auto scale = static_cast<float>(1 / (255 * f.normalization.std[i]));
    const auto shift = static_cast<float>(-f.normalization.mean[i] / f.normalization.std[i]);
    for (int64_t row = 0; row < s; ++row)
      for (int64_t column = 0; column < s; ++column) {
        const int64_t y = row - down, from = (flip ? s - 1 - column : column) - right;
        const bool inside = y >= 0 && y < s && from >= 0 && from < s;
        const uint8_t value = inside ? x[(c * s + y) * s + from] : uint8_t{0};
        out[(c * s + row) * s + column] = static_cast<float>(value) * scale + shift;
      }
  }
}

void write_sample(const uint8_t* x, const PictureForm& f, const data::AugmentOptions& o, Rng& rng,
                  float* out) {
  if (f.side != data::kImageSide) return augment_any(x, f, o, rng, out);
  data::Image image;
  for (auto to = image.begin(); to != image.end(); to += f.numbers())
    std::copy_n(x, f.numbers(), to);  // grey in all three planes, which stay alike
  if (f.channels == data::kImageChannels) return data::augment(image, o, f.normalization, rng, out);
  std::array<float, data::kImageBytes> planes;
  data::augment(image, o, f.normalization, rng, planes.data());
  std::copy_n(planes.data(), f.numbers(), out);
}

}  // namespace

data::Dataset<Sample> limited(const PictureSet& set, const PictureForm& form, int64_t limit) {
  const int64_t numbers = form.numbers();
  const data::Dataset<Sample> all(set.size(), [set, numbers](int64_t i) {
    return Sample{std::shared_ptr<const uint8_t>(set.bytes, set.bytes.get() + i * numbers),
                  set.labels[static_cast<size_t>(i)]};
  });
  return limit > 0 ? all.limit(limit) : all;
}

data::Loader<data::Batch> batches(data::Dataset<Sample> set, const PictureForm& form,
                                  const BatchOptions& options) {
  auto make = [set, form, options](const data::BatchPlan& plan) {
    const int64_t n = std::ssize(plan.indices);
    data::Batch batch{empty({n, form.channels, form.side, form.side}),
                      empty({n}, DType::i64),
                      {},
                      empty({n}, DType::i64)};
    float* const images = batch.images.mutable_data<float>();
    int64_t* const labels = batch.labels.mutable_data<int64_t>();
    plan.for_each_sample([&](int64_t i, int64_t index) {
      const Sample sample = set.get(index);
      Rng rng = plan.sample_rng(index);
      write_sample(sample.bytes.get(), form, options.augment, rng, images + i * form.numbers());
      labels[i] = sample.label;
    });
    std::copy(plan.indices.begin(), plan.indices.end(), batch.indices.mutable_data<int64_t>());
    if (!options.mix.on()) return batch;
    Rng rng = plan.batch_rng();
    const double lambda = data::mix_images(batch.images, options.mix, rng);
    batch.targets = data::mix_targets(batch.labels, form.classes, lambda);
    return batch;
  };
  return {set.size(), make, options.order};
}

int64_t held_out(double share, int64_t images) {
  const int64_t count = std::llround(share * static_cast<double>(images));
  check(share == 0 || (count > 0 && count < images),
        "--hold-out {:g} takes {} of {} training images; some must be held out, and some left",
        share, count, images);
  return count;
}

data::Dataset<Sample> hold_out(data::Dataset<Sample>& set, double share, uint64_t seed) {
  const int64_t n = set.size(), count = held_out(share, n);
  constexpr uint64_t kStream = ~uint64_t{0};  // that of no epoch
  std::vector<int64_t> order = data::permutation(n, Rng(seed).stream(kStream));
  const auto cut = order.begin() + count;
  std::sort(order.begin(), cut);
  std::sort(cut, order.end());
  data::Dataset<Sample> held = set.subset({order.begin(), cut});
  set = set.subset({cut, order.end()});
  return held;
}

Tensor first_images(const data::Dataset<Sample>& set, const PictureForm& form, int64_t count) {
  Tensor images = zeros({count, form.channels, form.side, form.side});
  Rng unused(0);
  for (int64_t i = 0; i < std::min(count, set.size()); ++i)
    write_sample(set.get(i).bytes.get(), form, {}, unused,
                 images.mutable_data<float>() + i * form.numbers());
  return images;
}

}  // namespace tern::apps::train_cifar

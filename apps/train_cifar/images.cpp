#include "tern/apps/train_cifar/images.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "tern/core/base/error.h"
#include "tern/core/base/rng.h"
#include "tern/core/ops/ops.h"
#include "tern/data/images/image_ops.h"

namespace tern::apps::train_cifar {

namespace {

void write_sample(const uint8_t* x, const PictureForm& f, data::AugmentOptions o, Rng& rng,
                  float* out) {
  data::SquarePicture picture(static_cast<size_t>(data::kImageChannels * f.side * f.side));
  for (auto to = picture.begin(); to != picture.end(); to += f.numbers())
    std::copy_n(x, f.numbers(), to);  // grey in all three planes, which stay alike
  o.cutout = static_cast<int>(o.cutout * f.side / data::kImageSide);
  if (f.channels == data::kImageChannels)
    return data::augment(picture, o, f.normalization, rng, out);
  std::vector<float> planes(picture.size());
  data::augment(picture, o, f.normalization, rng, planes.data());
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

data::Loader<data::Batch> test_batches(const data::Dataset<Sample>& set, const PictureForm& form) {
  // Enough pictures to keep the cores busy, few enough to need little memory.
  constexpr int64_t kPixels = 250 * data::kImagePixels, kMost = 250, kLeast = 8;
  const int64_t batch = std::clamp(kPixels / (form.side * form.side), kLeast, kMost);
  return batches(set, form, {.order = {.batch = batch, .shuffle = false, .prefetch = 2}});
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

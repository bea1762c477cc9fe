#include "tern/data/images/image_loader.h"

#include <algorithm>

#include "tern/core/tape/record.h"

namespace tern::data {
namespace {

Batch make_batch(const Dataset<ImageSample>& data, const ImageLoaderOptions& options,
                 const BatchPlan& plan) {
  const int64_t n = std::ssize(plan.indices);
  Fresh images({n, kImageChannels, kImageSide, kImageSide}, DType::f32);
  Fresh labels({n}, DType::i64), indices({n}, DType::i64);
  plan.for_each_sample([&](int64_t i, int64_t index) {
    const ImageSample sample = data.get(index);
    check(sample.label >= 0 && sample.label < options.classes,
          "image_loader: the label is {}, there are {} classes", sample.label, options.classes);
    Rng rng = plan.sample_rng(index);
    augment(*sample.image, options.augment, options.normalization, rng,
            images.data<float>() + i * kImageBytes);
    labels.data<int64_t>()[i] = sample.label;
  });
  std::copy(plan.indices.begin(), plan.indices.end(), indices.data<int64_t>());
  Batch batch{
      not_differentiable(images), not_differentiable(labels), {}, not_differentiable(indices)};
  if (options.mix.on()) {
    Rng rng = plan.batch_rng();
    const double lambda = mix_images(batch.images, options.mix, rng);
    batch.targets = mix_targets(batch.labels, options.classes, lambda);
  }
  return batch;
}

}  // namespace

Dataset<ImageSample> image_dataset(std::shared_ptr<const ImageSet> set) {
  const int64_t size = set->size();
  return {size, [set = std::move(set)](int64_t i) {
            return ImageSample{std::shared_ptr<const Image>(set, &set->images[i]), set->labels[i]};
          }};
}

Loader<Batch> image_loader(Dataset<ImageSample> data, const ImageLoaderOptions& options) {
  const int64_t size = data.size();
  return Loader<Batch>(
      size,
      [data = std::move(data), options](const BatchPlan& plan) {
        return make_batch(data, options, plan);
      },
      options.order);
}

}  // namespace tern::data

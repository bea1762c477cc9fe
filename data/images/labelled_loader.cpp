// Batches of labelled pictures in memory: augments each sample by its own generator, then mixes the
// batch.
#include "tern/data/images/labelled_loader.h"

#include <algorithm>

#include "tern/core/tape/record.h"

namespace tern::datasets {
namespace {

std::optional<bool> mirrored(const AugmentOptions& o, const BatchPlan& plan, int64_t index) {
  if (!o.flip || !o.alternate_flips) return std::nullopt;
  const bool in_odd = plan.lasting_rng(index).next_u32() & 1, odd = plan.position.epoch % 2 == 1;
  return in_odd == odd;
}

Batch make_batch(const Dataset<LabelledPicture>& data, const PictureForm& form,
                 const LabelledLoaderOptions& options, const BatchPlan& plan) {
  const int64_t n = std::ssize(plan.indices);
  Fresh images({n, form.channels, form.side, form.side}, DType::f32);
  Fresh labels({n}, DType::i64), indices({n}, DType::i64);
  plan.for_each_sample([&](int64_t i, int64_t index) {
    const LabelledPicture picture = data.get(index);
    check(picture.label >= 0 && picture.label < form.classes,
          "labelled_loader: the label is {}, there are {} classes", picture.label, form.classes);
    Rng rng = plan.rng_of(i);
    augment(picture, form, options.augment, rng, images.data<float>() + i * form.numbers(),
            mirrored(options.augment, plan, index));
    labels.data<int64_t>()[i] = picture.label;
  });
  std::copy(plan.indices.begin(), plan.indices.end(), indices.data<int64_t>());
  Batch batch{
      not_differentiable(images), not_differentiable(labels), {}, not_differentiable(indices)};
  if (options.mix.on()) {
    Rng rng = plan.batch_rng();
    const double lambda = mix_images(batch.images, options.mix, rng);
    batch.targets = mix_targets(batch.labels, form.classes, lambda);
  }
  return batch;
}

}  // namespace

void augment(const LabelledPicture& x, const PictureForm& f, AugmentOptions o, Rng& rng, float* out,
             std::optional<bool> mirrored) {
  SquarePicture picture(static_cast<size_t>(kImageChannels * f.side * f.side));
  for (auto to = picture.begin(); to != picture.end(); to += f.numbers())
    std::copy_n(x.bytes.get(), f.numbers(), to);  // grey fills all three planes, which stay equal
  o.cutout = static_cast<int>(o.cutout * f.side / kImageSide);
  if (f.channels == kImageChannels) return augment(picture, o, f.normalization, rng, out, mirrored);
  std::vector<float> planes(picture.size());
  augment(picture, o, f.normalization, rng, planes.data(), mirrored);
  std::copy_n(planes.data(), f.numbers(), out);
}

Loader<Batch> labelled_loader(Dataset<LabelledPicture> set, const PictureForm& form,
                              const LabelledLoaderOptions& options) {
  const int64_t size = set.size();
  return Loader<Batch>(
      size,
      [set = std::move(set), form, options](const BatchPlan& plan) {
        return make_batch(set, form, options, plan);
      },
      options.order);
}

}  // namespace tern::datasets

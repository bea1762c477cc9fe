// Selects, holds out and loads the pictures of a run, and computes their checksum.
#include "tern/apps/train_cifar/images.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tern/core/base/error.h"
#include "tern/core/base/rng.h"
#include "tern/core/ops/ops.h"

namespace tern::apps::train_cifar {

datasets::Dataset<LabelledPicture> limited(const LabelledSet& set, const PictureForm& form,
                                           int64_t limit) {
  const datasets::Dataset<LabelledPicture> all = set.dataset(form);
  return limit > 0 ? all.limit(limit) : all;
}

int64_t held_out(double share, int64_t images) {
  const int64_t count = std::llround(share * static_cast<double>(images));
  check(share == 0 || (count > 0 && count < images),
        "--hold-out {:g} takes {} of {} training images; some must be held out, and some must be "
        "left for training",
        share, count, images);
  return count;
}

datasets::Dataset<LabelledPicture> hold_out(datasets::Dataset<LabelledPicture>& set, double share,
                                            uint64_t seed) {
  const int64_t n = set.size(), count = held_out(share, n);
  constexpr uint64_t kStream = ~uint64_t{0};  // a random stream that no epoch uses
  std::vector<int64_t> order = datasets::permutation(n, Rng(seed).stream(kStream));
  const auto cut = order.begin() + count;
  std::sort(order.begin(), cut);
  std::sort(cut, order.end());
  datasets::Dataset<LabelledPicture> held = set.subset({order.begin(), cut});
  set = set.subset({cut, order.end()});
  return held;
}

datasets::Loader<datasets::Batch> test_batches(const datasets::Dataset<LabelledPicture>& set,
                                               const PictureForm& form) {
  // A batch large enough to keep the cores busy, and small enough to need little memory.
  constexpr int64_t kPixels = 250 * datasets::kImagePixels, kMost = 250, kLeast = 8;
  const int64_t batch = std::clamp(kPixels / (form.side * form.side), kLeast, kMost);
  return datasets::labelled_loader(set, form,
                                   {.order = {.batch = batch, .shuffle = false, .prefetch = 2}});
}

Tensor first_images(const datasets::Dataset<LabelledPicture>& set, const PictureForm& form,
                    int64_t count) {
  Tensor images = zeros({count, form.channels, form.side, form.side});
  Rng unused(0);
  for (int64_t i = 0; i < std::min(count, set.size()); ++i)
    datasets::augment(set.get(i), form, {}, unused,
                      images.mutable_data<float>() + i * form.numbers());
  return images;
}

datasets::Picture picture_of(const LabelledPicture& sample, const PictureForm& f) {
  const int64_t plane = f.side * f.side;
  datasets::Picture p{f.side, f.side, {}};
  for (int64_t i = 0; i < plane; ++i)
    for (int64_t c = 0; c < 3; ++c) p.rgb.push_back(sample.bytes.get()[c % f.channels * plane + i]);
  return p;
}

std::string data_checksum(const LabelledPictures& data) {
  uLong crc = 0;
  for (const LabelledSet* set : {&data.train, &data.test}) {
    std::vector<uint8_t> labels;
    for (int64_t label : set->labels) do {
        labels.push_back(static_cast<uint8_t>(label & 255));
      } while (label >>= 8);
    crc = crc32_z(crc, labels.data(), labels.size());
    crc = crc32_z(crc, set->bytes.get(), static_cast<size_t>(set->size() * data.form.numbers()));
  }
  return fmt::format("{} + {} images, {:08x}", data.train.size(), data.test.size(), crc);
}

}  // namespace tern::apps::train_cifar

#include "tern/apps/train_cifar/images.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tern/core/base/error.h"
#include "tern/core/base/rng.h"
#include "tern/core/ops/ops.h"
#include "tern/data/images/image_ops.h"

namespace tern::apps::train_cifar {

std::string data_checksum(const data::Cifar10& data) {
  uLong crc = 0;
  for (const data::ImageSet* set : {data.train.get(), data.test.get()}) {
    crc = crc32_z(crc, set->labels.data(), set->labels.size());
    for (const data::Image& image : set->images) crc = crc32_z(crc, image.data(), image.size());
  }
  return fmt::format("{} + {} images, {:08x}", data.train->size(), data.test->size(), crc);
}

data::Dataset<data::ImageSample> limited(const std::shared_ptr<const data::ImageSet>& set,
                                         int64_t limit) {
  data::Dataset<data::ImageSample> all = data::image_dataset(set);
  return limit > 0 ? all.limit(limit) : all;
}

int64_t held_out(double share, int64_t images) {
  const int64_t count = std::llround(share * static_cast<double>(images));
  check(share == 0 || (count > 0 && count < images),
        "--hold-out {:g} takes {} of {} training images; some must be held out, and some left",
        share, count, images);
  return count;
}

data::Dataset<data::ImageSample> hold_out(data::Dataset<data::ImageSample>& set, double share,
                                          uint64_t seed) {
  const int64_t n = set.size(), count = held_out(share, n);
  constexpr uint64_t kStream = ~uint64_t{0};  // that of no epoch
  std::vector<int64_t> order = data::permutation(n, Rng(seed).stream(kStream));
  const auto cut = order.begin() + count;
  std::sort(order.begin(), cut);
  std::sort(cut, order.end());
  data::Dataset<data::ImageSample> held = set.subset({order.begin(), cut});
  set = set.subset({cut, order.end()});
  return held;
}

Tensor first_images(const data::Dataset<data::ImageSample>& set, int64_t count) {
  constexpr int64_t kSide = data::kImageSide;
  Tensor images = zeros({count, data::kImageChannels, kSide, kSide});
  for (int64_t i = 0; i < std::min(count, set.size()); ++i)
    data::normalize(*set.get(i).image, {},
                    images.mutable_data<float>() + i * images.numel() / count);
  return images;
}

}  // namespace tern::apps::train_cifar

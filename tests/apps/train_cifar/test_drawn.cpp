// Generated pictures: determined by the seed, read back as written, too hard for a linear model.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "tern/apps/train_cifar/drawn.h"
#include "tern/tests/support/data_files.h"
#include "tern/tests/support/threads.h"

namespace tern::test_drawn {
using namespace tern::apps::train_cifar;
using namespace tern::datasets;
using namespace tern::test;

namespace {

/// The accuracy of a linear classifier: the class whose mean training picture is nearest.
double nearest_mean_accuracy(const ImageSet& train, const ImageSet& test) {
  std::vector<std::array<double, kImageBytes>> mean(10);
  for (int64_t i = 0; i < train.size(); ++i)
    for (int j = 0; j < kImageBytes; ++j)
      mean[train.labels[i]][j] += 10.0 * train.images[i][j] / static_cast<double>(train.size());
  int64_t right = 0;
  for (int64_t i = 0; i < test.size(); ++i) {
    std::array<double, 10> distance{};
    for (int k = 0; k < 10; ++k)
      for (int j = 0; j < kImageBytes; ++j) {
        const double d = test.images[i][j] - mean[k][j];
        distance[k] += d * d;
      }
    auto nearest = std::min_element(distance.begin(), distance.end()) - distance.begin();
    right += nearest == test.labels[i];
  }
  return static_cast<double>(right) / static_cast<double>(test.size());
}

}  // namespace

TEST_CASE("drawn: pictures are read back as they were drawn") {
  TempDir dir;
  const Cifar10 drawn = draw_cifar10(50, 20, 4);
  write_cifar10(dir / "drawn", drawn);
  const Cifar10 read = load_cifar10(dir / "drawn");
  CHECK(read.train->images == drawn.train->images);
  CHECK(read.train->labels == drawn.train->labels);
  CHECK(read.test->images == drawn.test->images);
  CHECK(read.class_names == drawn.class_names);
  CHECK(read.class_names[4] == "triangle");
  CHECK_THROWS_AS(draw_image(10, Rng(0)), Error);
}

TEST_CASE(
    "drawn: the seed determines the pictures, on any number of threads; classes have equal sizes") {
  const Cifar10 a = draw_cifar10(60, 60, 1);
  {
    const Threads one(1);
    CHECK(draw_cifar10(60, 60, 1).train->images == a.train->images);
  }
  CHECK(draw_cifar10(60, 60, 2).train->images != a.train->images);
  CHECK(a.train->images != a.test->images);
  for (int k = 0; k < 10; ++k)
    CHECK(std::count(a.train->labels.begin(), a.train->labels.end(), k) == 6);
  CHECK(draw_cifar10(20, 0, 1).train->images[7] == a.train->images[7]);
}

TEST_CASE("drawn: a linear classifier fails") {
  const Cifar10 set = draw_cifar10(1000, 500, 0);
  CHECK(nearest_mean_accuracy(*set.train, *set.test) < 0.5);
}

}  // namespace tern::test_drawn

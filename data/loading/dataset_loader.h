// A loader of any dataset: worker threads get the samples and combine them into batches.
//
//   Dataset houses(500, [](int64_t i) { return read_house(i); });
//   auto loader = dataset_loader(houses, [](const std::vector<House>& samples) {
//     return HouseBatch{...};  // the collate function: any movable type
//   }, {.batch = 32, .seed = 1, .workers = 2});
//   for (HouseBatch& batch : loader) ...
//
// Exceptions of get(), a map() or the transform are reported with the sample's index, those of
// collate with the batch's samples.
#pragma once

#include <type_traits>
#include <utility>
#include <vector>

#include "tern/data/loading/dataset.h"
#include "tern/data/loading/loader.h"

namespace tern::datasets {

/// Batches made by transform and collate, in the loader's order:
/// - transform(sample, rng) changes a sample at random; its generator belongs to this sample and
///   epoch, for any number of workers. A sample that a sampler repeats gets another one each time;
/// - collate(samples) gets the batch as a std::vector; or collate(samples, plan) also gets its
///   BatchPlan, with the samples' indices and the batch's generator.
/// Both run on several threads at once and must depend only on their arguments.
template <class T, class Transform, class Collate>
auto dataset_loader(Dataset<T> data, Transform transform, Collate collate,
                    const LoaderOptions& options) {
  static_assert(
      std::is_invocable_v<const Transform&, T, Rng&>,
      "dataset_loader: transform must be callable as transform(sample, rng) with an Rng&, and "
      "const: it runs on several threads at the same time, so it cannot be a mutable lambda");
  using Sample = std::decay_t<std::invoke_result_t<const Transform&, T, Rng&>>;
  using Samples = std::vector<Sample>;
  constexpr bool kWithPlan = std::is_invocable_v<const Collate&, Samples, const BatchPlan&>;
  static_assert(kWithPlan || std::is_invocable_v<const Collate&, Samples>,
                "dataset_loader: collate must be callable as collate(std::vector<Sample>) or "
                "collate(std::vector<Sample>, const BatchPlan&), and const: it runs on several "
                "threads at the same time, so it cannot be a mutable lambda");
  const int64_t size = data.size();
  auto make = [data = std::move(data), transform = std::move(transform),
               collate = std::move(collate)](const BatchPlan& plan) {
    Samples samples;
    samples.reserve(plan.indices.size());
    plan.for_each_sample([&](int64_t i, int64_t index) {
      Rng rng = plan.rng_of(i);
      samples.push_back(transform(data.get(index), rng));
    });
    if constexpr (kWithPlan)
      return collate(std::move(samples), plan);
    else
      return collate(std::move(samples));
  };
  using Made = std::decay_t<std::invoke_result_t<const decltype(make)&, const BatchPlan&>>;
  return Loader<Made>(size, std::move(make), options);
}

/// The same without a transform.
template <class T, class Collate>
auto dataset_loader(Dataset<T> data, Collate collate, const LoaderOptions& options) {
  return dataset_loader(
      std::move(data), [](T sample, Rng&) { return sample; }, std::move(collate), options);
}

}  // namespace tern::datasets

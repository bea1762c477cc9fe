// A dataset: a number of samples and a function that gets the i-th. Datasets are small values
// (copies share their content). map, subset, limit, shuffle, concat and batch combine them. Nothing
// is read or computed before a sample is requested.
//
//   Dataset<LabelledPicture> few = set.train.dataset(set.form).shuffle(7).limit(1000);
//
// To make your own, pass a function, or a type with size() and get():
//
//   Dataset squares(100, [](int64_t i) { return Square{i * i}; });
//   Dataset houses(HouseFile("houses.csv"));
//
// get() must give the same sample for the same i, and must be safe to call from several threads.
// Random augmentation belongs to the loader, which knows the epoch: see loader.h.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "tern/core/base/error.h"
#include "tern/core/base/rng.h"

namespace tern::datasets {

/// 0, 1, ..., n - 1 in a uniformly random order.
std::vector<int64_t> permutation(int64_t n, Rng rng);

/// A type that can become a Dataset: size() samples, the i-th from get(i), both const.
template <class S>
concept SampleSource = requires(const S& source, int64_t i) {
  { source.size() } -> std::convertible_to<int64_t>;
  std::decay_t<decltype(source.get(i))>(source.get(i));
};

namespace detail {
/// Sample type of a source without size() or get(). It lets the compiler reach the readable error.
struct NoSample {};
}  // namespace detail

template <class T>
class Dataset {
 public:
  using Sample = T;

  /// get(i) for i in [0, size): any function that returns a T and may be called from several
  /// threads at once (a `mutable` lambda does not compile).
  template <class Get>
  Dataset(int64_t size, Get get)
      : size_(size), get_(std::make_shared<const std::function<T(int64_t)>>(std::move(get))) {
    static_assert(std::is_invocable_r_v<T, const Get&, int64_t>,
                  "Dataset: get must be callable as Sample get(int64_t), and const: loaders call "
                  "it on several threads at the same time, so it cannot be a mutable lambda");
    check(size >= 0, "Dataset: the size {} is negative", size);
  }
  /// A dataset of existing values.
  explicit Dataset(std::vector<T> values) : Dataset(of(std::move(values))) {}
  /// A dataset of a type of your own.
  template <SampleSource Source>
  requires(!std::same_as<Source, Dataset>) explicit Dataset(Source source)
      : Dataset(from(std::move(source))) {}
  /// Refuses other types with a readable error.
  template <class Source>
  requires(!SampleSource<Source> && !std::convertible_to<Source, std::vector<T>>)  //
      explicit Dataset(Source)
      : size_(0) {
    static_assert(!std::same_as<Source, Source>,
                  "Dataset: a data set of your own needs `int64_t size() const` and `get(int64_t) "
                  "const`, which gives a sample");
  }

  int64_t size() const { return size_; }
  T get(int64_t i) const {
    check(i >= 0 && i < size_, "Dataset::get: there is no sample {}; there are {}", i, size_);
    return (*get_)(i);
  }

  /// f(sample) for every sample.
  template <class F>
  auto map(F f) const {
    static_assert(std::is_invocable_v<const F&, T>,
                  "Dataset::map: f must be callable as f(sample), and const: loaders call it on "
                  "several threads at the same time, so it cannot be a mutable lambda");
    using To = std::decay_t<std::invoke_result_t<const F&, T>>;
    return Dataset<To>(
        size_, [from = *this, f = std::move(f)](int64_t i) -> To { return f(from.get(i)); });
  }

  /// The samples with these indices, in this order.
  Dataset subset(std::vector<int64_t> indices) const {
    for (int64_t i : indices)
      check(i >= 0 && i < size_, "Dataset::subset: there is no sample {}; there are {}", i, size_);
    const int64_t n = std::ssize(indices);
    return Dataset(n, [from = *this, indices = std::move(indices)](int64_t i) {
      return from.get(indices[i]);
    });
  }

  /// The first n samples, or all if there are fewer.
  Dataset limit(int64_t n) const {
    check(n >= 0, "Dataset::limit: {} samples; at least 0", n);
    Dataset first = *this;
    first.size_ = std::min(n, size_);
    return first;
  }

  /// The samples in one random order. (The loader shuffles again for each epoch.)
  Dataset shuffle(uint64_t seed) const { return subset(permutation(size_, Rng(seed))); }

  /// These samples, then those of `other`.
  Dataset concat(const Dataset& other) const {
    check(other.size_ <= std::numeric_limits<int64_t>::max() - size_,
          "Dataset::concat: {} and {} samples are too many", size_, other.size_);
    return Dataset(size_ + other.size_, [a = *this, b = other](int64_t i) {
      return i < a.size() ? a.get(i) : b.get(i - a.size());
    });
  }

  /// Groups of n consecutive samples. The last may have fewer, or is dropped.
  Dataset<std::vector<T>> batch(int64_t n, bool drop_last = false) const {
    check(n >= 1, "Dataset::batch: batches of {} samples; at least 1", n);
    const int64_t batches = size_ / n + (size_ % n > 0 && !drop_last);
    return Dataset<std::vector<T>>(batches, [from = *this, n](int64_t b) {
      const int64_t count = std::min(n, from.size() - b * n);
      std::vector<T> group;
      group.reserve(static_cast<size_t>(count));
      for (int64_t i = 0; i < count; ++i) group.push_back(from.get(b * n + i));
      return group;
    });
  }

 private:
  static Dataset of(std::vector<T> values) {
    const int64_t n = std::ssize(values);
    return Dataset(n, [values = std::move(values)](int64_t i) { return values[i]; });
  }

  template <class Source>
  static Dataset from(Source source) {
    const int64_t n = source.size();
    return Dataset(n, [source = std::move(source)](int64_t i) { return source.get(i); });
  }

  int64_t size_;
  std::shared_ptr<const std::function<T(int64_t)>> get_;
};

template <class Get>
Dataset(int64_t, Get) -> Dataset<std::decay_t<std::invoke_result_t<Get&, int64_t>>>;
template <SampleSource Source>
Dataset(Source) -> Dataset<std::decay_t<decltype(std::declval<const Source&>().get(0))>>;
template <class Source>
requires(!SampleSource<Source>) Dataset(Source)
->Dataset<detail::NoSample>;

}  // namespace tern::datasets

// Batches in the order of training, made ahead of their use on worker threads.
//
// The order of an epoch comes from (seed, epoch), the random numbers of a sample from (seed,
// epoch, sample), those of a batch from (seed, epoch, batch). So batches are the same for any
// number of workers, and a loader that is set to a saved position goes on exactly as the one that
// was saved, also in mid-epoch.
//
//   Loader<Batch> loader = image_loader(data, {.order = {.batch = 32, .seed = 1}});
//   for (int64_t epoch = 0; epoch < 10; ++epoch)
//     for (Batch& batch : loader) ...
//
// dataset_loader.h makes a loader of any dataset and a function that puts samples together. Below
// that, Loader<B> makes anything: give it a function from a BatchPlan to B. A Sampler chooses the
// samples of each epoch (see weighted_sampler.h for one). Batches need not be of equal size: a
// Planner puts the batches of each epoch together (see pair_loader.h for one).
//
// What goes wrong on a worker is thrown by next(), in the place of its batch, with the place in
// front: "Loader: epoch 2, batch 17, sample 4711: FILE: ends early". An IoError stays an IoError,
// everything else is an Error; the exception itself is nested in it (std::rethrow_if_nested).
//
// A loader is used by one thread at a time; several loaders know nothing of each other.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "tern/core/base/rng.h"
#include "tern/core/io/state.h"

namespace tern::data {

/// The numbers of the samples of an epoch, in their order, from the epoch's generator. As a Planner
/// it must depend on that alone. weighted_sampler.h has one.
using Sampler = std::function<std::vector<int64_t>(Rng random)>;

struct LoaderOptions {
  int64_t batch = 32;      ///< samples in a batch
  bool shuffle = true;     ///< a new order in each epoch, else 0, 1, 2, ...
  bool drop_last = false;  ///< leave out the last batch of an epoch if it is not full
  uint64_t seed = 0;
  int workers = 1;   ///< threads that make batches; 0: the caller makes them in next()
  int prefetch = 4;  ///< batches that are made ahead; at least 1
  /// What the batches of an epoch are cut from, instead of each sample once; `shuffle` says nothing
  /// then. Samples may be left out or come several times.
  Sampler sampler = {};
};

/// A place between two batches: `batch` of them are done in this epoch.
struct LoaderPosition {
  int64_t epoch = 0;
  int64_t batch = 0;
  bool operator==(const LoaderPosition&) const = default;
};

namespace detail {
/// What a sample threw, on its way to the loader.
struct SampleFailure {
  int64_t index;
  std::exception_ptr cause;
};
}  // namespace detail

/// What a batch is made of.
struct BatchPlan {
  LoaderPosition position;
  std::span<const int64_t> indices;  ///< numbers of the samples; valid while the batch is made
  Rng random;                        ///< the epoch's generator
  /// The generator of the sample with this number, for this epoch.
  Rng sample_rng(int64_t index) const { return random.stream(0).stream(index); }
  /// The generator of this batch as a whole.
  Rng batch_rng() const { return random.stream(1).stream(position.batch); }
  /// f(i, indices[i]) for each sample; what it throws is reported with the sample's number.
  template <class F>
  void for_each_sample(F&& f) const {
    for (int64_t i = 0; i < std::ssize(indices); ++i) {
      try {
        f(i, indices[i]);
      } catch (...) {
        throw detail::SampleFailure{indices[i], std::current_exception()};
      }
    }
  }
};

/// The batches of one epoch: batch b has the samples order[ends[b - 1]] to order[ends[b] - 1].
struct EpochPlan {
  std::vector<int64_t> order;  ///< numbers of samples
  std::vector<int64_t> ends;   ///< rising from above 0; the last is the length of `order` or less
};

/// Gives the plan of an epoch. It must depend on its arguments alone: any epoch may be asked for,
/// several times, from any thread. Each epoch has at least one batch, or none has one.
using Planner = std::function<EpochPlan(int64_t epoch, Rng random)>;

namespace detail {

/// The part of Loader that does not know what a batch is.
class LoaderCore {
 public:
  using Make = std::function<std::shared_ptr<void>(const BatchPlan&)>;
  LoaderCore(int64_t samples, Make make, LoaderOptions options);
  LoaderCore(Planner planner, Make make, LoaderOptions options);
  ~LoaderCore();
  LoaderCore(LoaderCore&&) noexcept;
  LoaderCore& operator=(LoaderCore&&) noexcept;
  std::shared_ptr<void> next();
  LoaderPosition position() const;
  void seek(LoaderPosition position);
  NamedTensors state_dict() const;
  void load_state_dict(const NamedTensors& state);
  int64_t batches_per_epoch() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace detail

template <class B>
class Loader {
 public:
  /// make(plan) gives the batch of a plan. It is called from the worker threads, several at a
  /// time, with gradients off and parallel loops serial, and must depend on the plan alone (so a
  /// `mutable` lambda does not compile).
  template <class Make>
  Loader(int64_t samples, Make make, LoaderOptions options)
      : core_(samples, wrap(std::move(make)), options) {}

  /// As above, with batches of the planner's choice. Of the options seed, workers and prefetch
  /// count; a sampler is an Error.
  template <class Make>
  Loader(Planner planner, Make make, LoaderOptions options)
      : core_(std::move(planner), wrap(std::move(make)), options) {}

  /// The next batch of the epoch; nothing at its end, and then on to the next epoch. What make()
  /// threw is thrown here, in the place of its batch and with that place in front (see above);
  /// another call tries that batch again, and seek() can go on behind it.
  std::optional<B> next() {
    auto batch = std::static_pointer_cast<B>(core_.next());
    if (!batch) return std::nullopt;
    return std::move(*batch);
  }

  /// Where next() goes on.
  LoaderPosition position() const { return core_.position(); }
  /// Goes on from there; batches made ahead are dropped. Error: there is no such batch.
  void seek(LoaderPosition position) { core_.seek(position); }
  /// The position as tensors for a file: "epoch" and "batch", and "order", a checksum of the seed
  /// and of the samples in the epoch's batches.
  NamedTensors state_dict() const { return core_.state_dict(); }
  /// Goes on from there. Error, and no change, if the epoch's batches are others here: another
  /// seed, number of samples or options than where the state was saved.
  void load_state_dict(const NamedTensors& state) { core_.load_state_dict(state); }
  /// Of the epoch at position(); only a planner makes them differ.
  int64_t batches_per_epoch() const { return core_.batches_per_epoch(); }

  /// `for (B& batch : loader)` runs over the rest of the epoch.
  class Iterator {
   public:
    explicit Iterator(Loader* loader) : loader_(loader), batch_(loader->next()) {}
    B& operator*() { return *batch_; }
    Iterator& operator++() {
      batch_.reset();  // its memory can serve the next one
      batch_ = loader_->next();
      return *this;
    }
    bool operator!=(std::nullptr_t) const { return batch_.has_value(); }

   private:
    Loader* loader_;
    std::optional<B> batch_;
  };
  Iterator begin() { return Iterator(this); }
  std::nullptr_t end() const { return nullptr; }

 private:
  template <class Make>
  static detail::LoaderCore::Make wrap(Make make) {
    static_assert(
        std::is_invocable_r_v<B, const Make&, const BatchPlan&>,
        "Loader<B>: make must be callable as B make(const BatchPlan&), and const: it runs "
        "on several threads at a time, so it is no mutable lambda");
    return [make = std::move(make)](const BatchPlan& plan) -> std::shared_ptr<void> {
      return std::make_shared<B>(make(plan));
    };
  }

  detail::LoaderCore core_;
};

}  // namespace tern::data

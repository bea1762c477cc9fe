// Batches in training order, made in advance on worker threads.
//
// An epoch's order depends on (seed, epoch), a sample's random numbers on (seed, epoch, sample, how
// often a sampler drew it before), a batch's on (seed, epoch, batch). So batches are the same for
// any number of workers. A loader set to a saved position continues exactly as the saved one, also
// within an epoch.
//
//   Loader<Batch> loader = labelled_loader(data, form, {.order = {.batch = 32, .seed = 1}});
//   for (int64_t epoch = 0; epoch < 10; ++epoch)
//     for (Batch& batch : loader) ...
//
// dataset_loader.h makes a loader from any dataset and a function that combines samples. Loader<B>
// itself takes any function from BatchPlan to B. A Sampler chooses the samples of each
// epoch (as in weighted_sampler.h). A Planner forms the batches of each epoch, which may differ in
// size (as in pair_loader.h).
//
// next() throws a worker's exception in place of its batch, with the place in front: "Loader: epoch
// 2, batch 17, sample 4711: FILE: ends early". An IoError stays an IoError, all others become
// Error. The original exception is nested in it (std::rethrow_if_nested).
//
// Only one thread at a time may use a loader. Different loaders are independent.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "tern/core/base/error.h"
#include "tern/core/base/rng.h"
#include "tern/core/io/state.h"

namespace tern::datasets {

/// Returns the indices of an epoch's samples, in order, from the epoch's generator. Like a Planner
/// it must depend only on that. weighted_sampler.h has one.
using Sampler = std::function<std::vector<int64_t>(Rng random)>;

/// A sampler for a data set of this size. A loader of another one refuses it.
struct SizedSampler {
  int64_t samples;
  Sampler draw;
  std::vector<int64_t> operator()(Rng random) const { return draw(random); }
};

struct LoaderOptions {
  int64_t batch = 32;      ///< samples per batch
  bool shuffle = true;     ///< a new order for each epoch; false, PyTorch's default: 0, 1, 2, ...
  bool drop_last = false;  ///< drop the last batch of an epoch if it is not full
  uint64_t seed = 0;
  int workers = 1;   ///< threads that make batches; 0: next() makes them
  int prefetch = 4;  ///< batches made in advance; at least 1
  /// Chooses the samples of an epoch; default: each sample once. `shuffle` is then ignored. Samples
  /// may be missing or repeated.
  Sampler sampler = {};
};

/// A position between two batches: `batch` batches of this epoch are done.
struct LoaderPosition {
  int64_t epoch = 0;
  int64_t batch = 0;
  bool operator==(const LoaderPosition&) const = default;
};

namespace detail {
/// Carries an exception and the index of its sample to the loader.
struct SampleFailure {
  int64_t index;
  std::exception_ptr cause;
};
}  // namespace detail

/// Everything that a batch is made from.
struct BatchPlan {
  LoaderPosition position;
  std::span<const int64_t> indices;  ///< the samples' indices; valid while the batch is made
  Rng random;                        ///< the epoch's generator
  int64_t block = 0, blocks = 1;     ///< which block of the batch this is (Loader::cut)
  std::span<const int64_t> batch = indices;  ///< the indices of all blocks
  Rng lasting = random;                      ///< the loader's generator, the same in all epochs
  /// How often each of `indices` came before in this epoch; empty if a sampler repeats none.
  std::span<const int64_t> repeats = {};
  /// The generator of the sample with this index, for this epoch.
  Rng sample_rng(int64_t index) const { return random.stream(0).stream(index); }
  /// The generator of indices[i], for this epoch: sample_rng(indices[i]), but a sample that a
  /// sampler repeats gets a new one each time, so that its augmentations differ.
  Rng rng_of(int64_t i) const {
    const Rng first = sample_rng(indices[i]);
    return repeats.empty() || repeats[i] == 0 ? first : first.stream(repeats[i]);
  }
  /// The generator of the sample with this index, the same in all epochs.
  Rng lasting_rng(int64_t index) const { return lasting.stream(index); }
  /// The generator of this batch, or of this block of it, as a whole.
  Rng batch_rng() const {
    const Rng batch = random.stream(1).stream(position.batch);
    return blocks == 1 ? batch : batch.stream(block);
  }
  /// Calls f(i, indices[i]) for each sample. Exceptions are reported with the sample's index.
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
  std::vector<int64_t> order;  ///< indices of samples
  std::vector<int64_t> ends;   ///< ascending, above 0; the last is at most the length of `order`
  std::vector<int64_t> repeats = {};  ///< BatchPlan::repeats of `order`
};

/// Returns the plan of an epoch. It must depend only on its arguments: any epoch may be requested,
/// several times, from any thread. An epoch may have no batch.
using Planner = std::function<EpochPlan(int64_t epoch, Rng random)>;

namespace detail {

/// The part of Loader that does not depend on the type of a batch.
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
  int64_t samples() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace detail

template <class B>
class Loader {
 public:
  /// make(plan) makes the batch of a plan. Several worker threads call it at once, with gradients
  /// off and parallel loops serial. It must depend only on the plan (a `mutable` lambda does not
  /// compile). Error at the second batch if batches draw from an Rng that they share.
  template <class Make>
  Loader(int64_t samples, Make make, LoaderOptions options)
      : core_(samples, wrap(std::move(make), cut_), options) {}

  /// The same, but the planner chooses the batches. Uses only the options seed, workers and
  /// prefetch; a sampler is an Error.
  template <class Make>
  Loader(Planner planner, Make make, LoaderOptions options)
      : core_(std::move(planner), wrap(std::move(make), cut_), options) {}

  /// Returns the next batch of the epoch, or nothing at its end; the call after that starts the
  /// next epoch. Throws an exception of make() in place of its batch, with its place in front (see
  /// above). Another call tries that batch again; seek() can skip it.
  std::optional<B> next() {
    check(cut_->blocks == 1, "Loader: the batches are cut into {} blocks; call next_blocks()",
          cut_->blocks);
    auto batch = std::static_pointer_cast<B>(core_.next());
    if (!batch) return std::nullopt;
    return std::move(*batch);
  }

  /// For several processes that share a batch: cuts each batch from here on into `blocks` blocks of
  /// neighbouring samples, whose sizes differ by at most one, and makes only blocks `first` to
  /// `end` - 1. Call next_blocks() instead of next(). The samples do not depend on the number of
  /// blocks, but what make() draws from batch_rng() does.
  void cut(int64_t blocks, int64_t first, int64_t end) {
    check(blocks >= 1 && first >= 0 && first < end && end <= blocks,
          "Loader: there are no blocks {} to {} of {}", first, end, blocks);
    seek(position());  // drops batches made in advance
    *cut_ = {blocks, first, end};
  }
  /// Returns the blocks of the next batch, or nothing at the epoch's end. A block without samples
  /// is std::nullopt.
  std::optional<std::vector<std::optional<B>>> next_blocks() {
    check(cut_->blocks > 1, "Loader: the batches are not cut into blocks; call next()");
    auto blocks = std::static_pointer_cast<std::vector<std::optional<B>>>(core_.next());
    if (!blocks) return std::nullopt;
    return std::move(*blocks);
  }

  /// The number of samples in the batch that next() or next_blocks() returned last, and in a block
  /// of it; 0 before the first.
  int64_t samples() const { return core_.samples(); }
  int64_t samples(int64_t block) const {
    return samples() * (block + 1) / cut_->blocks - samples() * block / cut_->blocks;
  }

  /// The position of the next batch.
  LoaderPosition position() const { return core_.position(); }
  /// Continues from `position` and drops batches made in advance. Error if there is no such batch.
  void seek(LoaderPosition position) { core_.seek(position); }
  /// The position as tensors for a file: "epoch", "batch", and "order", a checksum of the seed and
  /// of the samples in the epoch's batches.
  NamedTensors state_dict() const { return core_.state_dict(); }
  /// Continues from the saved position. Error, without a change, if the epoch's batches differ from
  /// the saved ones: another seed, number of samples or other options.
  void load_state_dict(const NamedTensors& state) { core_.load_state_dict(state); }
  /// The number of batches in the epoch at position(). Epochs differ only with a planner or a
  /// sampler.
  int64_t batches_per_epoch() const { return core_.batches_per_epoch(); }

  /// `for (B& batch : loader)` iterates over the rest of the epoch.
  class Iterator {
   public:
    explicit Iterator(Loader* loader) : loader_(loader), batch_(loader->next()) {}
    B& operator*() { return *batch_; }
    Iterator& operator++() {
      batch_.reset();  // the next batch can reuse its memory
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
  struct Cut {
    int64_t blocks = 1, first = 0, end = 1;
  };

  template <class Make>
  static detail::LoaderCore::Make wrap(Make make, std::shared_ptr<const Cut> cut) {
    static_assert(std::is_invocable_r_v<B, const Make&, const BatchPlan&>,
                  "Loader<B>: make must be callable as B make(const BatchPlan&), and const: it "
                  "runs on several threads at the same time, so it cannot be a mutable lambda");
    return [make = std::move(make), cut](const BatchPlan& plan) -> std::shared_ptr<void> {
      if (cut->blocks == 1) return std::make_shared<B>(make(plan));
      auto blocks = std::make_shared<std::vector<std::optional<B>>>();
      for (int64_t b = cut->first; b < cut->end; ++b) {
        const int64_t samples = std::ssize(plan.indices), begin = samples * b / cut->blocks;
        BatchPlan block = plan;  // its `batch` stays the whole batch
        const int64_t count = samples * (b + 1) / cut->blocks - begin;
        block.indices = plan.indices.subspan(begin, count);
        if (!plan.repeats.empty()) block.repeats = plan.repeats.subspan(begin, count);
        block.block = b, block.blocks = cut->blocks;
        blocks->push_back(block.indices.empty() ? std::nullopt : std::optional<B>(make(block)));
      }
      return blocks;
    };
  }

  std::shared_ptr<Cut> cut_ = std::make_shared<Cut>();  // shared with the workers' function
  detail::LoaderCore core_;
};

}  // namespace tern::datasets

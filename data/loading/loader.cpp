// The core of Loader: BatchMaker plans epochs and makes batches, Workers make them in advance on
// threads, LoaderCore keeps the position.
#include "tern/data/loading/loader.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <numeric>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "tern/core/base/cores.h"
#include "tern/core/base/draws.h"
#include "tern/core/base/error.h"
#include "tern/core/base/threads.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/data/loading/dataset.h"

namespace tern::datasets {

std::vector<int64_t> permutation(int64_t n, Rng rng) {
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), int64_t{0});
  for (int64_t i = n - 1; i > 0; --i) std::swap(order[i], order[rng.below(i + 1)]);
  return order;
}

namespace detail {
namespace {

using Made = std::shared_ptr<void>;
using Plan = std::shared_ptr<const EpochPlan>;

// Plans batches of equal size: in the sampler's order, in random order or in natural order.
Planner equal_batches(int64_t samples, const LoaderOptions& options) {
  check(samples >= 0, "Loader: {} samples; at least 0", samples);
  check(options.batch >= 1, "Loader: batches of {} samples; at least 1", options.batch);
  check(!options.drop_last || options.sampler || samples == 0 || samples >= options.batch,
        "Loader: drop_last leaves no batch: {} samples, batches of {}", samples, options.batch);
  const auto* const sized = options.sampler.target<SizedSampler>();
  check(!sized || sized->samples == samples,
        "Loader: the sampler is for {} samples (weighted_sampler: one weight per sample, not per "
        "class), but there are {}",
        sized ? sized->samples : 0, samples);
  return [samples, options](int64_t, Rng random) {
    EpochPlan plan;
    if (options.sampler) {
      plan.order = options.sampler(random);
      std::vector<int64_t> drawn(static_cast<size_t>(samples));  // how often
      for (int64_t i : plan.order) {
        check(i >= 0 && i < samples, "the sampler gives sample {}, but there are {}", i, samples);
        plan.repeats.push_back(drawn[static_cast<size_t>(i)]++);
      }
    } else if (options.shuffle) {
      plan.order = permutation(samples, random);
    } else {
      plan.order.resize(static_cast<size_t>(samples));
      std::iota(plan.order.begin(), plan.order.end(), int64_t{0});
    }
    const int64_t drawn = std::ssize(plan.order);
    for (int64_t end = options.batch; end <= drawn; end += options.batch) plan.ends.push_back(end);
    if (drawn % options.batch != 0 && !options.drop_last) plan.ends.push_back(drawn);
    check(drawn == 0 || !plan.ends.empty(),
          "Loader: drop_last leaves no batch: the sampler gives {} samples, batches of {}", drawn,
          options.batch);
    return plan;
  };
}

// REQUIRES: an exception is being handled. Throws a new one that begins with `place`; the old one
// is nested in it.
[[noreturn]] void throw_from(const std::string& place) {
  try {
    throw;
  } catch (const IoError& e) {
    std::throw_with_nested(IoError(place + e.what()));
  } catch (const std::exception& e) {
    std::throw_with_nested(Error(place + e.what()));
  } catch (...) {
    std::throw_with_nested(Error(place + "something was thrown that is not a std::exception"));
  }
}

// "samples 4, 17, 5, 2, ... (32)".
std::string first_of(std::span<const int64_t> samples) {
  constexpr size_t kShown = 4;
  const auto shown = samples.first(std::min(samples.size(), kShown));
  const std::string text = fmt::format("samples {}", fmt::join(shown, ", "));
  return samples.size() > kShown ? fmt::format("{}, ... ({})", text, samples.size()) : text;
}

void check_plan(const EpochPlan& plan, int64_t epoch) {
  int64_t end = 0;
  for (int64_t next : plan.ends) {
    check(next > end && next <= std::ssize(plan.order),
          "Loader: the planner lets a batch of epoch {} end at {} after one at {}; ends must rise, "
          "up to the {} samples of the order",
          epoch, next, end, plan.order.size());
    end = next;
  }
  check(plan.repeats.empty() || plan.repeats.size() == plan.order.size(),
        "Loader: the planner gives {} repeats for the {} samples of epoch {}", plan.repeats.size(),
        plan.order.size(), epoch);
}

// Plans epochs and makes the batch at a position, which depends only on the options.
class BatchMaker {
 public:
  BatchMaker(Planner planner, LoaderCore::Make make, const LoaderOptions& options)
      : planner_(std::move(planner)), make_(std::move(make)), options_(options) {
    check(options.workers >= 0 && options.workers <= 256, "Loader: {} workers; 0 to 256",
          options.workers);
    check(options.prefetch >= 1, "Loader: prefetch is {}; at least 1", options.prefetch);
  }

  int64_t batches_in(int64_t epoch) { return std::ssize(plan_of(epoch)->ends); }

  int64_t samples_of(LoaderPosition position) {
    const auto batch = static_cast<size_t>(position.batch);
    const Plan plan = plan_of(position.epoch);
    return plan->ends[batch] - (batch > 0 ? plan->ends[batch - 1] : 0);
  }

  // The position after an existing batch, in this epoch or the next.
  LoaderPosition after(LoaderPosition position) {
    if (++position.batch < batches_in(position.epoch)) return position;
    check(batches_in(position.epoch + 1) > 0, "Loader: the planner gives no batch for epoch {}",
          position.epoch + 1);
    return {position.epoch + 1, 0};
  }

  Made make(LoaderPosition position) {
    const Plan plan = plan_of(position.epoch);
    const int64_t begin = position.batch > 0 ? plan->ends[position.batch - 1] : 0;
    const int64_t size = plan->ends[position.batch] - begin;
    constexpr uint64_t kLasting = ~uint64_t{1};  // no epoch has this stream
    BatchPlan batch{
        position,
        std::span(plan->order).subspan(static_cast<size_t>(begin), static_cast<size_t>(size)),
        Rng(options_.seed).stream(static_cast<uint64_t>(position.epoch))};
    batch.lasting = Rng(options_.seed).stream(kLasting);
    if (!plan->repeats.empty())
      batch.repeats =
          std::span(plan->repeats).subspan(static_cast<size_t>(begin), static_cast<size_t>(size));
    return watching_ ? watched(batch) : made(batch);
  }

  // A checksum of the seed and of the samples in an epoch's batches.
  int64_t order_of(int64_t epoch) {
    const Plan plan = plan_of(epoch);
    const auto add = [](uLong crc, const auto* values, size_t n) {
      return crc32_z(crc, reinterpret_cast<const Bytef*>(values), n * sizeof(*values));
    };
    uLong crc = add(0, &options_.seed, 1);
    crc = add(crc, plan->ends.data(), plan->ends.size());
    const auto used = static_cast<size_t>(plan->ends.empty() ? 0 : plan->ends.back());
    return static_cast<int64_t>(add(crc, plan->order.data(), used));
  }

 private:
  /// Maps the key of each generator to the place where the draws of a batch begin.
  using Beginnings = std::map<uint64_t, uint64_t>;

  Made drawing(const BatchPlan& batch, Beginnings& begins) {
    tern::detail::DrawLog log;
    const tern::detail::DrawScope scope(log, tern::detail::DrawScope::Mode::record);
    Made m = made(batch);
    for (const auto& words : log) begins.emplace(words.key, words.first);
    return m;
  }

  // Compares the draws of the first two batches. If both draw from one generator, in different
  // places, makes the batch again. If the places differ this time, the batches share the generator.
  Made watched(const BatchPlan& batch) {
    Beginnings begins;
    Made m = drawing(batch, begins);
    {
      std::lock_guard lock(mutex_);
      if (!first_) {
        first_ = {batch.position, std::move(begins)};
        return m;
      }
      if (first_->first == batch.position) return m;
    }
    const auto moved = [](const Beginnings& a, const Beginnings& b) {
      return std::any_of(a.begin(), a.end(), [&](const auto& place) {
        const auto found = b.find(place.first);
        return found != b.end() && found->second != place.second;
      });
    };
    Beginnings again = begins;
    if (moved(first_->second, begins)) again.clear(), drawing(batch, again);
    check(!moved(begins, again),
          "Loader: make draws from a generator that continues from batch to batch, so batches "
          "depend on the order in which workers make them, and a resumed run gets other batches; "
          "draw from plan.rng_of(i) or plan.batch_rng()");
    watching_ = false;
    return m;
  }

  Made made(const BatchPlan& batch) {
    const auto [epoch, number] = batch.position;
    NoGradGuard no_grad;
    try {
      return make_(batch);
    } catch (const SampleFailure& failure) {
      try {
        std::rethrow_exception(failure.cause);
      } catch (...) {
        throw_from(
            fmt::format("Loader: epoch {}, batch {}, sample {}: ", epoch, number, failure.index));
      }
    } catch (...) {
      throw_from(
          fmt::format("Loader: epoch {}, batch {} ({}): ", epoch, number, first_of(batch.indices)));
    }
  }

  // Keeps the last two plans, since workers run ahead into the next epoch.
  Plan plan_of(int64_t epoch) {
    std::lock_guard lock(mutex_);
    auto& [kept_epoch, plan] = plans_[epoch % 2];
    if (plan && kept_epoch == epoch) return plan;
    const Rng random = Rng(options_.seed).stream(static_cast<uint64_t>(epoch)).stream(2);
    plan = nullptr;
    auto fresh = std::make_shared<const EpochPlan>(planned(epoch, random));
    kept_epoch = epoch;
    return plan = std::move(fresh);
  }

  EpochPlan planned(int64_t epoch, const Rng& random) const {
    EpochPlan plan;
    try {
      plan = planner_(epoch, random);
    } catch (...) {
      throw_from(fmt::format("Loader: planning epoch {}: ", epoch));
    }
    check_plan(plan, epoch);
    return plan;
  }

  Planner planner_;
  LoaderCore::Make make_;
  LoaderOptions options_;
  std::mutex mutex_;
  std::pair<int64_t, Plan> plans_[2];
  std::atomic<bool> watching_ = true;
  std::optional<std::pair<LoaderPosition, Beginnings>> first_;  // draws of the batch made first
};

// Threads that make batches in order and hold up to `ahead` of them. They start once, not in every
// epoch: a seek only pauses them.
class Workers {
 public:
  Workers(BatchMaker& maker, int workers, int ahead)
      : maker_(maker), slots_(static_cast<size_t>(ahead)) {
    try {
      for (int i = 0; i < workers; ++i) threads_.emplace_back([this] { run(); });
    } catch (...) {  // the system has no more threads
      stop();
      throw;
    }
  }
  ~Workers() { stop(); }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  bool paused() const { return paused_; }

  // Drops finished batches, and makes none until start().
  void pause() {
    std::unique_lock lock(mutex_);
    paused_ = true;
    ready_.wait(lock, [&] { return making_ == 0; });
    for (Slot& slot : slots_) slot = {};
  }

  // REQUIRES: paused().
  void start(LoaderPosition first) {
    {
      std::lock_guard lock(mutex_);
      last_ = first;
      claimed_ = taken_ = 0;
      paused_ = false;
    }
    room_.notify_all();
  }

  // The next batch, or its exception.
  Made take() {
    std::unique_lock lock(mutex_);
    Slot& slot = slots_[taken_ % slots_.size()];
    ready_.wait(lock, [&] { return slot.ready; });
    Slot taken = std::exchange(slot, Slot{});
    ++taken_;
    lock.unlock();
    room_.notify_one();
    if (taken.error) std::rethrow_exception(taken.error);
    return std::move(taken.made);
  }

 private:
  struct Slot {
    Made made;
    std::exception_ptr error;
    bool ready = false;
  };

  void run() {
    tern::detail::leave_place();
    SerialScope serial;
    std::unique_lock lock(mutex_);
    while (true) {
      room_.wait(lock,
                 [&] { return stopped_ || (!paused_ && claimed_ < taken_ + std::ssize(slots_)); });
      if (stopped_) return;
      const int64_t number = claimed_++;
      ++making_;
      Slot done{nullptr, nullptr, true};
      try {
        // Only when needed: an error in planning the next epoch must not appear in this one.
        if (number > 0) last_ = maker_.after(last_);
        const LoaderPosition position = last_;
        lock.unlock();
        done.made = maker_.make(position);
      } catch (...) {
        done.error = std::current_exception();
      }
      if (!lock.owns_lock()) lock.lock();
      slots_[number % slots_.size()] = std::move(done);
      --making_;
      ready_.notify_one();
    }
  }

  void stop() {
    {
      std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    room_.notify_all();
    for (std::thread& t : threads_) t.join();
  }

  BatchMaker& maker_;
  std::mutex mutex_;
  std::condition_variable ready_, room_;
  std::vector<Slot> slots_;  // batch s is in slot s % size
  LoaderPosition last_;      // position of batch claimed_ - 1; at first, of batch 0
  int64_t claimed_ = 0;      // number of the next batch to make
  int64_t taken_ = 0;        // number of the next batch to return
  int making_ = 0;           // number of batches being made
  bool paused_ = true, stopped_ = false;
  std::vector<std::thread> threads_;
};

void check_position(LoaderPosition position) {
  check(position.epoch >= 0 && position.epoch < INT64_MAX / 2 && position.batch >= 0,
        "Loader::seek: there is no epoch {}, batch {}", position.epoch, position.batch);
}

}  // namespace

struct LoaderCore::Impl {
  Impl(Planner planner, Make make, const LoaderOptions& o)
      : options(o), maker(std::move(planner), std::move(make), o) {}

  Made next() {
    const int64_t batches = maker.batches_in(position.epoch);
    if (position.batch >= batches) {
      if (batches == 0 && workers) workers->pause();  // they stopped at this epoch, see after()
      position = {position.epoch + 1, 0};
      return nullptr;
    }
    Made made;
    if (options.workers == 0) {
      made = maker.make(position);
    } else {
      if (!workers) workers = std::make_unique<Workers>(maker, options.workers, options.prefetch);
      if (workers->paused()) workers->start(position);
      try {
        made = workers->take();
      } catch (...) {
        workers->pause();
        throw;
      }
    }
    samples = maker.samples_of(position);
    ++position.batch;
    return made;
  }

  LoaderOptions options;
  BatchMaker maker;
  LoaderPosition position;
  int64_t samples = 0;               // in the last batch that this process returned
  std::unique_ptr<Workers> workers;  // last: threads must end before what they use
};

LoaderCore::LoaderCore(int64_t samples, Make make, LoaderOptions options)
    : impl_(std::make_unique<Impl>(equal_batches(samples, options), std::move(make), options)) {}
LoaderCore::LoaderCore(Planner planner, Make make, LoaderOptions options)
    : impl_(std::make_unique<Impl>(std::move(planner), std::move(make), options)) {
  check(!options.sampler,
        "Loader: the batches come from a planner, so a sampler would change nothing; leave one of "
        "the two out");
}
LoaderCore::~LoaderCore() = default;
LoaderCore::LoaderCore(LoaderCore&&) noexcept = default;
LoaderCore& LoaderCore::operator=(LoaderCore&&) noexcept = default;

Made LoaderCore::next() { return impl_->next(); }
LoaderPosition LoaderCore::position() const { return impl_->position; }
int64_t LoaderCore::batches_per_epoch() const {
  return impl_->maker.batches_in(impl_->position.epoch);
}

int64_t LoaderCore::samples() const { return impl_->samples; }

NamedTensors LoaderCore::state_dict() const {
  const auto [epoch, batch] = impl_->position;
  return {{"epoch", full({}, epoch, DType::i64)},
          {"batch", full({}, batch, DType::i64)},
          {"order", full({}, impl_->maker.order_of(epoch), DType::i64)}};
}

void LoaderCore::load_state_dict(const NamedTensors& state) {
  NamedTensors here = {{"epoch", full({}, 0, DType::i64)},
                       {"batch", full({}, 0, DType::i64)},
                       {"order", full({}, 0, DType::i64)}};
  load_state("Loader::load_state_dict", here, state);
  const auto value = [&](int i) { return here[i].second.item<int64_t>(); };
  const LoaderPosition saved{value(0), value(1)};
  check_position(saved);
  check(value(2) == impl_->maker.order_of(saved.epoch),
        "Loader::load_state_dict: the batches of epoch {} differ from those in the saved run; give "
        "the loader the same seed, samples and options",
        saved.epoch);
  seek(saved);
}

void LoaderCore::seek(LoaderPosition position) {
  check_position(position);
  const int64_t batches = impl_->maker.batches_in(position.epoch);
  check(position.batch <= batches, "Loader::seek: there is no batch {}: epoch {} has {} batches",
        position.batch, position.epoch, batches);
  if (impl_->workers) impl_->workers->pause();
  impl_->position = position;
}

}  // namespace detail
}  // namespace tern::datasets

#include "tern/data/loader.h"

#include <condition_variable>
#include <exception>
#include <mutex>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

#include "tern/core/autograd.h"
#include "tern/core/error.h"
#include "tern/core/threads.h"
#include "tern/data/dataset.h"

namespace tern {

std::vector<int64_t> permutation(int64_t n, Rng rng) {
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), int64_t{0});
  for (int64_t i = n - 1; i > 0; --i) std::swap(order[i], order[rng.below(i + 1)]);
  return order;
}

namespace detail {
namespace {

using Made = std::shared_ptr<void>;
using Order = std::shared_ptr<const std::vector<int64_t>>;

// Everything that fixes what batch number s is; batches are numbered through all epochs.
class Recipe {
 public:
  Recipe(int64_t samples, LoaderCore::Make make, const LoaderOptions& options)
      : samples_(samples), make_(std::move(make)), options_(options) {
    check(samples >= 0, "Loader: {} samples", samples);
    check(options.batch >= 1, "Loader: batches of {} samples; at least 1", options.batch);
    check(options.workers >= 0 && options.workers <= 256, "Loader: {} workers; 0 to 256",
          options.workers);
    check(options.prefetch >= 1, "Loader: prefetch is {}; at least 1", options.prefetch);
    check(!options.drop_last || samples == 0 || samples >= options.batch,
          "Loader: drop_last leaves no batch: {} samples, batches of {}", samples, options.batch);
  }

  int64_t batches_per_epoch() const {
    const int64_t n = options_.batch;
    return options_.drop_last ? samples_ / n : (samples_ + n - 1) / n;
  }

  Made make(int64_t number) {
    const int64_t epoch = number / batches_per_epoch(), batch = number % batches_per_epoch();
    const Order order = order_of(epoch);
    const int64_t begin = batch * options_.batch, end = std::min(begin + options_.batch, samples_);
    NoGradGuard no_grad;
    return make_(
        {{epoch, batch},
         std::span(*order).subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin)),
         Rng(options_.seed).stream(static_cast<uint64_t>(epoch))});
  }

 private:
  // The order of an epoch; the last two are kept, because workers run ahead into the next epoch.
  Order order_of(int64_t epoch) {
    std::lock_guard lock(mutex_);
    auto& [kept_epoch, order] = orders_[epoch % 2];
    if (order && (kept_epoch == epoch || !options_.shuffle)) return order;
    kept_epoch = epoch;
    if (options_.shuffle) {
      Rng rng = Rng(options_.seed).stream(static_cast<uint64_t>(epoch)).stream(2);
      order = std::make_shared<const std::vector<int64_t>>(permutation(samples_, rng));
    } else {
      std::vector<int64_t> ascending(static_cast<size_t>(samples_));
      std::iota(ascending.begin(), ascending.end(), int64_t{0});
      order = std::make_shared<const std::vector<int64_t>>(std::move(ascending));
    }
    return order;
  }

  int64_t samples_;
  LoaderCore::Make make_;
  LoaderOptions options_;
  std::mutex mutex_;
  std::pair<int64_t, Order> orders_[2];
};

// Threads that make batches first, first + 1, ... and hold up to `ahead` of them.
class Workers {
 public:
  Workers(Recipe& recipe, int64_t first, int workers, int ahead)
      : recipe_(recipe), slots_(static_cast<size_t>(ahead)), claimed_(first), taken_(first) {
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

  // The next batch, or what making it threw.
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
    SerialScope serial;
    std::unique_lock lock(mutex_);
    while (true) {
      room_.wait(lock, [&] { return stopped_ || claimed_ < taken_ + std::ssize(slots_); });
      if (stopped_) return;
      const int64_t number = claimed_++;
      lock.unlock();
      Slot done{nullptr, nullptr, true};
      try {
        done.made = recipe_.make(number);
      } catch (...) {
        done.error = std::current_exception();
      }
      lock.lock();
      slots_[number % slots_.size()] = std::move(done);
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

  Recipe& recipe_;
  std::mutex mutex_;
  std::condition_variable ready_, room_;
  std::vector<Slot> slots_;  // batch s is in slot s % size
  int64_t claimed_;          // the next batch to be made
  int64_t taken_;            // the next batch to be handed out
  bool stopped_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace

struct LoaderCore::Impl {
  Impl(int64_t samples, Make make, const LoaderOptions& o)
      : options(o), recipe(samples, std::move(make), o) {}

  Made next() {
    const int64_t per_epoch = recipe.batches_per_epoch();
    if (position.batch >= per_epoch) {
      position = {position.epoch + 1, 0};
      return nullptr;
    }
    const int64_t number = position.epoch * per_epoch + position.batch;
    Made made;
    if (options.workers == 0) {
      made = recipe.make(number);
    } else {
      if (!workers)
        workers = std::make_unique<Workers>(recipe, number, options.workers, options.prefetch);
      try {
        made = workers->take();
      } catch (...) {
        workers.reset();
        throw;
      }
    }
    ++position.batch;
    return made;
  }

  LoaderOptions options;
  Recipe recipe;
  LoaderPosition position;
  std::unique_ptr<Workers> workers;  // last: it ends before what it uses
};

LoaderCore::LoaderCore(int64_t samples, Make make, LoaderOptions options)
    : impl_(std::make_unique<Impl>(samples, std::move(make), options)) {}
LoaderCore::~LoaderCore() = default;
LoaderCore::LoaderCore(LoaderCore&&) noexcept = default;
LoaderCore& LoaderCore::operator=(LoaderCore&&) noexcept = default;

Made LoaderCore::next() { return impl_->next(); }
LoaderPosition LoaderCore::position() const { return impl_->position; }
int64_t LoaderCore::batches_per_epoch() const { return impl_->recipe.batches_per_epoch(); }

void LoaderCore::seek(LoaderPosition position) {
  const int64_t per_epoch = batches_per_epoch();
  check(position.epoch >= 0 && position.batch >= 0 && position.batch <= per_epoch,
        "Loader::seek: there is no epoch {}, batch {}: an epoch has {} batches", position.epoch,
        position.batch, per_epoch);
  check(per_epoch == 0 || position.epoch < INT64_MAX / per_epoch - 1,
        "Loader::seek: the epoch {} is too large", position.epoch);
  impl_->workers.reset();
  impl_->position = position;
}

}  // namespace detail
}  // namespace tern

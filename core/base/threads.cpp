#include "tern/core/base/threads.h"

#include <fmt/core.h>
#include <omp.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "tern/core/base/error.h"
#include "tern/core/base/precision.h"

// Why a pool of our own and not an OpenMP team:
//   - libgomp and LLVM's libomp spin for milliseconds while they wait, and only environment
//     variables that are read before main() change that. On a machine that is busy with other
//     things the spinning takes the time of the threads that have work.
//   - libgomp ends threads where a region has fewer parts than the one before, and starts new ones
//     for the next.
//   - A thread that comes late (it slept, or another process has its core) must not be waited for:
//     here any thread computes the parts that nobody has begun.
// OpenMP is asked for the number of threads, for the places of OMP_PLACES, and to keep OpenBLAS to
// the calling thread.

namespace tern {
namespace {

using detail::RangeFn;

constexpr int kMaxThreads = 1024;
/// How long a thread spins before it sleeps: longer than most gaps between two loops of a training
/// step. With 25 microseconds the short steps of the Turing machine took 1.2 times as long.
constexpr std::chrono::microseconds kSpin{100};
/// How many others a thread wakes before it begins to work; each of them wakes as many.
constexpr int kWakes = 4;

std::atomic<int> thread_count{0};    // 0: not asked yet
std::atomic<bool> pool_lost{false};  // forked: the pool's threads exist in the parent only
thread_local int serial_depth = 0;

void pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#endif
}

/// True as soon as done() is; false if it is not before `end`.
template <class F>
bool spin_until(std::chrono::steady_clock::time_point end, F done) {
  do {
    for (int i = 0; i < 32; ++i) {
      if (done()) return true;
      pause();
    }
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

/// One parallel loop: parts of it, and who has taken which. Lives on its caller's stack.
class Region {
 public:
  enum class Order {
    kOwn,   // part p is thread p's, whose cache may hold it; others take it if that thread is late
    kNext,  // every thread takes the next part
  };

  /// Part p is [p * step, (p + 1) * step) of [0, n). kOwn has at most kMaxThreads parts.
  Region(void* context, RangeFn fn, int64_t n, int64_t step, int threads, Order order)
      : context_(context), fn_(fn), n_(n), step_(step), threads_(threads), order_(order) {}

  int threads() const { return threads_; }
  bool has_work() const { return begun_.load(std::memory_order_relaxed) < parts_; }

  /// Computes parts until none is left that nobody has begun.
  void work(int self) noexcept {
    const MatmulPrecisionScope callers(precision_);
    if (order_ == Order::kOwn) {
      for (int64_t k = 0; k < parts_ && has_work(); ++k) {
        const int64_t part = (self + k) % parts_;
        if (claim(part)) compute(part);
      }
    } else {
      while (has_work()) compute(begun_.fetch_add(1, std::memory_order_relaxed));
    }
  }

  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  bool claim(int64_t part) {
    std::atomic<uint64_t>& word = taken_[part / 64];
    const uint64_t bit = uint64_t{1} << (part % 64);
    if (word.load(std::memory_order_relaxed) & bit) return false;
    if (word.fetch_or(bit, std::memory_order_relaxed) & bit) return false;
    begun_.fetch_add(1, std::memory_order_relaxed);
    return true;
  }

  void compute(int64_t part) {
    const int64_t begin = part * step_, end = std::min(n_, begin + step_);
    if (begin >= end) return;  // two threads went for the last part
    try {
      fn_(context_, begin, end);
    } catch (...) {
      if (!failed_.test_and_set()) error_ = std::current_exception();
    }
  }

  void* const context_;
  const RangeFn fn_;
  const int64_t n_, step_;
  const int64_t parts_ = (n_ + step_ - 1) / step_;
  const int threads_;
  const Order order_;
  const MatmulPrecision precision_ = matmul_precision();
  std::atomic<int64_t> begun_{0};  // parts
  std::array<std::atomic<uint64_t>, kMaxThreads / 64> taken_{};
  std::atomic_flag failed_ = ATOMIC_FLAG_INIT;
  std::exception_ptr error_;  // the first; exceptions must not leave a part by themselves
};

/// Where a thread that calls loops shows its region to the pool. Never freed: another thread of
/// the user's takes it over, and a worker may look at it at any time.
struct Slot {
  alignas(64) std::atomic<Region*> region{nullptr};
  std::atomic<int> threads{0};             // the region's; 0: there is none
  alignas(64) std::atomic<int> inside{0};  // workers that hold `region`
  std::atomic<bool> taken{true};
  Slot* next = nullptr;
};

/// Keeps OpenBLAS, and parallel loops in the body of one, to this thread.
class InRegion {
 public:
  InRegion() : omp_threads_(omp_get_max_threads()) { omp_set_num_threads(1); }
  ~InRegion() { omp_set_num_threads(omp_threads_); }
  InRegion(const InRegion&) = delete;
  InRegion& operator=(const InRegion&) = delete;

 private:
  SerialScope serial_;
  int omp_threads_;
};

/// The threads that wait for regions: worker i is thread i of a region, whose caller is thread 0.
/// They live as long as the process and are never joined.
class Pool {
 public:
  static Pool& instance() {
    static Pool* const pool = new Pool;
    return *pool;
  }

  void run(Region& region) {
    start(num_threads());
    Slot& slot = own_slot();
    slot.region.store(&region);
    slot.threads.store(region.threads());
    published_.fetch_add(1);
    wake(0, region.threads());
    {
      const InRegion serial;
      region.work(0);
    }
    // Every part is taken. A worker that holds the region has counted itself before it read it.
    slot.threads.store(0);
    slot.region.store(nullptr);
    auto alone = [&] { return slot.inside.load() == 0; };
    if (spins_.load(std::memory_order_relaxed) ? spin_until(soon(), alone) : alone()) return;
    while (int others = slot.inside.load()) slot.inside.wait(others);
  }

 private:
  struct alignas(64) Worker {
    std::atomic<bool> asleep{false};
  };

  Pool() {
    pthread_atfork(nullptr, nullptr, [] { pool_lost.store(true); });
  }

  static std::chrono::steady_clock::time_point soon() {
    return std::chrono::steady_clock::now() + kSpin;
  }

  /// Has the workers of `threads` threads. All at once, so that no later step starts one.
  void start(int threads) {
    // Where there are more threads than cores, one that spins takes the time of one that works.
    const bool spins = threads <= cores_;
    if (spins_.load(std::memory_order_relaxed) != spins) spins_.store(spins);
    if (threads_.load(std::memory_order_acquire) >= threads) return;
    const std::lock_guard lock(starting_);
    for (int i = threads_.load(); i < threads; ++i) {
      try {
        std::thread([this, i, threads] { serve(i, threads); }).detach();
      } catch (const std::system_error& e) {
        fmt::print(stderr, "tern: {} of {} threads cannot be started: {}\n", threads - i, threads,
                   e.what());
        threads_.store(kMaxThreads);  // not tried again: loops run on the threads that there are
        return;
      }
      threads_.store(i + 1, std::memory_order_release);
    }
  }

  /// The calling thread's slot, given back at the thread's end.
  Slot& own_slot() {
    struct Holder {
      Slot* slot;
      ~Holder() { slot->taken.store(false, std::memory_order_release); }
    };
    thread_local const Holder holder{take_slot()};
    return *holder.slot;
  }

  Slot* take_slot() {
    for (Slot* s = slots_.load(); s; s = s->next)
      if (!s->taken.exchange(true)) return s;
    auto* slot = new Slot;
    slot->next = slots_.load();
    while (!slots_.compare_exchange_weak(slot->next, slot)) {
    }
    return slot;
  }

  /// Wakes those of a region's threads that are thread `self`'s to wake.
  void wake(int self, int threads) {
    const int end = std::min(threads, (self + 1) * kWakes + 1);
    for (int i = self * kWakes + 1; i < end; ++i) {
      Worker& other = workers_[i];
      if (other.asleep.load() && other.asleep.exchange(false)) other.asleep.notify_one();
    }
  }

  /// What worker `self` does all its life.
  void serve(int self, int threads) {
    bind_to_place(self, threads);
    const InRegion serial;
    Worker& me = workers_[self];
    auto end = soon();
    for (;;) {
      const uint32_t seen = published_.load();
      bool worked = false;
      for (Slot* s = slots_.load(); s; s = s->next) worked |= help(*s, self);
      if (worked && spins_.load(std::memory_order_relaxed)) end = soon();
      if (spin_until(end, [&] { return published_.load() != seen; })) continue;
      me.asleep.store(true);
      if (published_.load() == seen) me.asleep.wait(true);
      me.asleep.store(false);
    }
  }

  /// Works on the slot's region, if it has one that wants thread `self`; false if not.
  bool help(Slot& slot, int self) {
    if (slot.threads.load() <= self) return false;
    bool worked = false;
    slot.inside.fetch_add(1);
    if (Region* region = slot.region.load(); region && self < region->threads()) {
      worked = region->has_work();
      if (worked) wake(self, region->threads());
      region->work(self);
    }
    if (slot.inside.fetch_sub(1) == 1) slot.inside.notify_one();
    return worked;
  }

  /// Where OMP_PLACES or OMP_PROC_BIND binds threads, ours are bound as OpenMP would bind its own:
  /// otherwise all of them would stay on the one core of the thread that started them.
  static void bind_to_place(int self, int threads) {
    const int places = omp_get_num_places();
    const omp_proc_bind_t bind = omp_get_proc_bind();
    if (places <= 1 || bind == omp_proc_bind_false || bind == omp_proc_bind_master) return;
    const bool spread = bind == omp_proc_bind_spread || threads > places;
    const int place = spread ? static_cast<int>(int64_t{self} * places / threads) : self;
    std::vector<int> cores(omp_get_place_num_procs(place));
    omp_get_place_proc_ids(place, cores.data());
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int core : cores)
      if (core < CPU_SETSIZE) CPU_SET(core, &set);
    pthread_setaffinity_np(pthread_self(), sizeof set, &set);  // a refusal leaves it unbound
  }

  std::atomic<uint32_t> published_{0};  // counts regions: what waiting threads look at
  std::atomic<Slot*> slots_{nullptr};
  std::atomic<bool> spins_{true};
  std::atomic<int> threads_{1};  // there are, with the caller
  const int cores_ = omp_get_num_procs();
  std::mutex starting_;
  std::array<Worker, kMaxThreads> workers_;  // by thread; 0 is not used
};

}  // namespace

void set_num_threads(int n) {
  check(n >= 1 && n <= kMaxThreads, "set_num_threads: takes 1 to {} threads, got {}", kMaxThreads,
        n);
  thread_count.store(n, std::memory_order_relaxed);
}

int num_threads() {
  int n = thread_count.load(std::memory_order_relaxed);
  if (n > 0) return n;
  int expected = 0;
  thread_count.compare_exchange_strong(expected, std::clamp(omp_get_max_threads(), 1, kMaxThreads));
  return thread_count.load(std::memory_order_relaxed);
}

bool in_serial() {
  return serial_depth > 0 || omp_in_parallel() || pool_lost.load(std::memory_order_relaxed);
}

SerialScope::SerialScope() { ++serial_depth; }
SerialScope::~SerialScope() { --serial_depth; }

namespace detail {

void parallel_for(int64_t n, int64_t grain, void* context, RangeFn fn) {
  if (n <= 0 || reserving) return;
  grain = std::max<int64_t>(grain, 1);
  const int64_t parts = std::min<int64_t>(num_threads(), (n + grain - 1) / grain);
  if (parts <= 1 || in_serial()) return fn(context, 0, n);
  int64_t step = (n + parts - 1) / parts;
  if (grain >= 64) step = (step + 63) / 64 * 64;
  Region region(context, fn, n, step, static_cast<int>(parts), Region::Order::kOwn);
  Pool::instance().run(region);
  region.rethrow();
}

void parallel_blocks(int64_t nblocks, void* context, RangeFn fn) {
  if (nblocks <= 0 || reserving) return;
  const int64_t threads = std::min<int64_t>(num_threads(), nblocks);
  if (threads <= 1 || in_serial()) return fn(context, 0, nblocks);
  Region region(context, fn, nblocks, 1, static_cast<int>(threads), Region::Order::kNext);
  Pool::instance().run(region);
  region.rethrow();
}

}  // namespace detail
}  // namespace tern

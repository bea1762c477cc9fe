// The thread pool: how loops are cut into parts, how threads take parts, wait and wake, and the
// number of threads.
#include "tern/core/base/threads.h"

#include <fmt/core.h>
#include <omp.h>
#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <optional>
#include <sstream>
#include <system_error>
#include <thread>

#include "tern/core/base/cores.h"
#include "tern/core/base/error.h"
#include "tern/core/base/loop_listener.h"
#include "tern/core/base/matmul_backend.h"
#include "tern/core/base/precision.h"

// Why we have our own pool and no OpenMP team:
//   - Waiting threads of libgomp and LLVM's libomp spin for milliseconds, and only environment
//     variables that are read before main() change that. On a busy machine the spinning takes time
//     from threads that have work.
//   - libgomp ends threads if a region has fewer parts than the previous one, and later starts new
//     ones.
//   - A late thread (it slept, or another process has its core) must not delay the others. Here any
//     thread computes parts that no thread has begun.
// OpenMP still gives the places of OMP_PLACES, and keeps OpenBLAS on the calling thread. We do not
// ask it for the number of threads, which is 1 within a BlasScope.

namespace tern {
namespace {

using detail::RangeFn;

constexpr int kMaxThreads = 1024;
/// The time that a thread spins before it sleeps: longer than most gaps between two loops of a
/// training step. With 25 microseconds the Turing machine's short steps took 1.2 times as long.
constexpr std::chrono::microseconds kSpin{100};
/// Up to this number of threads, a loop has one part per `grain` elements. For more threads, loops
/// of more than half a grain are cut too, into parts of an eighth of a grain or more: with many
/// threads the gain exceeds the cost of a loop.
constexpr int64_t kFewThreads = 4;
constexpr int64_t kHalf = 2, kFiner = 8;
/// The number of threads that each thread wakes before it begins to work.
constexpr int kWakes = 4;

std::atomic<int> chosen_threads{0};  // the user's number; 0: the default
std::atomic<int> sharing{1};         // processes that share the cores
std::atomic<bool> pool_lost{false};  // after a fork: only the parent has the pool's threads
thread_local int serial_depth = 0;

// The number in OMP_NUM_THREADS, or the first of several ("4,2"). 0 if there is none. OpenMP's
// libraries warn of other text and ignore it, and so does this function, without a warning.
int omp_chosen() {
  static const int chosen = [] {
    const char* const text = std::getenv("OMP_NUM_THREADS");
    std::istringstream in(text ? text : "");
    int n = 0;
    char next = ',';
    return in >> n && n > 0 && (!(in >> next) || next == ',') ? n : 0;
  }();
  return chosen;
}

const detail::Cores& cores() {
  static const detail::Cores found = detail::usable_cores();
  return found;
}

int default_threads() { return std::min(omp_chosen() ? omp_chosen() : cores().cores, kMaxThreads); }

void pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#endif
}

/// Waits until done() is true. Returns false if that does not happen before `end`.
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

/// One parallel loop: its parts, and which of them are taken. Lives on the caller's stack.
class Region {
 public:
  enum class Order {
    kOwn,   // thread p takes part p, whose data its cache may hold; others take it if p is late
    kNext,  // every thread takes the next part
  };

  /// Part p is [p * step, (p + 1) * step) of [0, n). kOwn has at most kMaxThreads parts.
  Region(void* context, RangeFn fn, int64_t n, int64_t step, int threads, Order order)
      : context_(context), fn_(fn), n_(n), step_(step), threads_(threads), order_(order) {}

  int threads() const { return threads_; }
  bool has_work() const { return begun_.load(std::memory_order_relaxed) < parts_; }

  /// Computes parts until all have been begun.
  void work(int self) noexcept {
    const MatmulPrecisionScope callers_precision(precision_);
    const MatmulBackendScope callers_backend(backend_);
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
    if (begin >= end) return;  // two threads tried to take the last part
    try {
      fn_(context_, begin, end);
    } catch (...) {
      if (!failed_.test_and_set()) error_ = std::current_exception();
    }
  }

  void* const context_;
  const RangeFn fn_;
  const int64_t n_, step_;
  const int64_t parts_ = ceil_div(n_, step_);
  const int threads_;
  const Order order_;
  const MatmulPrecision precision_ = matmul_precision();
  const MatmulBackend backend_ = matmul_backend();
  std::atomic<int64_t> begun_{0};  // number of parts
  std::array<std::atomic<uint64_t>, kMaxThreads / 64> taken_{};
  std::atomic_flag failed_ = ATOMIC_FLAG_INIT;
  std::exception_ptr error_;  // the first exception of a part
};

/// Shows the region of a thread that calls loops to the pool. Never freed: workers may look at it
/// at any time. Another user thread reuses it later.
struct Slot {
  alignas(64) std::atomic<Region*> region{nullptr};
  std::atomic<int> threads{0};             // of the region; 0: no region
  alignas(64) std::atomic<int> inside{0};  // workers that hold `region`
  std::atomic<bool> taken{true};
  Slot* next = nullptr;
};

/// Keeps OpenBLAS and nested parallel loops on this thread.
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

/// The worker threads. Worker i is thread i of a region; the caller is thread 0. Workers live as
/// long as the process and are never joined.
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
    // All parts are taken. A worker counts itself in `inside` before it reads the region.
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

  /// Starts all missing workers of `threads` threads at once, so that no later step starts one.
  void start(int threads) {
    // If there are more threads than processors, a spinning thread takes time from working ones.
    const bool spins = threads <= processors_;
    if (spins_.load(std::memory_order_relaxed) != spins) spins_.store(spins);
    if (threads_.load(std::memory_order_acquire) >= threads) return;
    const std::lock_guard lock(starting_);
    for (int i = threads_.load(); i < threads; ++i) {
      try {
        std::thread([this, i, threads] { serve(i, threads); }).detach();
      } catch (const std::system_error& e) {
        fmt::print(stderr, "tern: {} of {} threads cannot be started: {}\n", threads - i, threads,
                   e.what());
        threads_.store(kMaxThreads);  // do not try again: use the existing threads
        return;
      }
      threads_.store(i + 1, std::memory_order_release);
    }
  }

  /// The calling thread's slot, returned when the thread ends.
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

  /// Wakes the threads of a region that thread `self` must wake: kWakes of them, as in a tree.
  void wake(int self, int threads) {
    const int end = std::min(threads, (self + 1) * kWakes + 1);
    for (int i = self * kWakes + 1; i < end; ++i) {
      Worker& other = workers_[i];
      if (other.asleep.load() && other.asleep.exchange(false)) other.asleep.notify_one();
    }
  }

  /// The main loop of worker `self`.
  void serve(int self, int threads) {
    detail::bind_to_place(self, threads);
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

  /// Works on the slot's region if that includes thread `self`. Returns whether it had work.
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

  std::atomic<uint32_t> published_{0};  // counts regions; waiting threads watch it
  std::atomic<Slot*> slots_{nullptr};
  std::atomic<bool> spins_{true};
  std::atomic<int> threads_{1};  // existing threads, including the caller
  const int processors_ = cores().processors;
  std::mutex starting_;
  std::array<Worker, kMaxThreads> workers_;  // by thread; 0 is unused
};

}  // namespace

void set_num_threads(int n) {
  check(n >= 1 && n <= kMaxThreads, "set_num_threads: takes 1 to {} threads, got {}", kMaxThreads,
        n);
  chosen_threads.store(n, std::memory_order_relaxed);
}

int num_threads() {
  if (const int n = chosen_threads.load(std::memory_order_relaxed)) return n;
  const int given = sharing.load(std::memory_order_relaxed);
  return omp_chosen() ? default_threads() : std::max(default_threads() / given, 1);
}

void share_cores(int processes) {
  check(processes >= 1, "share_cores: takes at least one process, got {}", processes);
  sharing.store(processes, std::memory_order_relaxed);
}

detail::ThreadCountScope::ThreadCountScope(int n) : before_(chosen_threads) { set_num_threads(n); }
detail::ThreadCountScope::~ThreadCountScope() { chosen_threads = before_; }

bool in_serial() {
  return serial_depth > 0 || omp_in_parallel() || pool_lost.load(std::memory_order_relaxed);
}

SerialScope::SerialScope() { ++serial_depth; }
SerialScope::~SerialScope() { --serial_depth; }

namespace detail {
namespace {

/// Whether a listener ran the loop.
bool heard(const Loop& loop) {
  if (!loop_listener || in_serial()) return false;
  std::optional<InRegion> serial;
  if (loop.parts() > 1) serial.emplace();
  loop_listener->run(loop);
  return true;
}

}  // namespace

void parallel_for(int64_t n, int64_t grain, void* context, RangeFn fn) {
  if (n <= 0 || reserving) return;
  grain = std::max<int64_t>(grain, 1);
  const int64_t threads = num_threads();
  int64_t parts = std::min(threads, ceil_div(n, grain));
  if (threads > kFewThreads && kHalf * n > grain)
    parts = std::min({threads, ceil_div(kFiner * n, grain), n});
  if (parts <= 1 || in_serial()) {
    if (!heard({n, n, true, fn, context})) fn(context, 0, n);
    return;
  }
  int64_t step = ceil_div(n, parts);
  if (grain >= 64) step = ceil_div(step, 64) * 64;
  if (heard({n, step, true, fn, context})) return;
  parts = ceil_div(n, step);
  Region region(context, fn, n, step, static_cast<int>(parts), Region::Order::kOwn);
  Pool::instance().run(region);
  region.rethrow();
}

void parallel_blocks(int64_t nblocks, void* context, RangeFn fn) {
  if (nblocks <= 0 || reserving) return;
  const int64_t threads = std::min<int64_t>(num_threads(), nblocks);
  if (threads <= 1 || in_serial()) {
    if (!heard({nblocks, nblocks, false, fn, context})) fn(context, 0, nblocks);
    return;
  }
  if (heard({nblocks, 1, false, fn, context})) return;
  Region region(context, fn, nblocks, 1, static_cast<int>(threads), Region::Order::kNext);
  Pool::instance().run(region);
  region.rethrow();
}

}  // namespace detail
}  // namespace tern

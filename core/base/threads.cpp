#include "tern/core/base/threads.h"

#include <omp.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <exception>

#include "tern/core/base/error.h"
#include "tern/core/base/precision.h"

namespace tern {
namespace {

std::atomic<int> thread_count{0};  // 0: not asked yet
std::atomic<bool> pool_started{false};
std::atomic<bool> pool_lost{false};  // forked: the pool's threads exist in the parent only
thread_local int serial_depth = 0;

void start_pool() {
  if (pool_started.load(std::memory_order_relaxed)) return;
  if (!pool_started.exchange(true)) pthread_atfork(nullptr, nullptr, [] { pool_lost.store(true); });
}

/// Keeps the first exception of a parallel region; they must not leave it by themselves.
class FirstError {
 public:
  template <class F>
  void guard(F&& f) noexcept {
    try {
      f();
    } catch (...) {
      if (!taken_.test_and_set()) error_ = std::current_exception();
    }
  }
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  std::atomic_flag taken_ = ATOMIC_FLAG_INIT;
  std::exception_ptr error_;
};

}  // namespace

void set_num_threads(int n) {
  check(n >= 1, "set_num_threads: needs at least 1 thread, got {}", n);
  thread_count.store(n, std::memory_order_relaxed);
}

int num_threads() {
  int n = thread_count.load(std::memory_order_relaxed);
  if (n > 0) return n;
  int expected = 0;
  thread_count.compare_exchange_strong(expected, std::max(1, omp_get_max_threads()));
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
  int64_t parts = std::min<int64_t>(num_threads(), (n + grain - 1) / grain);
  if (parts <= 1 || in_serial()) return fn(context, 0, n);
  int64_t step = (n + parts - 1) / parts;
  if (grain >= 64) step = (step + 63) / 64 * 64;
  start_pool();
  FirstError error;
  const MatmulPrecision precision = matmul_precision();
#pragma omp parallel for schedule(static, 1) num_threads(static_cast <int>(parts))
  for (int64_t p = 0; p < parts; ++p) {
    const MatmulPrecisionScope callers(precision);
    int64_t begin = p * step, end = std::min(n, begin + step);
    if (begin < end) error.guard([&] { fn(context, begin, end); });
  }
  error.rethrow();
}

void parallel_blocks(int64_t nblocks, void* context, RangeFn fn) {
  if (nblocks <= 0 || reserving) return;
  int64_t threads = std::min<int64_t>(num_threads(), nblocks);
  if (threads <= 1 || in_serial()) return fn(context, 0, nblocks);
  start_pool();
  FirstError error;
  const MatmulPrecision precision = matmul_precision();
#pragma omp parallel for schedule(dynamic, 1) num_threads(static_cast <int>(threads))
  for (int64_t b = 0; b < nblocks; ++b) {
    const MatmulPrecisionScope callers(precision);
    error.guard([&] { fn(context, b, b + 1); });
  }
  error.rethrow();
}

}  // namespace detail
}  // namespace tern

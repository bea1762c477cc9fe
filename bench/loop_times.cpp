// Listens to the parallel loops of a step: runs their parts one by one, times each by the thread's
// processor clock, and finds the op of each loop.
#include "tern/bench/loop_times.h"

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <map>
#include <numeric>
#include <optional>
#include <thread>
#include <utility>

#include "tern/core/base/allocator.h"
#include "tern/core/base/cpu.h"
#include "tern/core/base/error.h"
#include "tern/core/base/loop_listener.h"
#include "tern/core/base/matmul_backend.h"
#include "tern/core/base/precision.h"
#include "tern/core/base/threads.h"
#include "tern/core/tape/op.h"

namespace tern::bench {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// This thread's processor time, which excludes time that other programs take.
double cpu_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

/// The time that reading this clock takes, about half a microsecond.
double clock_cost() {
  constexpr int kReadings = 1000;
  std::vector<double> times;
  for (int i = 0; i < kReadings; ++i) {
    const double begin = cpu_seconds();
    times.push_back(cpu_seconds() - begin);
  }
  std::nth_element(times.begin(), times.begin() + kReadings / 2, times.end());
  return times[kReadings / 2];
}

/// "blocks.*.mlp" for "blocks.11.mlp", so that layers of one kind count together.
std::string without_numbers(const std::string& module) {
  std::string out;
  for (size_t at = 0; at <= module.size();) {
    const size_t end = std::min(module.find('.', at), module.size());
    const std::string name = module.substr(at, end - at);
    const bool number = !name.empty() && std::all_of(name.begin(), name.end(),
                                                     [](char c) { return c >= '0' && c <= '9'; });
    out += (out.empty() ? "" : ".") + (number ? "*" : name);
    at = end + 1;
  }
  return out;
}

std::string label_of(const OpScope* op) {
  if (!op) return "between ops";
  const std::string module = without_numbers(op->module());
  return fmt::format("{}{}{}{}", op->name(), op->pass() == Pass::backward ? " backward" : "",
                     module.empty() ? "" : ": ", module);
}

/// Another thread, for the parts that the calling thread would not run. Both spin while they wait,
/// because a sleeping core loses its caches.
class OtherThread {
 public:
  OtherThread() : thread_([this] { serve(); }) {}
  ~OtherThread() {
    state_ = State::ends;
    thread_.join();
  }

  /// Runs job() there and waits for it.
  void run(const std::function<void()>& job) {
    job_ = &job;
    state_ = State::works;
    while (state_ == State::works) std::this_thread::yield();
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  }

 private:
  enum class State { waits, works, ends };

  void serve() {
    const SerialScope serial;
    const BlasScope blas;
    for (;;) {
      while (state_ == State::waits) std::this_thread::yield();
      if (state_ == State::ends) return;
      try {
        (*job_)();
      } catch (...) {
        error_ = std::current_exception();
      }
      state_ = State::waits;
    }
  }

  std::atomic<State> state_ = State::waits;
  const std::function<void()>* job_ = nullptr;
  std::exception_ptr error_;
  std::thread thread_;
};

/// Runs loops part by part and keeps the shortest times of several steps.
class Clock final : private detail::LoopListener {
 public:
  explicit Clock(int threads) : threads_(threads) {
    detail::loop_listener = this;
    if (threads > 1 && std::thread::hardware_concurrency() > 1) others_.emplace();
  }
  ~Clock() override { detail::loop_listener = nullptr; }

  void restart() {
    step_ = {};
    complete_ = false;
  }

  void begin_step() {
    next_ = 0;
    mark_ = cpu_seconds();
  }

  void end_step() {
    keep_before(/*own_parts=*/true, /*parts=*/0);
    check(next_ == step_.loops.size(), "scaling: one step has {} loops, another {}",
          step_.loops.size(), next_);
    complete_ = true;
  }

  TimedStep step_;

 private:
  void run(const detail::Loop& loop) override {
    // A loop of one part is serial code; but with one thread all loops are such.
    const bool counts = threads_ == 1 ? depth_ == 0 : loop.parts() > 1;
    if (!counts) return loop.run(0);
    ++depth_;
    TimedLoop& timed = keep_before(loop.own_parts, loop.parts());
    auto mine = [this](int64_t part) { return !others_ || part % threads_ == 0; };
    time_parts(loop, timed, mine);
    if (others_)
      others_->run([&, precision = matmul_precision(), backend = matmul_backend()] {
        const MatmulPrecisionScope callers_precision(precision);
        const MatmulBackendScope callers_backend(backend);
        time_parts(loop, timed, [&](int64_t part) { return !mine(part); });
      });
    mark_ = cpu_seconds();
    --depth_;
  }

  /// Runs and times the parts that `takes` chooses.
  template <class F>
  void time_parts(const detail::Loop& loop, TimedLoop& timed, F takes) {
    double begin = cpu_seconds();
    for (int64_t p = 0; p < loop.parts(); ++p) {
      if (!takes(p)) continue;
      loop.run(p);
      const double end = cpu_seconds();
      double& best = timed.parts[static_cast<size_t>(p)];
      best = std::min(best, std::max(end - begin - clock_, 0.0));
      begin = end;
    }
  }

  /// Returns the next loop of the step, and records the serial time since the last loop.
  TimedLoop& keep_before(bool own_parts, int64_t parts) {
    const double before = std::max(cpu_seconds() - mark_ - clock_, 0.0);
    const auto count = static_cast<size_t>(parts);
    if (!complete_) step_.loops.push_back({own_parts, std::vector<double>(count, 1e9), 1e9});
    check(next_ < step_.loops.size(), "scaling: a step has more loops than the one before");
    TimedLoop& timed = step_.loops[next_++];
    check(timed.parts.size() == count, "scaling: loop {} of a step has {} parts, then {}", next_,
          timed.parts.size(), count);
    timed.before = std::min(timed.before, before);
    return timed;
  }

  const int threads_;
  std::optional<OtherThread> others_;  // empty on a machine with one core
  const double clock_ = clock_cost();
  int depth_ = 0;
  size_t next_ = 0;
  double mark_ = 0;
  bool complete_ = false;
};

/// Finds the op that each loop belongs to, and the op that takes most of the time before the loop.
class Labels final : private detail::LoopListener, private Observer {
 public:
  Labels(int threads, TimedStep& step) : threads_(threads), step_(step), watching_(*this) {
    detail::loop_listener = this;
    mark_ = cpu_seconds();
  }
  ~Labels() override { detail::loop_listener = nullptr; }

  void end_step() {
    pass();
    finish({});
  }

 private:
  void run(const detail::Loop& loop) override {
    const bool counts = threads_ == 1 ? depth_ == 0 : loop.parts() > 1;
    if (!counts) return loop.run(0);
    ++depth_;
    pass();
    finish(label_of(current_op()));
    for (int64_t p = 0; p < loop.parts(); ++p) loop.run(p);
    mark_ = cpu_seconds();
    --depth_;
  }
  void begin(const OpScope& op) override {
    pass();
    here_ = label_of(&op);
  }
  void end(const OpScope& op) noexcept override {
    pass();
    here_ = label_of(op.outer());
  }

  /// Adds the time since the last call to `here_`.
  void pass() {
    const double t = cpu_seconds();
    passed_[here_] += t - mark_;
    mark_ = t;
  }

  void finish(const std::string& op) {
    check(next_ < step_.loops.size(), "scaling: a step has more loops than the one before");
    TimedLoop& loop = step_.loops[next_++];
    loop.op = op;
    loop.op_before =
        std::max_element(passed_.begin(), passed_.end(), [](const auto& a, const auto& b) {
          return a.second < b.second;
        })->first;
    passed_.clear();
  }

  const int threads_;
  TimedStep& step_;
  int depth_ = 0;
  size_t next_ = 0;
  double mark_ = 0;
  std::string here_ = label_of(nullptr);
  std::map<std::string, double> passed_;
  ObserverScope watching_;
};

class AllocatedBytes final : private detail::AllocationListener {
 public:
  AllocatedBytes() { detail::listen_to_allocations(this); }
  ~AllocatedBytes() override { detail::listen_to_allocations(nullptr); }
  int64_t bytes = 0;

 private:
  void allocated(void*, std::size_t n) override { bytes += static_cast<int64_t>(n); }
  void freed(void*) noexcept override {}
  std::string describe() const override { return {}; }
};

}  // namespace

double TimedLoop::work() const { return std::accumulate(parts.begin(), parts.end(), 0.0); }

double TimedStep::outside() const {
  double sum = 0;
  for (const TimedLoop& loop : loops) sum += loop.before;
  return sum;
}

double TimedStep::seconds() const {
  double sum = outside();
  for (const TimedLoop& loop : loops) sum += loop.work();
  return sum;
}

TimedStep time_loops(const std::function<void()>& step, int threads, int reps) {
  const detail::ThreadCountScope scope(threads);
  TimedStep result;
  {
    Clock clock(threads);
    for (int r = -1; r < reps; ++r) {
      if (r <= 0) clock.restart();
      clock.begin_step();
      step();
      clock.end_step();
    }
    result = std::move(clock.step_);
  }
  {
    Labels labels(threads, result);
    step();
    labels.end_step();
  }
  return result;
}

int64_t allocated_by(const std::function<void()>& step) {
  const AllocatedBytes allocated;
  step();
  return allocated.bytes;
}

double measure_loop_cost(int threads) {
  constexpr double kPart = 10e-6;
  constexpr int kLoops = 400;
  const detail::ThreadCountScope scope(threads);
  std::vector<double> times;
  for (int i = 0; i < kLoops; ++i) {
    const double begin = now();
    parallel_for(threads, 1, [&](int64_t, int64_t) {
      for (const double start = now(); now() - start < kPart;) continue;
    });
    times.push_back(now() - begin - kPart);
  }
  std::nth_element(times.begin(), times.begin() + kLoops / 20, times.end());
  return std::max(times[kLoops / 20], 0.0);  // a low quantile: other programs disturb the rest
}

}  // namespace tern::bench

// decode_all: threads with slots of their own take sentences from a common queue, longest first,
// and refill their slots as sentences end.
#include "tern/decode/continuous_batching.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <mutex>
#include <numeric>

#include "tern/core/base/ceil_div.h"
#include "tern/core/base/threads.h"
#include "tern/decode/beam.h"
#include "tern/decode/step_logits.h"

namespace tern::decoding {
namespace {

constexpr const char* kName = "decode_all";
constexpr int64_t kLeastSentences = 8;  // per thread, so that a thread pays

/// The waiting sentences. Threads take them in order.
class Queue {
 public:
  Queue(std::vector<int64_t> order, const std::function<bool(int64_t)>& progress)
      : order_(std::move(order)), progress_(progress) {}

  int64_t size() const { return std::ssize(order_); }
  /// The next sentences, up to `most`; none after a stop.
  std::span<const int64_t> take(int64_t most) {
    const std::lock_guard lock(mutex_);
    if (progress_ && !stopped_) stopped_ = !progress_(next_);
    if (stopped_) return {};
    const int64_t first = next_;
    next_ = std::min(size(), next_ + most);
    return std::span(order_).subspan(first, next_ - first);
  }
  bool stopped() const { return stopped_; }
  /// Ends the other threads after an exception in this one.
  void stop() { stopped_ = true; }

 private:
  const std::vector<int64_t> order_;
  const std::function<bool(int64_t)>& progress_;
  std::mutex mutex_;
  int64_t next_ = 0;
  std::atomic<bool> stopped_ = false;
};

/// Data shared by all threads.
struct Job {
  const DecodeAllOptions& options;
  detail::BeamRules rules;
  std::span<const std::vector<int64_t>> sources;
  std::vector<uint8_t> allowed;
  std::vector<std::vector<Hypothesis>> out;
};

/// One thread's slots.
class Worker {
 public:
  Worker(Job& job, SlotDecoder& decoder, int64_t slots)
      : job_(job), decoder_(decoder), slots_(slots) {
    for (int64_t s = slots - 1; s >= 0; --s) free_.push_back(s);
    next_.count = std::min(job.rules.candidates(), decoder.vocab());
    next_.log_probs = job.options.log_probs;
    next_.allowed = job.allowed.data();
  }

  void run(Queue& queue) {
    for (;;) {
      const auto slots = std::ssize(slots_);
      // Waits for several free slots: reading sources together is faster.
      if (std::ssize(free_) >= std::max<int64_t>(1, slots / 4)) refill(queue);
      if (std::ssize(free_) == slots || queue.stopped()) return;
      step();
    }
  }

 private:
  struct Slot {
    int64_t sentence = -1, steps = 0;  ///< -1: free
    detail::Beam beam;
  };

  void refill(Queue& queue) {
    starts_.clear();
    while (!free_.empty()) {
      const auto taken = queue.take(std::ssize(free_));
      if (taken.empty()) break;
      for (const int64_t sentence : taken) begin(sentence);
    }
    if (!starts_.empty()) decoder_.start(starts_);
  }

  void begin(int64_t sentence) {
    const DecodeAllOptions& o = job_.options;
    Slot& slot = slots_[free_.back()];
    slot.beam.begin(job_.rules, o.max_length[sentence]);
    if (slot.beam.done()) {
      job_.out[sentence] = slot.beam.best();
      return;
    }
    slot.sentence = sentence;
    slot.steps = 0;
    starts_.push_back({free_.back(), job_.sources[sentence], o.max_length[sentence], o.beam});
    if (!o.shortlists.empty()) starts_.back().shortlist = o.shortlists[sentence];
    free_.pop_back();
  }

  void step() {
    rows_.clear();
    for (int64_t s = 0; s < std::ssize(slots_); ++s) {
      const Slot& slot = slots_[s];
      if (slot.sentence < 0) continue;
      for (int64_t i = 0; i < slot.beam.running(); ++i)
        rows_.push_back(slot.steps == 0 ? SlotRow{s, 0, job_.options.begin}
                                        : SlotRow{s, slot.beam.parent(i), slot.beam.token(i)});
    }
    decoder_.step(rows_, next_);
    for (int64_t r = 0; r < std::ssize(rows_);) r += advance(rows_[r].slot, r);
  }

  /// Advances the slot whose rows begin at `first`. Returns their number.
  int64_t advance(int64_t s, int64_t first) {
    Slot& slot = slots_[s];
    const int64_t rows = slot.beam.running();
    ++slot.steps;
    for (int64_t r = first; r < first + rows; ++r) {
      detail::check_logits(kName, slot.sentence, slot.steps, next_.largest[r]);
      detail::check_found(kName, slot.sentence, slot.steps, next_.found[r]);
    }
    slot.beam.advance(next_.tokens.data() + first * next_.count, next_.found.data() + first,
                      next_.count);
    if (!slot.beam.done()) return rows;
    std::vector<Hypothesis> best = slot.beam.best();
    if (!job_.options.log_probs)
      for (Hypothesis& h : best) h.log_prob = h.score = std::numeric_limits<double>::quiet_NaN();
    job_.out[slot.sentence] = std::move(best);
    slot.sentence = -1;
    free_.push_back(s);
    decoder_.finish(s);
    return rows;
  }

  Job& job_;
  SlotDecoder& decoder_;
  std::vector<Slot> slots_;
  std::vector<int64_t> free_;
  std::vector<SlotStart> starts_;
  std::vector<SlotRow> rows_;
  NextTokens next_;
};

void check_options(const DecodeAllOptions& o, const detail::BeamRules& rules, int64_t sources) {
  rules.check_values(kName);
  check(o.end >= -1, "{}: .end is a token, or -1 for none, got {}", kName, o.end);
  check(o.begin >= 0, "{}: .begin is {}; give the token of the first step", kName, o.begin);
  check(o.rows >= 1, "{}: .rows is {}; give 1 or more", kName, o.rows);
  check(o.log_probs || o.beam == 1, "{}: a beam of {} needs .log_probs", kName, o.beam);
  o.max_length.check_values(kName, "max_length", sources);
  check(o.shortlists.empty() || std::ssize(o.shortlists) == sources,
        "{}: .shortlists has {} lists for {} sentences", kName, o.shortlists.size(), sources);
}

/// The longest sources first, so that memory is largest at the start.
std::vector<int64_t> by_length(std::span<const std::vector<int64_t>> sources) {
  std::vector<int64_t> order(sources.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return sources[a].size() > sources[b].size(); });
  return order;
}

std::vector<uint8_t> allowed_tokens(const DecodeAllOptions& o, int64_t vocab) {
  check(o.end < vocab && o.begin < vocab, "{}: .begin is {} and .end {}, but there are {} tokens",
        kName, o.begin, o.end, vocab);
  std::vector<uint8_t> allowed(static_cast<size_t>(vocab), 1);
  for (const int64_t id : o.forbid) {
    check(id >= 0 && id < vocab, "{}: .forbid has {}, but there are {} tokens", kName, id, vocab);
    allowed[id] = 0;
  }
  for (const std::vector<int64_t>& list : o.shortlists)
    for (size_t i = 0; i < list.size(); ++i)
      check(list[i] >= (i == 0 ? 0 : list[i - 1] + 1) && list[i] < vocab,
            "{}: .shortlists has {} after {}; tokens must ascend and be below {}", kName, list[i],
            i == 0 ? -1 : list[i - 1], vocab);
  return allowed;
}

}  // namespace

std::vector<std::vector<Hypothesis>> decode_all(const MakeSlotDecoder& make,
                                                std::span<const std::vector<int64_t>> sources,
                                                const DecodeAllOptions& o) {
  Job job{o, {o.beam, o.alpha, o.n_best, o.end}, sources, {}, {}};
  check_options(o, job.rules, std::ssize(sources));
  if (sources.empty()) return {};
  job.out.resize(sources.size());
  Queue queue(by_length(sources), o.progress);
  const int64_t threads = in_serial() ? 1 : num_threads();
  const int64_t workers = std::clamp<int64_t>(queue.size() / kLeastSentences, 1, threads);
  const int64_t slots =
      std::min(std::max<int64_t>(1, o.rows / o.beam), ceil_div(queue.size(), workers));
  const std::unique_ptr<SlotDecoder> first = make();
  job.allowed = allowed_tokens(o, first->vocab());
  auto work = [&](int64_t w) {
    try {
      const std::unique_ptr<SlotDecoder> own = w == 0 ? nullptr : make();
      Worker(job, own ? *own : *first, slots).run(queue);
    } catch (...) {
      queue.stop();
      throw;
    }
  };
  if (workers == 1)
    work(0);
  else
    parallel_blocks(workers, work);
  if (queue.stopped()) return {};
  return std::move(job.out);
}

}  // namespace tern::decoding

// A ledger of all live memory blocks with the ops that made them, kept by the allocator's listener;
// the largest blocks at the peak; and a sampled trace of live bytes.
#include "tern/core/tools/memory_timeline.h"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "tern/core/base/allocator.h"
#include "tern/core/io/safetensors.h"

namespace tern {
namespace {

using Block = MemoryTimeline::Block;
using Clock = std::chrono::steady_clock;

constexpr size_t kListed = 10;  // in errors
constexpr size_t kKeptAtPeak = 1000;
constexpr size_t kMaxSamples = 1 << 16;

std::string maker_now() {
  std::string text;
  for (const OpScope* op = current_op(); op; op = op->outer()) {
    std::string name = op->name();
    if (op->pass() == Pass::backward) name += " backward";
    if (text.ends_with(name)) continue;
    text += (text.empty() ? "" : " in ") + name;
  }
  return text;
}

std::string megabytes(int64_t bytes) {
  return fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6);
}

std::string listed(const std::vector<Block>& blocks) {
  std::string text;
  for (const Block& b : blocks)
    text += fmt::format("  {:>12}  {}{}\n", megabytes(b.bytes),
                        b.maker.empty() ? "outside of any op" : b.maker,
                        b.module.empty() ? "" : ", " + b.module);
  return text;
}

}  // namespace

// Receives the allocator's calls, which come one after another.
class MemoryTimeline::Ledger final : public detail::AllocationListener {
 public:
  void allocated(void* p, std::size_t bytes) override {
    const OpScope* op = current_op();
    Block block{static_cast<int64_t>(bytes), maker_now(), op ? op->module() : ""};
    std::lock_guard lock(mutex_);
    live_ += block.bytes;
    blocks_[p] = std::move(block);
    sample();
    if (live_ <= peak_) return;
    peak_ = live_;
    if (live_ < listed_at_ + listed_at_ / 100) return;
    listed_at_ = live_;
    at_peak_ = first_blocks(kKeptAtPeak);
  }
  void freed(void* p) noexcept override {
    std::lock_guard lock(mutex_);
    auto it = blocks_.find(p);
    if (it == blocks_.end()) return;  // allocated before the timeline began
    live_ -= it->second.bytes;
    blocks_.erase(it);
    sample();
  }
  std::string describe() const override {
    std::lock_guard lock(mutex_);
    return fmt::format("the largest tensors alive:\n{}", listed(first_blocks(kListed)));
  }

  std::vector<Block> largest(size_t most) const {
    std::lock_guard lock(mutex_);
    return first_blocks(most);
  }
  std::vector<Block> at_peak(size_t most) const {
    std::lock_guard lock(mutex_);
    return {at_peak_.begin(),
            at_peak_.begin() + static_cast<std::ptrdiff_t>(std::min(most, at_peak_.size()))};
  }
  int64_t live() const {
    std::lock_guard lock(mutex_);
    return live_;
  }
  int64_t peak() const {
    std::lock_guard lock(mutex_);
    return peak_;
  }
  nlohmann::json trace() const {
    std::lock_guard lock(mutex_);
    nlohmann::json events = nlohmann::json::array();
    for (const Sample& s : samples_)
      events.push_back({{"name", "tensors"},
                        {"ph", "C"},
                        {"ts", s.microseconds},
                        {"pid", 1},
                        {"args", {{"live bytes", s.live}}}});
    return {{"traceEvents", events}};
  }

 private:
  struct Sample {
    double microseconds;
    int64_t live;
  };

  std::vector<Block> first_blocks(size_t most) const {
    std::vector<const Block*> all;
    for (const auto& [p, block] : blocks_) all.push_back(&block);
    most = std::min(most, all.size());
    std::partial_sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(most), all.end(),
                      [](const Block* a, const Block* b) {
                        return a->bytes != b->bytes ? a->bytes > b->bytes : a->maker < b->maker;
                      });
    std::vector<Block> out;
    for (size_t i = 0; i < most; ++i) out.push_back(*all[i]);
    return out;
  }

  // If there are too many samples, drops every other one and halves the rate.
  void sample() {
    if (++calls_ % every_ != 0) return;
    if (samples_.size() == kMaxSamples) {
      for (size_t i = 0; i < kMaxSamples / 2; ++i) samples_[i] = samples_[2 * i];
      samples_.resize(kMaxSamples / 2);
      every_ *= 2;
    }
    samples_.push_back({1e6 * std::chrono::duration<double>(Clock::now() - start_).count(), live_});
  }

  mutable std::mutex mutex_;
  std::unordered_map<void*, Block> blocks_;
  std::vector<Block> at_peak_;
  std::vector<Sample> samples_ = reserved();
  static std::vector<Sample> reserved() {
    std::vector<Sample> samples;
    samples.reserve(kMaxSamples);  // freed() must not allocate
    return samples;
  }
  int64_t live_ = 0, peak_ = 0, listed_at_ = 0;
  uint64_t calls_ = 0, every_ = 1;
  Clock::time_point start_ = Clock::now();
};

MemoryTimeline::MemoryTimeline() : ledger_(std::make_unique<Ledger>()), watching_(*this) {
  detail::listen_to_allocations(ledger_.get());
}

MemoryTimeline::~MemoryTimeline() { detail::listen_to_allocations(nullptr); }

std::vector<Block> MemoryTimeline::largest(size_t most) const { return ledger_->largest(most); }
std::vector<Block> MemoryTimeline::largest_at_peak(size_t most) const {
  return ledger_->at_peak(most);
}
int64_t MemoryTimeline::live_bytes() const { return ledger_->live(); }
int64_t MemoryTimeline::peak_bytes() const { return ledger_->peak(); }

std::string MemoryTimeline::report(size_t most) const {
  return fmt::format("peak {}, the largest tensors then:\n{}now {}:\n{}", megabytes(peak_bytes()),
                     listed(largest_at_peak(most)), megabytes(live_bytes()), listed(largest(most)));
}

void MemoryTimeline::write_trace(const std::string& path) const {
  write_file_atomically(path, ledger_->trace().dump());
}

}  // namespace tern

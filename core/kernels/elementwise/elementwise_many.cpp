// The driver of elementwise ops with several results: packs operands that are not plain, each by
// its own loops, into buffers of 256 elements.
#include "tern/core/kernels/elementwise/elementwise_many.h"

#include <algorithm>

#include "tern/core/base/threads.h"
#include "tern/core/kernels/creation/copy.h"

namespace tern::kernels::detail {
namespace {

constexpr int64_t kManyBlock = 256;  // elements of a buffer

/// An input with its loops.
struct Source {
  Loops loops;
  const char* data;
  DType type;
  BlockCopy load;
  bool plain;  // contiguous and of the wanted type
};

/// One thread's share of a pass.
class ManyWorker {
 public:
  ManyWorker(const ManyPass& pass, std::span<const Source> sources)
      : pass_(pass), sources_(sources), size_(item_size(pass.type)) {}

  void run(int64_t first, int64_t last) {
    bool whole = true;
    for (const Source& s : sources_) whole &= s.plain;
    for (void* out : pass_.out) whole &= out != nullptr;
    const int64_t step = whole ? last - first : kManyBlock;
    for (int64_t at = first; at < last; at += step) one_block(at, std::min(step, last - at));
  }

 private:
  void one_block(int64_t at, int64_t n) {
    const void* in[kMaxMany + 1];
    for (size_t k = 0; k < sources_.size(); ++k) in[k] = input(k, at, n);
    void* out[kMaxMany];
    for (size_t j = 0; j < pass_.out.size(); ++j)
      out[j] = pass_.out[j] ? static_cast<char*>(pass_.out[j]) + at * size_ : unwanted_;
    pass_.block(pass_.op, out, in, n);
  }

  // A pointer to n elements of input k, from element `at` on: in place, or packed.
  const void* input(size_t k, int64_t at, int64_t n) {
    const Source& s = sources_[k];
    if (s.plain) return s.data + at * size_;
    Dims index;
    const int64_t from = seek(s.loops, at, index)[0], stride = s.loops.inner_stride(0);
    const int64_t left = s.loops.inner_size() - index[index.size() - 1];
    const char* p = s.data + from * item_size(s.type);
    if (left >= n && stride == 1 && s.type == pass_.type) return p;
    if (left >= n && stride == 0 && held_[k] == p) return stage_[k];
    char* to = stage_[k];
    const Steps steps{s.loops.row_stride(0), stride};
    for_each_block(s.loops, at, at + n, [&](const Offsets& offsets, int64_t rows, int64_t count) {
      s.load(to, {count, 1}, s.data + offsets[0] * item_size(s.type), steps, rows, count);
      to += rows * count * size_;
    });
    held_[k] = left >= n && stride == 0 && n == kManyBlock ? p : nullptr;
    return stage_[k];
  }

  const ManyPass& pass_;
  std::span<const Source> sources_;
  int64_t size_;
  const char* held_[kMaxMany + 1] = {};  // the repeated element that fills a buffer
  alignas(64) char stage_[kMaxMany + 1][kManyBlock * 8];
  alignas(64) char unwanted_[kManyBlock * 8];
};

}  // namespace

void run(const ManyPass& pass) {
  const int64_t n = numel(pass.shape);
  if (n == 0) return;
  std::array<Source, kMaxMany + 1> sources;
  for (size_t k = 0; k < pass.in.size(); ++k) {
    const auto& [in, layout] = pass.in[k];
    sources[k] = {plan_loops(pass.shape, {&layout}), static_cast<const char*>(in.data), in.type,
                  block_copy(pass.type, in.type), false};
    const Loops& loops = sources[k].loops;
    sources[k].plain = in.type == pass.type && loops.sizes.size() == 1 &&
                       (loops.inner_stride(0) == 1 || loops.inner_size() == 1);
  }
  parallel_for(n, kGrain, [&](int64_t begin, int64_t end) {
    ManyWorker worker(pass, std::span(sources).first(pass.in.size()));
    worker.run(begin, end);
  });
}

}  // namespace tern::kernels::detail

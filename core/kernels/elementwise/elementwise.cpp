// The driver of elementwise ops: long runs are computed in place; short, strided or converted runs
// go through buffers of 512 elements.
#include "tern/core/kernels/elementwise/elementwise.h"

#include "tern/core/base/threads.h"
#include "tern/core/kernels/creation/copy.h"

namespace tern::kernels {
namespace {

constexpr int64_t kBlock = 512;   // elements of a staging buffer
constexpr int64_t kLongRun = 64;  // runs of this length or more each get their own call of the op

struct Pass {
  const Loops& loops;
  void* out;
  std::span<const Input> in;
  const ElementwiseOp& op;
};

/// One thread's share of a pass.
class Worker {
 public:
  explicit Worker(const Pass& pass) : pass_(pass), inputs_(static_cast<int>(pass.in.size())) {
    for (int k = 0; k <= inputs_; ++k) {
      size_t i = static_cast<size_t>(k);
      stored_[i] = k == 0 ? pass.op.out : pass.in[i - 1].type;
      wanted_[i] = k == 0 ? pass.op.out : pass.op.in[i - 1];
      base_[i] = k == 0 ? static_cast<char*>(pass.out)
                        : const_cast<char*>(static_cast<const char*>(pass.in[i - 1].data));
      load_[i] = block_copy(wanted_[i], stored_[i]);
    }
  }

  void run(int64_t first, int64_t last) {
    if (pass_.loops.inner_size() >= kLongRun || pass_.loops.sizes.size() == 1)
      long_runs(first, last);
    else
      short_runs(first, last);
  }

 private:
  // Computes run by run. Contiguous operands are used in place.
  void long_runs(int64_t first, int64_t last) {
    bool staged = false;
    for (int k = 0; k <= inputs_; ++k) staged |= !plain(k);
    for_each_run(pass_.loops, first, last, [&](const Offsets& at, int64_t count) {
      int64_t step = staged ? kBlock : count;
      for (int64_t i = 0; i < count; i += step) one_block(at, i, std::min(step, count - i));
    });
  }

  void one_block(const Offsets& at, int64_t i, int64_t n) {
    const void* in[kMaxOperands];
    for (int k = 1; k <= inputs_; ++k)
      in[k - 1] = staged_input(k, at[static_cast<size_t>(k)] + i * stride(k), n);
    char* out = address(0, at[0] + i * stride(0));
    if (plain(0)) return pass_.op.block(pass_.op.op, out, in, n);
    pass_.op.block(pass_.op.op, stage_[0], in, n);
    load_[0](out, {0, stride(0)}, stage_[0], {0, 1}, 1, n);
  }

  const void* staged_input(int k, int64_t offset, int64_t n) {
    size_t i = static_cast<size_t>(k);
    char* p = address(k, offset);
    if (plain(k)) return p;
    bool repeated = stride(k) == 0;
    if (repeated && held_[i].p == p && held_[i].n >= n) return stage_[i];
    load_[i](stage_[i], {0, 1}, p, {0, stride(k)}, 1, n);
    held_[i] = {p, repeated ? n : 0};
    return stage_[i];
  }

  // Computes blocks that span many short runs. Strided operands are packed.
  void short_runs(int64_t first, int64_t last) {
    bool whole[kMaxOperands];
    for (int k = 0; k <= inputs_; ++k) whole[k] = plain(k) && without_gaps(k);
    for (int64_t at = first; at < last; at += kBlock) {
      int64_t n = std::min(kBlock, last - at);
      const void* in[kMaxOperands];
      for (int k = 1; k <= inputs_; ++k) {
        in[k - 1] = whole[k] ? address(k, at) : stage_[k];
        if (!whole[k]) pack(k, at, n);
      }
      pass_.op.block(pass_.op.op, whole[0] ? address(0, at) : static_cast<void*>(stage_[0]), in, n);
      if (!whole[0]) unpack(at, n);
    }
  }

  void pack(int k, int64_t first, int64_t n) {
    size_t i = static_cast<size_t>(k);
    char* to = stage_[i];
    const int64_t size = item_size(wanted_[i]);
    for_each_block(pass_.loops, first, first + n,
                   [&](const Offsets& at, int64_t rows, int64_t count) {
                     load_[i](to, {count, 1}, address(k, at[i]), steps(k), rows, count);
                     to += rows * count * size;
                   });
  }

  void unpack(int64_t first, int64_t n) {
    const char* from = stage_[0];
    for_each_block(pass_.loops, first, first + n,
                   [&](const Offsets& at, int64_t rows, int64_t count) {
                     load_[0](address(0, at[0]), steps(0), from, {count, 1}, rows, count);
                     from += rows * count * item_size(pass_.op.out);
                   });
  }

  int64_t stride(int k) const { return pass_.loops.inner_stride(k); }
  Steps steps(int k) const { return {pass_.loops.row_stride(k), stride(k)}; }
  char* address(int k, int64_t offset) const {
    size_t i = static_cast<size_t>(k);
    return base_[i] + offset * item_size(stored_[i]);
  }
  bool plain(int k) const {
    size_t i = static_cast<size_t>(k);
    return stride(k) == 1 && stored_[i] == wanted_[i];
  }
  bool without_gaps(int k) const {
    return pass_.loops.strides[static_cast<size_t>(k)] == contiguous_strides(pass_.loops.sizes);
  }

  struct Held {
    const void* p = nullptr;
    int64_t n = 0;
  };
  const Pass& pass_;
  int inputs_;
  DType stored_[kMaxOperands], wanted_[kMaxOperands];
  char* base_[kMaxOperands];
  BlockCopy load_[kMaxOperands];
  Held held_[kMaxOperands];  // the repeated element that fills a buffer
  alignas(64) char stage_[kMaxOperands][kBlock * 8];
};

}  // namespace

void elementwise(const Loops& loops, void* out, std::span<const Input> in,
                 const ElementwiseOp& op) {
  const Pass pass{loops, out, in, op};
  parallel_for(loops.numel, kGrain, [&](int64_t begin, int64_t end) {
    Worker worker(pass);
    worker.run(begin, end);
  });
}

}  // namespace tern::kernels

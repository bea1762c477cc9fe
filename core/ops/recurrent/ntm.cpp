// One step of a Neural Turing Machine's memory as a fused op, the same step by public ops, and the
// joining and splitting of states.
#include "tern/core/ops/recurrent/ntm.h"

#include "tern/core/kernels/recurrent/ntm.h"
#include "tern/core/ops/composed.h"

namespace tern {
namespace {

kernels::NtmSize size_of(const Tensor& state, const NtmMemory& m) {
  const NtmAddressing& a = m.addressing;
  return {state.size(0), m.locations, m.width,         m.reads, m.writes,
          m.shift,       a.content,   a.interpolation, a.shift, a.sharpening};
}

/// Error unless the numbers are possible and parameters() and state() fit 63 bits.
void check_memory(const char* op, const NtmMemory& m) {
  check(m.locations >= 1 && m.width >= 1 && m.reads >= 0 && m.writes >= 0 && m.shift >= 0,
        "{}: locations and width must be positive, heads and shifts not negative; got {} "
        "locations of width {}, {} reading and {} writing heads, shifts up to {}",
        op, m.locations, m.width, m.reads, m.writes, m.shift);
  const auto times = [op](int64_t a, int64_t b) { return checked_product(op, a, b); };
  const auto plus = [op](int64_t a, int64_t b) { return checked_sum(op, a, b); };
  const int64_t heads = plus(m.reads, m.writes), numbers = plus(times(2, m.shift), 4);
  plus(times(heads, plus(m.width, numbers)), times(times(m.writes, 2), m.width));
  plus(plus(times(m.reads, m.width), times(heads, m.locations)), times(m.locations, m.width));
}

void check_state(const char* op, const Tensor& state, const NtmMemory& m) {
  check_memory(op, m);
  check(state.ndim() == 2 && state.size(1) == m.state(),
        "{}: the state must be (B, {}), with reads of {} x {}, weights of {} x {} and a memory of "
        "{} x {}; got {}",
        op, m.state(), m.reads, m.width, m.heads(), m.locations, m.locations, m.width,
        state.shape());
}

struct NtmVjp {
  NtmMemory memory;
  Saved heads, state, next;

  Gradients operator()(Consumed d) const {
    const Tensor p = heads.get(), old = state.get();
    if (grad_enabled()) {
      auto fn = [m = memory](const std::vector<Tensor>& in) {
        return composed::ntm_step(in[0], in[1], m);
      };
      return detail::composed_gradients(fn, {p, old}, d);
    }
    d.make_contiguous();
    Fresh dstate = d.reuse(), dheads(p.shape(), p.dtype());
    dispatch_float(p.dtype(), "ntm_step", [&]<class T>() {
      kernels::ntm_backward(size_of(old, memory), p.data<T>(), old.data<T>(), next.get().data<T>(),
                            d.get().data<T>(), dheads.data<T>(), dstate.data<T>());
    });
    return {not_differentiable(dheads), not_differentiable(dstate)};
  }
};

/// Reads the heads' parameters one after the other, for the composed definition.
class HeadNumbers {
 public:
  explicit HeadNumbers(const Tensor& heads) : heads_(heads) {}
  Tensor next(int64_t n) {
    at_ += n;
    return narrow(heads_, 1, at_ - n, n);
  }

 private:
  Tensor heads_;
  int64_t at_ = 0;
};

/// The weighting (B, N) from memory x (B, M, N), its norms (B, N) and the last weighting (B, N).
Tensor address(HeadNumbers& p, const NtmMemory& m, const Tensor& x, const Tensor& norms,
               const Tensor& last) {
  const Tensor key = p.next(m.width), beta = softplus(p.next(1)), gate = sigmoid(p.next(1));
  const Tensor kernel = softmax(p.next(2 * m.shift + 1), 1), gamma = 1 + softplus(p.next(1));
  Tensor w = last;
  if (m.addressing.content) {
    Tensor cosine = sum(unsqueeze(key, 2) * x, 1) / (norms * norm(key, 2, 1, true) + 1e-8);
    Tensor content = softmax(beta * cosine, 1);
    w = m.addressing.interpolation ? gate * content + (1 - gate) * last : content;
  }
  if (m.addressing.shift) {
    Tensor shifted = zeros_like(w);
    for (int64_t j = -m.shift; j <= m.shift; ++j)
      shifted = shifted + narrow(kernel, 1, j + m.shift, 1) * roll(w, {j}, {1});
    w = shifted;
  }
  return m.addressing.sharpening ? softmax(gamma * log(w + 1e-30), 1) : w;
}

}  // namespace

Tensor composed::ntm_step(const Tensor& heads, const Tensor& state, const NtmMemory& m) {
  const NtmParts old = ntm_parts(state, m);
  const Tensor before = transpose(old.memory, 1, 2), norms = norm(before, 2, 1);
  Tensor x = before;
  HeadNumbers p(heads);
  std::vector<Tensor> weights;
  for (int64_t h = 0; h < m.heads(); ++h) {
    weights.push_back(address(p, m, before, norms, select(old.weights, 1, h)));
    if (h >= m.writes) continue;
    Tensor w = unsqueeze(weights.back(), 1), erase = unsqueeze(sigmoid(p.next(m.width)), 2);
    x = x * (1 - erase * w) + unsqueeze(tanh(p.next(m.width)), 2) * w;
  }
  std::vector<Tensor> parts;
  for (int64_t h = m.writes; h < m.heads(); ++h)
    parts.push_back(sum(x * unsqueeze(weights[static_cast<size_t>(h)], 1), 2));
  for (const Tensor& w : weights) parts.push_back(w);
  parts.push_back(flatten(x, 1));
  return cat(parts, 1);
}

Tensor ntm_step(const Tensor& heads_in, const Tensor& state_in, const NtmMemory& memory) {
  Op op("ntm_step", heads_in, state_in);
  check_defined("ntm_step", heads_in, state_in);
  check_state("ntm_step", state_in, memory);
  check(heads_in.shape() == Shape{state_in.size(0), memory.parameters()},
        "ntm_step: the heads' parameters must be {} for {} writing and {} reading heads of width "
        "{} and shifts up to {}, got {}",
        Shape{state_in.size(0), memory.parameters()}, memory.writes, memory.reads, memory.width,
        memory.shift, heads_in.shape());
  check(heads_in.dtype() == state_in.dtype(),
        "ntm_step: the parameters are {}, the state {}; convert one with .to()", heads_in.dtype(),
        state_in.dtype());
  if (detail::composing()) return composed::ntm_step(heads_in, state_in, memory);
  Tensor heads = heads_in.contiguous(), state = state_in.contiguous();
  Fresh next(state.shape(), state.dtype());
  dispatch_float(state.dtype(), "ntm_step", [&]<class T>() {
    kernels::ntm_forward(size_of(state, memory), heads.data<T>(), state.data<T>(), next.data<T>());
  });
  return op.record(next, {heads, state}, NtmVjp{memory, save(heads), save(state), save(next)});
}

Tensor ntm_state(const NtmParts& parts) {
  check_defined("ntm_state", parts.reads, parts.weights, parts.memory);
  check(parts.reads.ndim() == 3 && parts.weights.ndim() == 3 && parts.memory.ndim() == 3,
        "ntm_state: needs reads (B, R, M), weights (B, H, N) and memory (B, N, M), got {}, {}, {}",
        parts.reads.shape(), parts.weights.shape(), parts.memory.shape());
  return cat({flatten(parts.reads, 1), flatten(parts.weights, 1),
              flatten(transpose(parts.memory, 1, 2), 1)},
             1);
}

NtmParts ntm_parts(const Tensor& state, const NtmMemory& m) {
  check_defined("ntm_parts", state);
  check_state("ntm_parts", state, m);
  const int64_t batch = state.size(0), weights = m.reads * m.width;
  Tensor x = narrow(state, 1, weights + m.heads() * m.locations, m.width * m.locations);
  return {
      reshape(narrow(state, 1, 0, weights), {batch, m.reads, m.width}),
      reshape(narrow(state, 1, weights, m.heads() * m.locations), {batch, m.heads(), m.locations}),
      transpose(reshape(x, {batch, m.width, m.locations}), 1, 2)};
}

Tensor ntm_reads(const Tensor& state, const NtmMemory& m) {
  check_state("ntm_reads", state, m);
  return narrow(state, 1, 0, m.reads * m.width);
}

}  // namespace tern

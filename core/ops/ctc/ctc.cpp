// Connectionist temporal classification: checks of targets and lengths, the fused op on (T, N, C)
// with its gradient, reductions.
#include "tern/core/kernels/ctc/ctc.h"

#include <algorithm>
#include <limits>
#include <memory>

#include "tern/core/base/threads.h"
#include "tern/core/ops/losses/loss_parts.h"
#include "tern/core/ops/losses/losses.h"
#include "tern/core/tape/autograd.h"
#include "tern/core/tape/record.h"

namespace tern {
namespace {

using Lengths = std::vector<int64_t>;

// The targets of all samples. They have no gradient.
struct Spelling {
  Tensor targets;  // i64, contiguous
  Lengths starts, input_lengths, target_lengths;
  int64_t blank, states;

  kernels::CtcShape of(const Tensor& x) const {
    return {x.size(0),
            x.size(1),
            x.size(2),
            blank,
            targets.data<int64_t>(),
            starts.data(),
            input_lengths.data(),
            target_lengths.data(),
            states};
  }
};

void check_lengths(const Tensor& x, const Lengths& inputs, const Lengths& targets) {
  const int64_t times = x.size(0), samples = x.size(1);
  check(std::ssize(inputs) == samples && std::ssize(targets) == samples,
        "ctc_loss: {} samples, but {} input lengths and {} target lengths", samples, inputs.size(),
        targets.size());
  for (int64_t n = 0; n < samples; ++n) {
    check(inputs[n] >= 0 && inputs[n] <= times,
          "ctc_loss: input length {} of sample {} is outside [0, {}]", inputs[n], n, times);
    check(targets[n] >= 0, "ctc_loss: target length {} of sample {} is negative", targets[n], n);
  }
}

// The position where each target begins: padded (N, S) has one row per target; in a vector they
// follow each other.
Lengths starts_of(const Tensor& targets, const Lengths& lengths) {
  Lengths starts;
  int64_t total = 0;
  for (size_t n = 0; n < lengths.size(); ++n) {
    starts.push_back(targets.ndim() == 2 ? static_cast<int64_t>(n) * targets.size(1) : total);
    check(targets.ndim() == 1 || lengths[n] <= targets.size(1),
          "ctc_loss: target length {} of sample {} is more than targets of shape {} hold",
          lengths[n], n, targets.shape());
    total = checked_sum("ctc_loss", total, lengths[n]);
  }
  check(targets.ndim() == 2 || total == targets.numel(),
        "ctc_loss: the target lengths add up to {}, but there are {} targets", total,
        targets.numel());
  return starts;
}

// Uses parallel_blocks, which a ShapeOnlyScope skips: targets may read as 0 there.
void check_symbols(const Spelling& s, int64_t classes) {
  const int64_t* y = s.targets.data<int64_t>();
  parallel_blocks(std::ssize(s.starts), s.targets.numel(), [&](int64_t n) {
    for (int64_t i = 0; i < s.target_lengths[n]; ++i) {
      const int64_t symbol = y[s.starts[n] + i];
      check(symbol >= 0 && symbol < classes && symbol != s.blank,
            "ctc_loss: target {} of sample {} at position {} must be a class in [0, {}) and not "
            "the blank {}",
            symbol, n, i, classes, s.blank);
    }
  });
}

// x (T, N, C), targets (N, S) or a vector.
Spelling spelling_of(const Tensor& x, const Tensor& targets, const Lengths& input_lengths,
                     const Lengths& target_lengths, int64_t blank) {
  check(targets.dtype() == DType::i64,
        "ctc_loss: targets must be i64 classes, got {}; convert with .to(DType::i64)",
        targets.dtype());
  check((targets.ndim() == 2 && targets.size(0) == x.size(1)) || targets.ndim() == 1,
        "ctc_loss: targets of shape {} do not fit log_probs {} (T, N, C); give (N, S), or all "
        "targets in one vector",
        targets.shape(), x.shape());
  check(blank >= 0 && blank < x.size(2), "ctc_loss: blank {} is outside [0, {})", blank, x.size(2));
  check_lengths(x, input_lengths, target_lengths);
  int64_t longest = 0;
  for (int64_t length : target_lengths) longest = std::max(longest, length);
  Spelling s{targets.contiguous(),
             starts_of(targets, target_lengths),
             input_lengths,
             target_lengths,
             blank,
             2 * longest + 1};
  check_symbols(s, x.size(2));
  return s;
}

Tensor gradient(const Tensor& dy, const Tensor& x, const Tensor& log_p, const Tensor& alpha,
                const Spelling& spelling, bool zero_infinity) {
  Op op("ctc_loss", dy, x);
  Tensor d = dy.contiguous();
  Fresh dx(x.shape(), x.dtype());
  dispatch_float(x.dtype(), "ctc_loss", [&]<class T>() {
    kernels::ctc_backward(spelling.of(x), x.data<T>(), alpha.data<double>(), log_p.data<double>(),
                          d.data<T>(), zero_infinity, dx.data<T>());
  });
  return op.record(dx, no_second_derivative("ctc_loss"));
}

// The losses (N) of log_probs (T, N, C).
Tensor losses_of(const Tensor& log_probs, std::shared_ptr<const Spelling> spelling,
                 bool zero_infinity) {
  Op op("ctc_loss", log_probs);
  Tensor x = log_probs.contiguous();
  const int64_t samples = x.size(1);
  Fresh log_p(samples, DType::f64);
  Fresh alpha({samples, x.size(0), spelling->states}, DType::f64);
  dispatch_float(x.dtype(), "ctc_loss", [&]<class T>() {
    kernels::ctc_forward(spelling->of(x), x.data<T>(), log_p.data<double>(), alpha.data<double>());
  });
  Tensor known = not_differentiable(log_p);
  Fresh y = [&] {
    NoGradGuard guard;
    Tensor losses = 0 - known;
    if (zero_infinity)
      losses = masked_fill(losses, eq(losses, std::numeric_limits<double>::infinity()), 0);
    return Fresh::adopt(losses.to(x.dtype()));
  }();
  auto vjp = [x = save(x), targets = save(spelling->targets), known, spelling, zero_infinity,
              alpha = not_differentiable(alpha)](const Tensor& dy) {
    targets.check_unchanged();
    return gradient(dy, x.get(), known, alpha, *spelling, zero_infinity);
  };
  return op.record(y, {x}, vjp);
}

}  // namespace

Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets, const Lengths& input_lengths,
                const Lengths& target_lengths, const CtcOptions& o) {
  check_defined("ctc_loss", log_probs, targets);
  const bool one = log_probs.ndim() == 2;
  check(one || log_probs.ndim() == 3, "ctc_loss: log_probs must be (T, N, C) or (T, C), got {}",
        log_probs.shape());
  check(is_float(log_probs.dtype()), "ctc_loss: needs floating log_probs, got {}",
        log_probs.dtype());
  Tensor x = one ? unsqueeze(log_probs, 1) : log_probs;
  auto spelling = std::make_shared<const Spelling>(
      spelling_of(x, targets, input_lengths, target_lengths, o.blank));
  Tensor losses = losses_of(x, spelling, o.zero_infinity);
  if (o.reduction == Reduction::mean) {
    Lengths least = target_lengths;
    for (int64_t& length : least) length = std::max<int64_t>(length, 1);
    losses = losses / tensor(least).to(x.dtype());
    return mean(losses);
  }
  if (o.reduction == Reduction::none && one) return select(losses, 0, 0);
  return detail::reduced(losses, o.reduction);
}

std::vector<int64_t> detail::ctc_lengths(const Tensor& lengths) {
  check_defined("ctc_loss", lengths);
  check(lengths.dtype() == DType::i64 && lengths.ndim() == 1,
        "ctc_loss: lengths must be i64 (N), got {} {}", lengths.dtype(), lengths.shape());
  return lengths.to_vector<int64_t>();
}

}  // namespace tern

// Updates of the averages, one parallel pass over all float tensors, and the exchange with the
// weights, which swaps elements in place.
#include "tern/optim/ema.h"

#include <algorithm>
#include <string>
#include <unordered_map>

#include "tern/core/base/simd.h"
#include "tern/core/base/threads.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/optim/betas.h"
#include "tern/optim/cuts.h"

namespace tern::optim {
namespace {

const char* const kUpdates = "updates";

/// average = average + (1-decay) * (x - average).
template <class T>
void move_average(T* average, const T* x, int64_t n, double decay) {
  const T w = T(1 - decay);
  simd([=] {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) average[i] = averaged(average[i], x[i], w);
  });
}

char* bytes_of(const Tensor& t) {
  return static_cast<char*>(t.ref()->storage->data()) + t.layout().offset * item_size(t.dtype());
}

}  // namespace

Ema::Ema(const NamedTensors& weights, const EmaOptions& options) : options_(options) {
  check(options.decay >= 0 && options.decay < 1, "Ema: the decay must lie in [0, 1), it is {}",
        options.decay);
  // By address. A swap with two averages of one tensor could not be undone.
  std::unordered_map<const char*, std::string> names;
  for (const auto& [name, t] : weights) {
    check(t.is_contiguous(), "Ema: '{}' is not contiguous", name);
    if (t.numel() > 0) {
      const auto [known, first] = names.emplace(bytes_of(t), name);
      check(first, "Ema: '{}' and '{}' are the same tensor; give it once", known->second, name);
    }
    t.check_writable("Ema");  // the exchange with the averages cannot fail
    weights_.emplace_back(name, t.detach());
    averages_.emplace_back(name, t.detach().clone());
    depths_.push_back(0);
  }
}

void Ema::check_in_training() const {
  check(!swapped_, "Ema: cannot update while the averages are swapped in; swap() them out first");
  check_held();
}

void Ema::pull() {
  check_in_training();
  NoGradGuard no_grad;
  for (size_t i = 0; i < weights_.size(); ++i)
    if (const Tensor& average = averages_[i].second; is_float(average.dtype()))
      copy_(weights_[i].second, average);
}

void Ema::restart() {
  check_in_training();
  NoGradGuard no_grad;
  for (size_t i = 0; i < weights_.size(); ++i) copy_(averages_[i].second, weights_[i].second);
  updates_ = 0;
}

void Ema::check_held() const {
  for (const auto& [name, t] : weights_)
    check(!t.ref()->storage->retired(),
          "Ema: the model no longer uses the elements of '{}': it was converted (nn::to), or a "
          "tensor of another shape was assigned; make the Ema after that",
          name);
}

void Ema::update() {
  auto t = static_cast<double>(updates_ + 1);
  double decay = options_.decay;
  if (options_.warmup) decay = std::min(decay, (1 + t) / (10 + t));
  update(decay);
}

void Ema::update(double decay) {
  check(decay >= 0 && decay <= 1, "Ema: the decay must lie in [0, 1], it is {}", decay);
  check_in_training();
  NoGradGuard no_grad;
  std::vector<Cut> cuts;
  for (size_t i = 0; i < weights_.size(); ++i) {
    const Tensor& average = averages_[i].second;
    average.begin_write("Ema");
    if (is_float(average.dtype()))
      cut(cuts, i, average.numel());
    else
      copy_(average, weights_[i].second);
  }
  ++updates_;
  parallel_blocks(static_cast<int64_t>(cuts.size()), work(cuts), [&](int64_t i) {
    const Cut& cut = cuts[static_cast<size_t>(i)];
    const Tensor &average = averages_[cut.item].second, &weight = weights_[cut.item].second;
    dispatch_float(average.dtype(), "Ema", [&]<class T>() {
      move_average(const_cast<T*>(average.data<T>()) + cut.begin, weight.data<T>() + cut.begin,
                   cut.count, decay);
    });
  });
}

// Swaps in place, so that putting the weights back needs no memory and cannot fail.
void Ema::exchange() noexcept {
  for (size_t i = 0; i < weights_.size(); ++i) {
    const Tensor &weight = weights_[i].second, &average = averages_[i].second;
    const int64_t item = item_size(weight.dtype());
    weight.ref()->storage->bump_version();
    average.ref()->storage->bump_version();
    weight.ref()->storage->lend(!swapped_);
    parallel_for(weight.numel(), kCutSize, [&](int64_t begin, int64_t end) {
      std::swap_ranges(bytes_of(weight) + begin * item, bytes_of(weight) + end * item,
                       bytes_of(average) + begin * item);
    });
  }
  swapped_ = !swapped_;
  for (size_t i = 0; i < weights_.size(); ++i)  // weights may share a storage
    depths_[i] = weights_[i].second.ref()->storage->times_lent();
}

void Ema::swap() {
  if (!swapped_) check_held();
  for (size_t i = 0; swapped_ && i < weights_.size(); ++i)
    check(
        weights_[i].second.ref()->storage->times_lent() == depths_[i],
        "Ema: '{}' holds the averages of another Ema, which was swapped in later; swap those back "
        "first",
        weights_[i].first);
  exchange();
}

NamedTensors Ema::averages() const { return swapped_ ? weights_ : averages_; }

NamedTensors Ema::weights() const { return swapped_ ? averages_ : weights_; }

NamedTensors Ema::state_dict() const {
  NamedTensors out = averages();
  out.emplace_back(kUpdates, scalar(updates_, DType::i64));
  return out;
}

void Ema::load_state_dict(const NamedTensors& state) {
  NamedTensors targets = state_dict();
  load_state("Ema: load_state_dict", targets, state);
  updates_ = targets.back().second.item<int64_t>();
}

EmaScope::EmaScope(Ema& ema) : ema_(ema) {
  check(!ema.swapped(), "EmaScope: the averages are swapped in already");
  ema_.swap();
}

EmaScope::~EmaScope() {
  if (ema_.swapped()) ema_.exchange();
}

}  // namespace tern::optim

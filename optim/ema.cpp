#include "tern/optim/ema.h"

#include <algorithm>

#include "tern/core/base/threads.h"
#include "tern/core/kernels/optim.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/optim/pieces.h"

namespace tern::optim {
namespace {

const char* const kUpdates = "updates";

}  // namespace

Ema::Ema(const NamedTensors& weights, const EmaOptions& options) : options_(options) {
  check(options.decay >= 0 && options.decay < 1, "Ema: the decay must lie in [0, 1), it is {}",
        options.decay);
  for (const auto& [name, t] : weights) {
    check(t.is_contiguous(), "Ema: '{}' is not contiguous", name);
    weights_.emplace_back(name, t.detach());
    averages_.emplace_back(name, t.detach().clone());
  }
}

void Ema::update() {
  check(!swapped_, "Ema: update while the averages are swapped in; swap() them out first");
  NoGradGuard no_grad;
  auto t = static_cast<double>(++updates_);
  double decay = options_.decay;
  if (options_.warmup) decay = std::min(decay, (1 + t) / (10 + t));
  std::vector<Piece> pieces;
  for (size_t i = 0; i < weights_.size(); ++i) {
    const Tensor& average = averages_[i].second;
    average.begin_write("Ema");
    if (is_float(average.dtype()))
      cut(pieces, i, average.numel());
    else
      copy_(average, weights_[i].second);
  }
  parallel_blocks(static_cast<int64_t>(pieces.size()), work(pieces), [&](int64_t i) {
    auto [item, begin, count] = pieces[static_cast<size_t>(i)];
    const Tensor &average = averages_[item].second, &weight = weights_[item].second;
    dispatch_float(average.dtype(), "Ema", [&, begin = begin, count = count]<class T>() {
      kernels::average(const_cast<T*>(average.data<T>()) + begin, weight.data<T>() + begin, count,
                       decay);
    });
  });
}

void Ema::swap() {
  NoGradGuard no_grad;
  for (size_t i = 0; i < weights_.size(); ++i) {
    Tensor weight = weights_[i].second.clone();
    copy_(weights_[i].second, averages_[i].second);
    copy_(averages_[i].second, weight);
  }
  swapped_ = !swapped_;
}

NamedTensors Ema::averages() const { return swapped_ ? weights_ : averages_; }

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

}  // namespace tern::optim

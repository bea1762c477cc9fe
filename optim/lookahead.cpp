// The slow weights are an Ema whose decay, the share, may grow with the steps taken.
#include "tern/optim/lookahead.h"

#include <algorithm>
#include <cmath>

#include "tern/core/base/error.h"

namespace tern::optim {

Lookahead::Lookahead(const NamedTensors& weights, const LookaheadOptions& options)
    : options_(options), slow_(weights) {
  check(options.every > 0 && options.total >= 0 && options.decay >= 0 && options.decay < 1,
        "Lookahead: needs every > 0, total >= 0 and a decay in [0, 1); they are {}, {} and {}",
        options.every, options.total, options.decay);
}

double Lookahead::share(int64_t steps) const {
  const double largest = std::pow(options_.decay, static_cast<double>(options_.every));
  if (options_.total == 0) return largest;
  const double done = static_cast<double>(steps) / static_cast<double>(options_.total);
  return largest * std::pow(std::min(done, 1.0), 3);
}

void Lookahead::after(int64_t steps) {
  check(steps >= 1, "Lookahead: after() counts the steps taken, from 1; got {}", steps);
  const bool due = steps % options_.every == 0;
  if (due) slow_.update(share(steps));
  if (due || steps == options_.total) slow_.pull();
}

}  // namespace tern::optim

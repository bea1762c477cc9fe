#include "tern/nn/conv.h"

#include <cmath>

#include "tern/nn/init.h"

namespace tern::nn {
namespace {

// The weight's in/groups, after checking that groups divide the channels.
int64_t group_size(const char* layer, int64_t in, int64_t out, int64_t groups) {
  check(groups > 0 && in % groups == 0 && out % groups == 0,
        "{}: {} groups do not divide {} input and {} output channels", layer, groups, in, out);
  return in / groups;
}

void start(const Shape& shape, Parameter& weight, Parameter& bias, Bias with_bias, Rng& rng) {
  weight = Parameter(empty(shape));
  int64_t fan = init::fans(shape).in;
  double bound = fan > 0 ? 1 / std::sqrt(static_cast<double>(fan)) : 0;
  init::uniform(weight, -bound, bound, rng);
  if (with_bias == Bias::no) return;
  bias = Parameter(empty({shape[0]}));
  init::uniform(bias, -bound, bound, rng);
}

}  // namespace

Conv1d::Conv1d(int64_t in, int64_t out, int64_t kernel, Rng& rng, const Conv1dOptions& o,
               Bias with_bias)
    : options(o) {
  start({out, group_size("Conv1d", in, out, o.groups), kernel}, weight, bias, with_bias, rng);
}

Conv2d::Conv2d(int64_t in, int64_t out, Size2 kernel, Rng& rng, const Conv2dOptions& o,
               Bias with_bias)
    : options(o) {
  start({out, group_size("Conv2d", in, out, o.groups), kernel[0], kernel[1]}, weight, bias,
        with_bias, rng);
}

}  // namespace tern::nn

// A check that Adam's kin share. Inside of optim only.
#pragma once

#include "tern/core/base/error.h"

namespace tern::optim {

inline void check_betas(const char* name, double beta1, double beta2, double eps) {
  check(beta1 >= 0 && beta1 < 1 && beta2 >= 0 && beta2 < 1 && eps >= 0,
        "{}: betas must lie in [0, 1) and eps must not be negative; they are {}, {} and {}", name,
        beta1, beta2, eps);
}

}  // namespace tern::optim

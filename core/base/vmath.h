// Elementary functions for use inside simd(). They have no branches, so loops over them become
// vector code. They handle infinities, NaN, zeros, denormal numbers and overflow. They are always
// inlined. Call them on single numbers in a loop:
//   simd([=] { for (int64_t i = 0; i < n; ++i) y[i] = vmath::log(x[i]); });
// For float and double. tests/core/base/test_vmath.cpp asserts the errors in units in the last
// place.
#pragma once

#include "tern/core/base/vmath_base.h"
#include "tern/core/base/vmath_erf.h"
#include "tern/core/base/vmath_exp.h"
#include "tern/core/base/vmath_log.h"
#include "tern/core/base/vmath_pow.h"
#include "tern/core/base/vmath_trig.h"

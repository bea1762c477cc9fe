// Elementary functions for use inside simd(): free of branches, so that a loop over them becomes
// vector code, and right everywhere: infinities, NaN, zeros, denormal numbers, overflow. They are
// always inlined; call them on single numbers in a loop:
//   simd([=] { for (int64_t i = 0; i < n; ++i) y[i] = vmath::log(x[i]); });
// float and double; errors in units in the last place are asserted in
// tests/core/base/test_vmath.cpp.
#pragma once

#include "tern/core/base/vmath_base.h"
#include "tern/core/base/vmath_erf.h"
#include "tern/core/base/vmath_exp.h"
#include "tern/core/base/vmath_log.h"
#include "tern/core/base/vmath_pow.h"
#include "tern/core/base/vmath_trig.h"

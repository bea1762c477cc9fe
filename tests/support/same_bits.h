// Compares tensors and states of trainings bit for bit.
#pragma once

#include <doctest/doctest.h>

#include <cstring>
#include <vector>

#include "tern/core/io/safetensors.h"
#include "tern/core/io/state.h"
#include "tern/core/ops/ops.h"

namespace tern::test {

inline bool same_bits(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.shape() != b.shape()) return false;
  return dispatch(a.dtype(), [&]<class T>() {
    std::vector<T> x = a.to_vector<T>(), y = b.to_vector<T>();
    return x.empty() || std::memcmp(x.data(), y.data(), x.size() * sizeof(T)) == 0;
  });
}

inline void check_same(const NamedTensors& x, const NamedTensors& y) {
  REQUIRE(x.size() == y.size());
  for (size_t i = 0; i < x.size(); ++i) {
    CAPTURE(x[i].first);
    CHECK(x[i].first == y[i].first);
    CHECK(same_bits(x[i].second, y[i].second));
  }
}

inline void check_same(const SafeTensors& x, const SafeTensors& y) {
  CHECK(x.metadata == y.metadata);
  check_same(x.tensors, y.tensors);
}

}  // namespace tern::test

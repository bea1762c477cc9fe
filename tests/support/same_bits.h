// Compares tensors and states of trainings bit for bit.
#pragma once

#include <doctest/doctest.h>

#include <cstring>
#include <vector>

#include "tern/core/io/safetensors.h"
#include "tern/core/ops/ops.h"

namespace tern::test {

inline bool same_bits(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.shape() != b.shape()) return false;
  return dispatch(a.dtype(), [&]<class T>() {
    std::vector<T> x = a.to_vector<T>(), y = b.to_vector<T>();
    return x.empty() || std::memcmp(x.data(), y.data(), x.size() * sizeof(T)) == 0;
  });
}

inline void check_same(const SafeTensors& x, const SafeTensors& y) {
  CHECK(x.metadata == y.metadata);
  REQUIRE(x.tensors.size() == y.tensors.size());
  for (size_t i = 0; i < x.tensors.size(); ++i) {
    CAPTURE(x.tensors[i].first);
    CHECK(x.tensors[i].first == y.tensors[i].first);
    CHECK(same_bits(x.tensors[i].second, y.tensors[i].second));
  }
}

}  // namespace tern::test

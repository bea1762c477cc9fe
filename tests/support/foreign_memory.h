// Tensors in memory that is not tern's: read-only, unaligned, and beside pages that must not be
// touched.
#pragma once

#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <memory>

#include "tern/core/tensor/tensor.h"

namespace tern::test {

/// Where the elements lie in their pages: the first one behind a forbidden page, or the last one
/// before such a page. At the end they are aligned to an element alone.
enum class Edge { begin, end };

/// x with its layout in foreign read-only memory. A kernel that writes there, or that reads beyond
/// the first or the last element, crashes.
inline Tensor in_foreign_memory(const Tensor& x, Edge edge) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const detail::Extent e = detail::extent(x.layout());
  const auto bytes = static_cast<size_t>((e.last + 1 - e.first) * item_size(x.dtype()));
  const size_t inner = (bytes + page - 1) / page * page, all = inner + 2 * page;
  void* mapped = mmap(nullptr, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(mapped != MAP_FAILED);
  const std::shared_ptr<void> owner(mapped, [all](void* p) { munmap(p, all); });
  char* const pages = static_cast<char*>(mapped) + page;
  char* const place = edge == Edge::begin ? pages : pages + inner - bytes;
  REQUIRE(mprotect(pages, inner, PROT_READ | PROT_WRITE) == 0);
  return dispatch(x.dtype(), [&]<class T>() {
    const T* first = x.data<T>() + (e.first - x.layout().offset);
    if (bytes > 0) std::memcpy(place, first, bytes);
    REQUIRE(mprotect(pages, inner, PROT_READ) == 0);
    const T* data = reinterpret_cast<const T*>(place) + (x.layout().offset - e.first);
    return Tensor::wrap(data, x.shape(), {.strides = x.strides(), .owner = owner});
  });
}

}  // namespace tern::test

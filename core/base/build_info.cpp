// Joins the details of the processor, BLAS, threads and compiler into one line.
#include "tern/core/base/build_info.h"

#include <fmt/core.h>

#include "tern/core/base/cpu.h"
#include "tern/core/base/products.h"

namespace tern {

std::string build_info() {
  const BuildInfo b = build_details();
  return fmt::format("{}, vector code {}, products in {}, {} with {} kernels, {} thread{}, {}",
                     b.cpu.empty() ? "unknown processor" : b.cpu, b.vector, products_in_use(),
                     b.blas, b.blas_kernels, b.threads, b.threads == 1 ? "" : "s", b.compiler);
}

}  // namespace tern

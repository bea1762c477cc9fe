#include "tern/apps/common/machine.h"

#include <fmt/core.h>

#include "tern/core/base/cpu.h"

namespace tern::apps {

std::string describe_machine() {
  BuildInfo b = build_details();
  return fmt::format("{}, {} thread{}, {}, {}{}", b.cpu.empty() ? "unknown processor" : b.cpu,
                     b.threads, b.threads == 1 ? "" : "s", b.vector, b.blas,
                     b.blas_kernels.empty() ? "" : ", kernels " + b.blas_kernels);
}

}  // namespace tern::apps

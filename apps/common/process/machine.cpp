// Describes processor and BLAS in a line, and finds the free memory from /proc/meminfo and the
// control groups.
#include "tern/apps/common/process/machine.h"

#include <fmt/core.h>

#include <algorithm>

#include "tern/core/base/control_groups.h"
#include "tern/core/base/cpu.h"
#include "tern/core/base/products.h"

namespace tern::apps {
namespace {

void lower(std::optional<FreeMemory>& free, int64_t bytes, const std::string& limit) {
  if (!free || bytes < free->bytes) free = FreeMemory{std::max<int64_t>(bytes, 0), limit};
}

// Lowers `free` to what the limit of a control group leaves. A missing file means no limit.
void lower_by_group(std::optional<FreeMemory>& free, const detail::ControlGroup& group) {
  const bool two = group.version == 2;
  auto number = [&](const char* file, const char* name = "") {
    return detail::number_in_file(group.folder + "/" + file, name);
  };
  const auto limit = number(two ? "memory.max" : "memory.limit_in_bytes");
  const auto used = number(two ? "memory.current" : "memory.usage_in_bytes");
  if (!limit || !used) return;
  const int64_t files =
      number("memory.stat", two ? "inactive_file" : "total_inactive_file").value_or(0);
  lower(free, *limit - std::max<int64_t>(*used - files, 0), "the control group " + group.name);
}

}  // namespace

std::string describe_machine() {
  BuildInfo b = build_details();
  return fmt::format(
      "{}, {} thread{}, {}, {}{}; products in {}", b.cpu.empty() ? "unknown processor" : b.cpu,
      b.threads, b.threads == 1 ? "" : "s", b.vector, b.blas,
      b.blas_kernels.empty() ? "" : ", kernels " + b.blas_kernels, products_in_use());
}

std::optional<FreeMemory> free_memory(const std::string& root) {
  std::optional<FreeMemory> free;
  if (const auto kilobytes = detail::number_in_file(root + "/proc/meminfo", "MemAvailable:"))
    lower(free, *kilobytes * 1024, "this machine");
  detail::visit_control_groups(
      root, "memory", [&](const detail::ControlGroup& group) { lower_by_group(free, group); });
  return free;
}

}  // namespace tern::apps

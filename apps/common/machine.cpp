#include "tern/apps/common/machine.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>

#include "tern/core/base/bf16_way.h"
#include "tern/core/base/cpu.h"
#include "tern/core/base/precision.h"

namespace tern::apps {
namespace {

namespace fs = std::filesystem;

// The number in front of the text; nothing if there is none ("max").
std::optional<int64_t> number(const std::string& text) {
  const size_t at = std::min(text.find_first_not_of(" \t"), text.size());
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data() + at, text.data() + text.size(), value);
  if (error != std::errc() || value < 0) return std::nullopt;
  return value;
}

// The number behind `name` in a file of lines "name number"; with no name that of the first line.
std::optional<int64_t> read_number(const fs::path& file, const std::string& name = "") {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(name)) return number(line.substr(name.size()));
  return std::nullopt;
}

/// Names of the files of a version of control groups.
struct GroupFiles {
  fs::path folder;  ///< where the groups are
  const char *limit, *used, *files;
};

void lower(std::optional<FreeMemory>& free, int64_t bytes, const std::string& limit) {
  if (!free || bytes < free->bytes) free = FreeMemory{std::max<int64_t>(bytes, 0), limit};
}

// The group and those around it. What is not there limits nothing.
void lower_by_groups(std::optional<FreeMemory>& free, const GroupFiles& names,
                     const std::string& group) {
  for (fs::path path = fs::path(group).relative_path();; path = path.parent_path()) {
    const fs::path at = names.folder / path;
    const auto limit = read_number(at / names.limit), used = read_number(at / names.used);
    if (limit && used) {
      const int64_t files = read_number(at / "memory.stat", names.files).value_or(0);
      lower(free, *limit - std::max<int64_t>(*used - files, 0),
            fmt::format("the control group /{}", path.string()));
    }
    if (path.empty()) return;
  }
}

}  // namespace

std::string describe_machine() {
  BuildInfo b = build_details();
  const bool bf16 = matmul_precision() == MatmulPrecision::bf16;
  return fmt::format("{}, {} thread{}, {}, {}{}{}", b.cpu.empty() ? "unknown processor" : b.cpu,
                     b.threads, b.threads == 1 ? "" : "s", b.vector, b.blas,
                     b.blas_kernels.empty() ? "" : ", kernels " + b.blas_kernels,
                     bf16 ? "; products in bf16 by " + bf16_products() : "");
}

std::optional<FreeMemory> free_memory(const std::string& root) {
  std::optional<FreeMemory> free;
  if (const auto kilobytes = read_number(fs::path(root) / "proc/meminfo", "MemAvailable:"))
    lower(free, *kilobytes * 1024, "this machine");
  const fs::path groups = fs::path(root) / "sys/fs/cgroup";
  std::ifstream in(fs::path(root) / "proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {  // "0::/a/b", "9:memory:/a/b"
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == line.npos || second == line.npos) continue;
    const std::string kinds = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    if (kinds.empty())
      lower_by_groups(free, {groups, "memory.max", "memory.current", "inactive_file"}, group);
    else if (("," + kinds + ",").find(",memory,") != kinds.npos)
      lower_by_groups(free,
                      {groups / "memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
                       "total_inactive_file"},
                      group);
  }
  return free;
}

}  // namespace tern::apps

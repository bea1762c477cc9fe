#include "tern/core/base/cores.h"

#include <fmt/core.h>
#include <sched.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <set>

#include "tern/core/base/control_groups.h"

namespace tern::detail {
namespace {

// Processors whose time the control groups allow: a quota of 250 ms of every 100 ms is two whole
// ones. A third thread would be stopped in the middle of a loop, and the others would wait for it.
int quota_of_groups(const std::string& root) {
  int64_t least = std::numeric_limits<int>::max();
  visit_control_groups(root, "cpu", [&](const ControlGroup& group) {
    std::optional<int64_t> quota, period;
    if (group.version == 2) {  // "250000 100000", or "max 100000"
      std::string line;
      std::ifstream in(group.folder + "/cpu.max");
      std::getline(in, line);
      quota = leading_number(line);
      period = leading_number(line.substr(std::min(line.find(' '), line.size())));
    } else {  // a quota of -1 is none
      quota = number_in_file(group.folder + "/cpu.cfs_quota_us");
      period = number_in_file(group.folder + "/cpu.cfs_period_us");
    }
    if (quota && period && *period > 0) least = std::min(least, *quota / *period);
  });
  return static_cast<int>(std::max<int64_t>(least, 1));
}

}  // namespace

std::vector<int> allowed_processors() {
  std::vector<int> allowed;
  // The kernel refuses a set that is too small for its processors.
  for (int most = CPU_SETSIZE; most <= 1 << 20; most *= 2) {
    cpu_set_t* const set = CPU_ALLOC(most);
    if (!set) break;
    const size_t bytes = CPU_ALLOC_SIZE(most);
    const bool known = sched_getaffinity(0, bytes, set) == 0;
    for (int i = 0; known && i < most; ++i)
      if (CPU_ISSET_S(i, bytes, set)) allowed.push_back(i);
    CPU_FREE(set);
    if (known) break;
  }
  return allowed;
}

Cores usable_cores(const std::vector<int>& allowed, const std::string& root) {
  const int quota = quota_of_groups(root);
  std::set<std::string> cores;  // each by the list of its processors: "0,64"
  for (int processor : allowed) {
    std::string siblings;
    std::ifstream in(fmt::format("{}/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list",
                                 root, processor));
    if (!std::getline(in, siblings) || siblings.empty()) siblings = fmt::format("{}", processor);
    cores.insert(siblings);
  }
  auto limit = [&](size_t n) { return std::clamp(static_cast<int>(n), 1, quota); };
  return {limit(allowed.size()), limit(cores.size())};
}

}  // namespace tern::detail

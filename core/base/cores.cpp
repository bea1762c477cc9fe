// Counts the processors and cores that this process may use (affinity mask, OpenMP places, CPU
// quotas of control groups) and binds threads to OpenMP's places.
#include "tern/core/base/cores.h"

#include <dlfcn.h>
#include <fmt/core.h>
#include <omp.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <set>

#include "tern/core/base/control_groups.h"
#include "tern/core/base/system.h"

namespace tern::detail {
namespace {

// The number of whole processors in the CPU quota of the control groups: a quota of 250 ms per
// 100 ms is two. A third thread would be stopped in the middle of a loop, and the others would wait
// for it.
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
    } else {  // a quota of -1 means no limit
      quota = number_in_file(group.folder + "/cpu.cfs_quota_us");
      period = number_in_file(group.folder + "/cpu.cfs_period_us");
    }
    if (quota && period && *period > 0) least = std::min(least, *quota / *period);
  });
  return static_cast<int>(std::max<int64_t>(least, 1));
}

/// OpenMP's places. A program compiled by clang has GNU's OpenMP library beside LLVM's if OpenBLAS
/// uses GNU's. GNU's then binds the main thread first, and LLVM's sees only this one place.
struct Places {
  int (*count)() = omp_get_num_places;
  int (*size)(int place) = omp_get_place_num_procs;
  void (*processors)(int place, int* ids) = omp_get_place_proc_ids;

  Places() {
    void* const gnu = dlopen("libgomp.so.1", RTLD_LAZY | RTLD_NOLOAD);
    if (!gnu) return;
    find(gnu, count, "omp_get_num_places");
    find(gnu, size, "omp_get_place_num_procs");
    find(gnu, processors, "omp_get_place_proc_ids");
  }

 private:
  template <class F>
  static void find(void* library, F& f, const char* name) {
    if (void* const found = dlsym(library, name)) f = reinterpret_cast<F>(found);
  }
};

const Places& places() {
  static const Places found;
  return found;
}

// Whether OpenMP binds threads apart from each other. (OMP_PROC_BIND=primary keeps a team in the
// place of its first thread, and so do threads that inherit it.)
bool binds_threads() {
  const omp_proc_bind_t bind = omp_get_proc_bind();
  return places().count() > 0 && bind != omp_proc_bind_false && bind != omp_proc_bind_master;
}

void add_place(int place, std::vector<int>& processors) {
  const size_t before = processors.size();
  processors.resize(before + static_cast<size_t>(places().size(place)));
  places().processors(place, processors.data() + before);
}

void run_on(const std::vector<int>& processors) {
  omp_get_max_threads();  // LLVM's library binds a thread at its first call: here, not later
  keep_to(processors);
}

}  // namespace

std::vector<int> allowed_processors() {
  if (!binds_threads()) return processors_of(0);
  std::vector<int> allowed;
  for (int place = 0; place < places().count(); ++place) add_place(place, allowed);
  std::sort(allowed.begin(), allowed.end());  // places may overlap
  allowed.erase(std::unique(allowed.begin(), allowed.end()), allowed.end());
  return allowed;
}

void bind_to_place(int self, int threads) {
  if (!binds_threads()) return;
  const int count = places().count();
  const bool spread = omp_get_proc_bind() == omp_proc_bind_spread || threads > count;
  std::vector<int> processors;
  add_place(spread ? static_cast<int>(int64_t{self} * count / threads) : self, processors);
  run_on(processors);
}

void leave_place() {
  if (binds_threads()) run_on(allowed_processors());
}

Cores usable_cores(const std::vector<int>& allowed, const std::string& root) {
  const int quota = quota_of_groups(root);
  std::set<std::string> cores;  // a core is named by the list of its processors: "0,64"
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

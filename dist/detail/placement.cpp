// Reads the machine, cores and threads of this process from the kernel, and finds ranks that share
// cores or leave cores idle.
#include "tern/dist/detail/placement.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <set>
#include <sstream>

#include "tern/core/base/cores.h"
#include "tern/core/base/system.h"
#include "tern/core/base/threads.h"

namespace tern::dist::detail {
namespace {

// The number of cores that the parent process may use; 0: unknown.
int64_t launched_cores() { return std::ssize(tern::detail::processors_of(::getppid())); }

// The boot id of the kernel: host names are not unique, since containers may share one.
std::string this_machine() {
  std::string name;
  if (std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), name)) return name;
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  return host.data();
}

std::string cores_text(int64_t n) { return n == 1 ? "1 core" : fmt::format("{} cores", n); }

}  // namespace

Placement own_placement() {
  return {this_machine(), tern::detail::allowed_processors(), launched_cores(), num_threads()};
}

std::string to_text(const Placement& p) {
  std::string text = fmt::format("{}\n{} {}", p.machine, p.launched, p.threads);
  for (const int c : p.cores) text += fmt::format(" {}", c);
  return text;
}

Placement placement_from(const std::string& text) {
  Placement p;
  std::istringstream in(text);
  std::getline(in, p.machine);
  in >> p.launched >> p.threads;
  for (int c = 0; in >> c;) p.cores.push_back(c);
  return p;
}

int64_t ranks_on_cores_of(const std::vector<Placement>& ranks, size_t rank) {
  const Placement& own = ranks[rank];
  return std::count_if(ranks.begin(), ranks.end(), [&](const Placement& p) {
    return p.machine == own.machine && p.cores == own.cores;
  });
}

std::string placement_warning(const std::vector<Placement>& ranks) {
  for (size_t r = 0; r < ranks.size(); ++r) {
    const Placement& own = ranks[r];
    const int64_t cores = std::ssize(own.cores);
    if (cores == 0) continue;
    std::set<int> used;
    int64_t threads = 0;
    for (const Placement& p : ranks) {
      if (p.machine != own.machine) continue;
      used.insert(p.cores.begin(), p.cores.end());
      if (p.cores == own.cores) threads += p.threads;
    }
    if (cores < own.launched && (own.threads > cores || std::ssize(used) < own.launched))
      return fmt::format(
          "rank {} is bound to {} of the {} that mpirun may use: start with mpirun --bind-to none",
          r, cores, cores_text(own.launched));
    if (own.threads == 1 || threads <= cores) continue;
    const int64_t beside = ranks_on_cores_of(ranks, r);
    return fmt::format("{} {} threads{} on {}: give each rank {} (--threads, set_num_threads)",
                       beside == 1 ? fmt::format("rank {} has", r)
                                   : fmt::format("{} ranks of one machine have", beside),
                       own.threads, beside == 1 ? "" : " each", cores_text(cores),
                       std::max<int64_t>(1, cores / beside));
  }
  return "";
}

}  // namespace tern::dist::detail

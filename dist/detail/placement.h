// The cores and threads of each rank, and a warning if ranks compete for cores or leave some idle.
// Inside of dist only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tern::dist::detail {

struct Placement {
  std::string machine;     ///< a name that is different on each machine
  std::vector<int> cores;  ///< cores that this rank may use; empty: unknown
  int64_t launched = 0;    ///< number of cores that its parent process may use; 0: unknown
  int64_t threads = 1;
};

/// The current placement of this process.
Placement own_placement();

std::string to_text(const Placement& placement);
Placement placement_from(const std::string& text);

/// The number of ranks on the machine of `rank` with the same cores, itself included.
int64_t ranks_on_cores_of(const std::vector<Placement>& ranks, size_t rank);

/// One line with a remedy if ranks have more threads than cores, or are bound to few cores of a
/// machine while other cores stay idle; else empty.
std::string placement_warning(const std::vector<Placement>& ranks);

}  // namespace tern::dist::detail

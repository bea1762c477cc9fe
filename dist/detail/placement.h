// Which cores the ranks may use, and what to do where they get in each other's way.
// Inside of dist only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tern::dist::detail {

struct Placement {
  std::string machine;     ///< another one for each machine
  std::vector<int> cores;  ///< that this rank may use; none: unknown
  int64_t launched = 0;    ///< number of cores that what started it may use; 0: unknown
  int64_t threads = 1;
};

/// Of this process, now.
Placement own_placement();

std::string to_text(const Placement& placement);
Placement placement_from(const std::string& text);

/// The number of ranks on rank's machine that may use the same cores, itself included.
int64_t ranks_on_cores_of(const std::vector<Placement>& ranks, size_t rank);

/// One line with a remedy if ranks have more threads than cores, or are bound to a few of the cores
/// of a machine that others leave idle; else empty.
std::string placement_warning(const std::vector<Placement>& ranks);

}  // namespace tern::dist::detail

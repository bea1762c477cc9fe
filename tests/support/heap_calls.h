// Counts calls of operator new in the test program, and the most bytes in one call (test_memory.cpp
// replaces operator new).
#pragma once

#include <atomic>
#include <cstdint>

namespace tern::test {

extern std::atomic<int64_t> heap_calls;
extern std::atomic<int64_t> heap_largest;  ///< since it was set to 0

}  // namespace tern::test

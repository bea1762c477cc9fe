// Counts calls of operator new in the test program, and the most bytes in one call
// (heap_calls.cpp replaces operator new).
#pragma once

#include <atomic>
#include <cstdint>

namespace tern::test {

extern std::atomic<int64_t> heap_calls;
extern std::atomic<int64_t> heap_largest;  ///< since it was set to 0
extern thread_local bool heap_is_empty;    ///< this thread's calls fail

}  // namespace tern::test

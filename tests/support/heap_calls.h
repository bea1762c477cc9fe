// How often the program of tests took memory from the heap by operator new, and how many bytes at
// most at a time (counted in test_memory.cpp, which replaces it).
#pragma once

#include <atomic>
#include <cstdint>

namespace tern::test {

extern std::atomic<int64_t> heap_calls;
extern std::atomic<int64_t> heap_largest;  ///< since it was set to 0

}  // namespace tern::test

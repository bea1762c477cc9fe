// How often the program of tests took memory from the heap by operator new (counted in
// test_memory.cpp, which replaces it).
#pragma once

#include <atomic>
#include <cstdint>

namespace tern::test {

extern std::atomic<int64_t> heap_calls;

}  // namespace tern::test

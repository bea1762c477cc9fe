// Memory of the programs.
#pragma once

#include <new>

namespace tern::apps {

/// What operator new throws in the programs: as std::bad_alloc, and it says how much was asked for.
/// (The operators that do it are in heap.cpp.)
class BadAlloc : public std::bad_alloc {
 public:
  explicit BadAlloc(std::size_t bytes) noexcept;
  const char* what() const noexcept override { return text_; }

 private:
  char text_[64];  // no memory is asked for to say that there is none
};

}  // namespace tern::apps

// operator new and delete of the programs: a failed allocation throws BadAlloc, which says how many
// bytes were requested.
#include <cstdio>
#include <cstdlib>

#include "tern/apps/common/process/app.h"

namespace tern::apps {

BadAlloc::BadAlloc(std::size_t bytes) noexcept {
  std::snprintf(text_, sizeof text_, "out of memory: %zu bytes asked for", bytes);
}

}  // namespace tern::apps

// Replace the standard operators, whose exception does not know the size.
void* operator new(std::size_t bytes) {
  if (void* p = std::malloc(bytes ? bytes : 1)) return p;
  throw tern::apps::BadAlloc(bytes);
}
void* operator new[](std::size_t bytes) { return operator new(bytes); }
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t) noexcept { std::free(p); }

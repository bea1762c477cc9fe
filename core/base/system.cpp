// The calls of Linux, and their replacements elsewhere, which nobody has tried.
#include "tern/core/base/system.h"

#include <sched.h>

#include <algorithm>
#include <thread>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace tern::detail {

void trim_heap() noexcept {
#if defined(__GLIBC__)
  malloc_trim(0);
#endif
}

#if defined(__linux__)

void clear_pages(void* pages, std::size_t bytes) noexcept { madvise(pages, bytes, MADV_DONTNEED); }

void ask_for_small_pages(void* pages, std::size_t bytes) noexcept {
  madvise(pages, bytes, MADV_NOHUGEPAGE);
}

std::vector<int> processors_of(pid_t process) {
  std::vector<int> allowed;
  // The kernel refuses a set that is too small for its processors.
  for (int most = CPU_SETSIZE; most <= 1 << 20; most *= 2) {
    cpu_set_t* const set = CPU_ALLOC(most);
    if (!set) break;
    const size_t bytes = CPU_ALLOC_SIZE(most);
    const bool known = sched_getaffinity(process, bytes, set) == 0;
    for (int i = 0; known && i < most; ++i)
      if (CPU_ISSET_S(i, bytes, set)) allowed.push_back(i);
    CPU_FREE(set);
    if (known) break;
  }
  return allowed;
}

void keep_to(const std::vector<int>& processors) {
  if (processors.empty()) return;
  const int most = *std::max_element(processors.begin(), processors.end()) + 1;
  cpu_set_t* const set = CPU_ALLOC(most);
  if (!set) return;
  const size_t bytes = CPU_ALLOC_SIZE(most);
  CPU_ZERO_S(bytes, set);
  for (int processor : processors) CPU_SET_S(processor, bytes, set);
  sched_setaffinity(0, bytes, set);
  CPU_FREE(set);
}

int open_unnamed_file(const char* folder) {
  return ::open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0666);
}

int64_t modified(const struct stat& file) {
  return int64_t{file.st_mtim.tv_sec} * 1'000'000'000 + file.st_mtim.tv_nsec;
}

#else

void clear_pages(void* pages, std::size_t bytes) noexcept {
  mmap(pages, bytes, PROT_READ | PROT_WRITE,
       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

void ask_for_small_pages(void*, std::size_t) noexcept {}

std::vector<int> processors_of(pid_t process) {
  std::vector<int> all(process == 0 ? std::thread::hardware_concurrency() : 0);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int>(i);
  return all;
}

void keep_to(const std::vector<int>&) {}

int open_unnamed_file(const char*) { return -1; }

int64_t modified(const struct stat& file) {
  return int64_t{file.st_mtimespec.tv_sec} * 1'000'000'000 + file.st_mtimespec.tv_nsec;
}

#endif

}  // namespace tern::detail

// What Linux alone has, and what other systems do in its place. Inside of tern only.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tern::detail {

#if defined(__linux__)
/// For mmap: at this address or not at all, without unmapping what is there. 0: as a wish.
inline constexpr int kAtThisPlace = MAP_FIXED_NOREPLACE;
/// For open: a folder that may forbid listing.
inline constexpr int kFolderWithoutListing = O_PATH | O_DIRECTORY | O_CLOEXEC;
#else
inline constexpr int kAtThisPlace = 0;
inline constexpr int kFolderWithoutListing = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
#endif

/// A multiple of the size of pages. aarch64 has pages of 4, 16 or 64 KiB.
#if defined(__x86_64__)
inline constexpr std::size_t kPage = 4096;
#else
inline constexpr std::size_t kPage = 65536;
#endif

/// The written pages of a private mapping read as 0 again, and their memory goes to the system.
void clear_pages(void* pages, std::size_t bytes) noexcept;
/// Asks for small pages, so that a touched element costs one.
void ask_for_small_pages(void* pages, std::size_t bytes) noexcept;
/// Gives the freed memory of the C library's heap to the system.
void trim_heap() noexcept;

/// The processors that the kernel lets a process run on (0: this thread). Empty if unknown.
std::vector<int> processors_of(pid_t process);
/// Keeps this thread to these processors. If that is refused, it stays where it is.
void keep_to(const std::vector<int>& processors);

/// Creates a file without a name, or gives -1 if the system or the folder has none.
int open_unnamed_file(const char* folder);
/// When the file was modified, in nanoseconds since 1970.
int64_t modified(const struct stat& file);

}  // namespace tern::detail

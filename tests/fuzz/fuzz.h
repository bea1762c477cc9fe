// What all fuzz targets use: repeated and damaged inputs, files in memory, checks.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "tern/core/base/error.h"

namespace tern::fuzz {

inline std::string_view text_of(const uint8_t* bytes, size_t size) {
  return {reinterpret_cast<const char*>(bytes), size};
}

/// Repeats the text until it exceeds the readers' buffers of 64 KiB. Empty for an empty text.
inline std::string repeated(std::string_view text) {
  constexpr size_t kEnough = 70'000;
  std::string out;
  while (!text.empty() && out.size() < kEnough) out += text;
  return out;
}

/// Damages a file: each four bytes of the input give a position in three bytes, and a value to add
/// there.
inline std::string damaged(std::string file, const uint8_t* bytes, size_t size) {
  for (; size >= 4 && !file.empty(); bytes += 4, size -= 4) {
    const size_t place = bytes[0] | size_t{bytes[1]} << 8 | size_t{bytes[2]} << 16;
    char& at = file[place % file.size()];
    at = static_cast<char>(at + bytes[3]);
  }
  return file;
}

/// A file in memory.
class File {
 public:
  explicit File(std::string_view bytes) : fd_(::memfd_create("fuzz", MFD_CLOEXEC)) {
    require(fd_ >= 0);
    while (!bytes.empty()) {
      const ssize_t n = ::write(fd_, bytes.data(), bytes.size());
      require(n > 0);
      bytes.remove_prefix(static_cast<size_t>(n));
    }
  }
  ~File() { ::close(fd_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

  /// Aborts unless `ok`, which must hold for every input.
  static void require(bool ok) {
    if (!ok) std::abort();
  }

 private:
  int fd_;
};

inline void require(bool ok) { File::require(ok); }

/// Runs f(), which may refuse its input with an Error, but with no other exception.
template <class F>
void may_refuse(F f) {
  try {
    static_cast<void>(f());
  } catch (const Error&) {
  }
}

/// Runs f(), which reads a file and may refuse it with an IoError, but with no other exception.
template <class F>
void may_refuse_file(F f) {
  try {
    f();
  } catch (const IoError&) {
  }
}

}  // namespace tern::fuzz

// What the fuzz targets share.
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

/// The text again and again: more than the readers' buffers of 64 KiB hold. Nothing of no text.
inline std::string repeated(std::string_view text) {
  constexpr size_t kEnough = 70'000;
  std::string out;
  while (!text.empty() && out.size() < kEnough) out += text;
  return out;
}

/// A file with the damage that the input says: a place of three bytes, and what is added there.
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

  /// What must hold for every input.
  static void require(bool ok) {
    if (!ok) std::abort();
  }

 private:
  int fd_;
};

inline void require(bool ok) { File::require(ok); }

/// f(), which may refuse its input by an Error and by nothing else.
template <class F>
void may_refuse(F f) {
  try {
    static_cast<void>(f());
  } catch (const Error&) {
  }
}

/// f(), which reads a file: it may refuse it by an IoError and by nothing else.
template <class F>
void may_refuse_file(F f) {
  try {
    f();
  } catch (const IoError&) {
  }
}

}  // namespace tern::fuzz

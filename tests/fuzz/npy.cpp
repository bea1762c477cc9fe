#include "tern/data/loading/npy.h"

#include "tern/tests/fuzz/fuzz.h"

// As a file of its own, and as the header of one with 64 bytes behind it.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using namespace tern;
  const std::string text(fuzz::text_of(bytes, size));
  std::string headed("\x93NUMPY\x01\x00", 8);
  headed += {static_cast<char>(size & 255), static_cast<char>(size >> 8 & 255)};
  headed += text + std::string(64, '\1');
  for (const std::string& content : {text, headed}) {
    const fuzz::File file(content);
    fuzz::may_refuse_file([&] {
      const Tensor x = data::load_npy(file.path());
      fuzz::require(x.numel() <= static_cast<int64_t>(content.size()));
    });
  }
  const fuzz::File file(text);
  fuzz::may_refuse_file([&] {
    for (const auto& [name, x] : data::load_npz(file.path()))  // deflate packs to 1/1032 at best
      fuzz::require(x.numel() <= 1032 * static_cast<int64_t>(size));
  });
  return 0;
}

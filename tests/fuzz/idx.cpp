#include "tern/data/images/mnist.h"
#include "tern/tests/fuzz/fuzz.h"

// As a file of its own, and behind the first bytes of one, of a type and a number of axes.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using namespace tern;
  const std::string text(fuzz::text_of(bytes, size));
  constexpr char kTypes[] = {8, 9, 11, 12, 13, 14};
  std::string headed(2, '\0');
  headed += {kTypes[size % 6], static_cast<char>(size / 6 % 4)};
  headed += text;
  for (const std::string& content : {text, headed}) {
    const fuzz::File file(content);
    fuzz::may_refuse_file([&] {  // deflate packs to 1/1032 at best
      const Tensor x = data::load_idx(file.path());
      fuzz::require(x.numel() <= 1032 * static_cast<int64_t>(content.size()));
    });
  }
  return 0;
}

// Fuzzes the reader of idx files (MNIST's format).
#include "tern/data/images/mnist.h"
#include "tern/tests/fuzz/fuzz.h"

namespace {

using namespace tern;

constexpr char kTypes[] = {8, 9, 11, 12, 13, 14};
constexpr size_t kBytes[] = {1, 1, 2, 4, 4, 8};

/// Repeats the input as the elements of one axis; all of them must be read back.
void read_many(std::string_view text) {
  const std::string elements = fuzz::repeated(text);
  const size_t type = text.size() % 6, n = elements.size() / kBytes[type];
  std::string content = {0, 0, kTypes[type], 1};
  for (int shift = 24; shift >= 0; shift -= 8) content.push_back(static_cast<char>(n >> shift));
  content += elements.substr(0, n * kBytes[type]);
  const Tensor x = datasets::load_idx(fuzz::File(content).path());
  fuzz::require(x.numel() == static_cast<int64_t>(n));
  if (kTypes[type] != 8) return;
  const auto values = x.to_vector<uint8_t>();
  fuzz::require(std::string(values.begin(), values.end()) == elements);
}

}  // namespace

// Reads the input as a file, after a valid header of some type and number of axes, and repeated as
// the elements of a large file.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const std::string text(fuzz::text_of(bytes, size));
  read_many(text);
  std::string headed(2, '\0');
  headed += {kTypes[size % 6], static_cast<char>(size / 6 % 4)};
  headed += text;
  for (const std::string& content : {text, headed}) {
    const fuzz::File file(content);
    fuzz::may_refuse_file([&] {  // deflate packs at most 1032 bytes into one
      const Tensor x = datasets::load_idx(file.path());
      fuzz::require(x.numel() <= 1032 * static_cast<int64_t>(content.size()));
    });
  }
  return 0;
}

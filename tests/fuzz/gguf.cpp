// Fuzzes the reader of GGUF files: the header, all metadata by every type, and all tensors.
#include "tern/core/io/gguf.h"

#include "tern/core/ops/ops.h"
#include "tern/tests/fuzz/fuzz.h"

namespace {

void read_metadata(const tern::GgufFile& file) {
  using tern::fuzz::may_refuse_file;
  for (const std::string& key : file.keys()) {
    may_refuse_file([&] { file.text(key); });
    may_refuse_file([&] { file.integer(key); });
    may_refuse_file([&] { file.number(key); });
    may_refuse_file([&] { file.boolean(key); });
    may_refuse_file([&] { file.texts(key); });
    may_refuse_file([&] { file.integers(key); });
    may_refuse_file([&] { file.numbers(key); });
  }
  tern::fuzz::require(file.unread().empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using namespace tern;
  const fuzz::File input(fuzz::text_of(bytes, size));
  fuzz::may_refuse_file([&] {
    const GgufFile file(input.path());
    read_metadata(file);
    int64_t elements = 0;
    for (const GgufTensor& t : file.tensors()) {
      const Tensor all = file.load(t.name);
      fuzz::require(all.shape() == t.shape && &t == file.find(t.name));
      elements += all.numel();
      if (t.shape.size() < 2 || t.shape[0] < 2) continue;
      fuzz::require(file.load_rows(t.name, 1, 2).shape()[0] == 1);
    }
    // Q2_K has the most elements: 256 in 84 bytes.
    fuzz::require(elements <= static_cast<int64_t>(size) * 256 / 84);
  });
  return 0;
}

// Fuzzes the reader of gzip and plain bytes, and readers of lines, texts and pairs based on it.
#include "tern/data/loading/gzip.h"

#include "tern/data/text/lines/lines.h"
#include "tern/data/text/pairs/pairs.h"
#include "tern/tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using namespace tern;
  const fuzz::File file(fuzz::text_of(bytes, size));
  fuzz::may_refuse_file([&] {
    datasets::ByteReader reader(file.path(), {.max_bytes = 1 << 24});
    std::string one(7, '\0');
    while (reader.read(one.data(), 7) == 7 && reader.position() < 1 << 16) {
    }
    reader.drain();
    fuzz::require(reader.position() <= 1 << 24);
  });
  fuzz::may_refuse_file([&] { datasets::read_lines(file.path()); });
  fuzz::may_refuse_file([&] { datasets::read_text(file.path(), {.max_bytes = 1 << 20}); });
  fuzz::may_refuse_file([&] { datasets::read_pairs_tsv(file.path(), {.max_words = 9}); });
  return 0;
}

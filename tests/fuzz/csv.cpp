// Fuzzes the CSV reader with all its options: accepted tables have the right type and size.
#include "tern/data/loading/csv.h"

#include "tern/tests/fuzz/fuzz.h"

// The first byte chooses the options for the rest, and whether all lines but the first are
// repeated.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using namespace tern;
  if (size == 0) return 0;
  constexpr char kSeparators[] = {0, ',', ';', '\t'};
  constexpr DType kTypes[] = {DType::f32, DType::f64, DType::i64, DType::u8};
  datasets::CsvOptions options{.separator = kSeparators[bytes[0] & 3],
                               .header = (bytes[0] & 4) != 0,
                               .dtype = kTypes[bytes[0] >> 3 & 3],
                               .max_bytes = 1 << 20};
  if (bytes[0] & 32) options.missing = 7;
  if (bytes[0] & 64) options.columns = {"b", "a"};
  if (size > 1 && bytes[1] == 'c') options.categories = {"c"};
  if (size > 1 && bytes[1] == 'd') options.decimal = ',';
  if (size > 1 && bytes[1] == ' ') options.separator = ' ';
  std::string text(fuzz::text_of(bytes + 1, size - 1));
  if (const size_t line = text.find('\n'); bytes[0] & 128 && line != text.npos)
    text = text.substr(0, line + 1) + fuzz::repeated(text.substr(line + 1));
  const fuzz::File file(text);
  fuzz::may_refuse_file([&] {
    const datasets::Table table = datasets::load_csv(file.path(), options);
    fuzz::require(table.values.ndim() == 2 && table.values.dtype() == options.dtype);
    fuzz::require(table.values.size(1) == std::ssize(table.names));
    for (const datasets::Category& c : table.categories)
      for (int64_t code : c.codes.to_vector<int64_t>())
        fuzz::require(code >= 0 && code < std::ssize(c.names));
  });
  return 0;
}

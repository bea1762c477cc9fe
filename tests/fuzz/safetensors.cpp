// Fuzzes the reader of safetensors files.
#include "tern/core/io/safetensors.h"

#include "tern/core/io/safetensors_header.h"
#include "tern/tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using namespace tern;
  const std::string_view text = fuzz::text_of(bytes, size);
  std::string error;
  detail::parse_safetensors_header(text, error);
  // The input as a file, and as the header of one.
  const uint64_t length = size;
  std::string headed(reinterpret_cast<const char*>(&length), sizeof length);
  headed.append(text).append(64, '\1');
  for (const std::string& file_bytes : {std::string(text), headed}) {
    const fuzz::File file(file_bytes);
    fuzz::may_refuse_file([&] {
      const SafeTensors content = load_safetensors(file.path());
      int64_t elements = 0;
      const SafeTensorsFile opened(file.path());
      for (const auto& [name, t] : content.tensors) {
        elements += t.numel();
        fuzz::require(opened.shape(name) == t.shape());
        if (t.ndim() > 0 && t.size(0) > 1)
          fuzz::require(opened.load_rows(name, 1, 2).numel() * t.size(0) == t.numel());
      }
      fuzz::require(elements <= static_cast<int64_t>(file_bytes.size()));
    });
  }
  return 0;
}

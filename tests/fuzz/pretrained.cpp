// Fuzzes the reader of tokenizer.json: an accepted tokenizer encodes and decodes any text.
#include "tern/data/text/pretrained/pretrained_tokenizer.h"
#include "tern/data/text/unicode/unicode.h"
#include "tern/tests/fuzz/fuzz.h"

// The input is a tokenizer.json, then optionally a NUL and a text for it.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using namespace tern;
  const std::string_view input = fuzz::text_of(bytes, size);
  const size_t nul = input.find('\0');
  std::string text = "It's l'homme\n \xF0\x9F\x99\x82 \xE4\xBD\xA0\xE5\xA5\xBD? 5 % [MASK]</s>";
  if (nul != input.npos) text += input.substr(nul + 1);
  const fuzz::File file(input.substr(0, nul));
  fuzz::may_refuse_file([&] {
    const auto t = datasets::PretrainedTokenizer::load(file.path());
    fuzz::may_refuse([&] {  // a Unigram model without a token for unknown text
      const auto ids = t.encode(text);
      for (int64_t id : ids) fuzz::require(t.token(id).has_value());
      fuzz::require(!datasets::find_invalid_utf8(t.decode(ids, true)));
      fuzz::require(t.encode_pair(text, text).tokens.size() ==
                    t.encode_pair(text, text).segments.size());
    });
  });
  return 0;
}

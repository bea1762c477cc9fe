// Fuzzes the files of all tokenizers and vocabularies: accepted ones encode and decode text.
#include <zlib.h>

#include <nlohmann/json.hpp>

#include "tern/data/text/bpe/bpe.h"
#include "tern/data/text/bpe/byte_bpe.h"
#include "tern/data/text/tokenizer/tokenizer.h"
#include "tern/data/text/tokenizer/vocabulary.h"
#include "tern/data/text/wordpiece/wordpiece.h"
#include "tern/tests/fuzz/fuzz.h"

namespace {

using namespace tern;
using namespace tern::datasets;

constexpr const char* kText = "It's l'homme \xF0\x9F\x99\x82 \xE4\xBD\xA0\xE5\xA5\xBD? 5 % [MASK]";

/// The content as a token file with its checksum.
std::string sealed(const std::string& content, const char* format) {
  const auto j = nlohmann::json::parse(content, nullptr, false);
  if (j.is_discarded()) return content;
  std::string text;
  try {
    text = j.dump();
  } catch (const nlohmann::json::exception&) {
    return content;
  }
  const uLong crc =
      crc32(0, reinterpret_cast<const Bytef*>(text.data()), static_cast<uInt>(text.size()));
  return nlohmann::json{{"format", format}, {"version", 1}, {"crc32", crc}, {"content", j}}.dump();
}

template <class T>
void use(const T& tokens) {
  for (int64_t id : tokens.encode(kText)) fuzz::require(id >= 0 && id < tokens.size());
  tokens.decode(tokens.encode(kText));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const std::string text(fuzz::text_of(bytes, size));
  for (const std::string& content : {text, sealed(text, "tern-tokenizer")})
    fuzz::may_refuse_file([&] { use(Tokenizer::load(fuzz::File(content).path())); });
  fuzz::may_refuse_file([&] { use(Bpe::load(fuzz::File(sealed(text, "tern-bpe")).path())); });
  fuzz::may_refuse_file(
      [&] { Vocabulary::load(fuzz::File(sealed(text, "tern-vocabulary")).path()); });
  fuzz::may_refuse_file([&] { use(WordPiece::load(fuzz::File(text).path())); });
  // The input as vocab.json, a NUL, and merges.txt.
  const size_t nul = text.find('\0');
  const fuzz::File vocabulary(text.substr(0, nul));
  const fuzz::File merges(nul == text.npos ? "" : text.substr(nul + 1));
  fuzz::may_refuse_file([&] { use(ByteBpe::load(vocabulary.path(), merges.path())); });
  return 0;
}

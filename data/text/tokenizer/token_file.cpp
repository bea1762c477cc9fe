// Converts token tables to JSON and back; checks format, version and checksum.
#include "tern/data/text/tokenizer/token_file.h"

#include <zlib.h>

#include <nlohmann/json.hpp>

#include "tern/core/base/error.h"
#include "tern/core/base/reading.h"
#include "tern/core/io/json_value.h"
#include "tern/core/io/safetensors.h"
#include "tern/data/text/lines/lines.h"
#include "tern/data/text/tokenizer/limits.h"

namespace tern::datasets::detail {
namespace {

using nlohmann::json;

constexpr int64_t kVersion = 1;

int64_t checksum(const std::string& text) {
  const auto* bytes = reinterpret_cast<const Bytef*>(text.data());
  return static_cast<int64_t>(crc32_z(crc32_z(0, nullptr, 0), bytes, text.size()));
}

json to_json(const TokenTable& table) {
  const NormalizeOptions& n = table.normalize;
  return {{"unit", table.unit},
          {"normalize", {{"nfc", n.nfc}, {"lower", n.lower}, {"spaces", n.spaces}, {"d2l", n.d2l}}},
          {"words", table.words},
          {"merges", table.merges}};
}

int32_t number_of(const JsonValue& v) {
  return static_cast<int32_t>(v.integer(INT32_MIN, INT32_MAX));
}

TokenTable from_json(const JsonValue& content) {
  const JsonValue n = content.at("normalize");
  TokenTable table{.unit = content.at("unit").text(),
                   .normalize = {.nfc = n.at("nfc").boolean(),
                                 .lower = n.at("lower").boolean(),
                                 .spaces = n.at("spaces").boolean(),
                                 .d2l = n.at("d2l").boolean()},
                   .words = {},
                   .merges = {}};
  for (const JsonValue& word : content.at("words").elements()) table.words.push_back(word.text());
  for (const JsonValue& m : content.at("merges").elements())
    table.merges.emplace_back(number_of(m.at(0)), number_of(m.at(1)));
  return table;
}

TokenTable parse(const std::string& text, const std::string& format) {
  const JsonDocument document(text);
  const JsonValue file = document.root();
  const std::string& found = file.at("format").text();
  check(found == format, "its format is '{}', not '{}'", found, format);
  const int64_t version = file.at("version").integer();
  check(version == kVersion, "its version is {}; this program reads version {}", version, kVersion);
  const JsonValue content = file.at("content");
  check(file.at("crc32").integer() == checksum(content.dump()), "the checksum is wrong");
  return from_json(content);
}

}  // namespace

void write_token_file(const std::string& path, const std::string& format, const TokenTable& table) {
  const json content = to_json(table);
  const json file = {{"format", format},
                     {"version", kVersion},
                     {"crc32", checksum(content.dump())},
                     {"content", content}};
  write_file_atomically(path, file.dump() + "\n");
}

void read_token_file(const std::string& path, const std::string& format,
                     const std::function<void(TokenTable&)>& use) {
  const std::string text = read_text(path, {.max_bytes = kMostTokenBytes});
  reading(fmt::format("{}: damaged, or not a {} file", path, format), [&] {
    TokenTable table = parse(text, format);
    use(table);
  });
}

}  // namespace tern::datasets::detail

#include "tern/data/text/detail/token_file.h"

#include <zlib.h>

#include <nlohmann/json.hpp>

#include "tern/core/base/error.h"
#include "tern/core/io/atomic_file.h"
#include "tern/core/io/json_text.h"
#include "tern/data/text/detail/limits.h"
#include "tern/data/text/lines.h"

namespace tern::datasets::detail {
namespace {

using nlohmann::json;

constexpr int64_t kVersion = 1;

int64_t checksum(const json& content) {
  const std::string text = content.dump();
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

TokenTable from_json(const json& content) {
  TokenTable table;
  const json& n = content.at("normalize");
  content.at("unit").get_to(table.unit);
  n.at("nfc").get_to(table.normalize.nfc);
  n.at("lower").get_to(table.normalize.lower);
  n.at("spaces").get_to(table.normalize.spaces);
  n.at("d2l").get_to(table.normalize.d2l);
  content.at("words").get_to(table.words);
  content.at("merges").get_to(table.merges);
  return table;
}

TokenTable parse(const std::string& text, const std::string& format) {
  const json file = parse_json(text);
  const auto found = file.at("format").get<std::string>();
  check(found == format, "it is of the format '{}', not '{}'", found, format);
  const auto version = whole_number(file.at("version"));
  check(version == kVersion, "it is of version {}; this program reads version {}", version,
        kVersion);
  const json& content = file.at("content");
  check(whole_number(file.at("crc32")) == checksum(content), "the checksum is wrong");
  return from_json(content);
}

}  // namespace

void write_token_file(const std::string& path, const std::string& format, const TokenTable& table) {
  const json content = to_json(table);
  const json file = {{"format", format},
                     {"version", kVersion},
                     {"crc32", checksum(content)},
                     {"content", content}};
  AtomicFile out(path);
  out.write(file.dump() + "\n");
  out.commit();
}

void read_token_file(const std::string& path, const std::string& format,
                     const std::function<void(TokenTable&)>& use) {
  const std::string text = read_text(path, {.max_bytes = kMostTokenBytes});
  try {
    TokenTable table = parse(text, format);
    use(table);
  } catch (const json::exception& e) {
    fail_io(fmt::format("{}: damaged, or no {}: {}", path, format, e.what()));
  } catch (const Error& e) {
    fail_io(fmt::format("{}: damaged, or no {}: {}", path, format, e.what()));
  }
}

}  // namespace tern::datasets::detail

// Fuzzes the JSON parser with its limits, the walk through parsed values, and the index of
// safetensors shards.
#include <nlohmann/json.hpp>

#include "tern/core/io/json_value.h"
#include "tern/core/io/safetensors_shards.h"
#include "tern/tests/fuzz/fuzz.h"

namespace {

int64_t depth_of(const nlohmann::json& j) {
  int64_t deepest = 0;
  if (j.is_structured())
    for (const auto& item : j) deepest = std::max(deepest, depth_of(item));
  return deepest + j.is_structured();
}

void walk(const tern::JsonValue& value) {
  if (value.is_list())
    for (const tern::JsonValue& v : value.elements()) walk(v);
  if (value.is_object())
    for (const tern::JsonMember& m : value.members()) walk(m.value);
  if (value.is_null()) return;
  try {
    value.fail("here");
  } catch (const tern::Error&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using namespace tern;
  const std::string text(fuzz::text_of(bytes, size));
  try {
    const nlohmann::json j = parse_json(text, {.depth = 20, .values = 1000});
    fuzz::require(depth_of(j) <= 20);
    // After the walk every value counts as read. fail() gives each value's position.
    const JsonDocument file(text, {.depth = 20, .values = 1000});
    walk(file.root());
    fuzz::require(file.unread().empty());
    const fuzz::File index(text);
    fuzz::may_refuse_file([&] { detail::read_shard_index(index.path()); });
  } catch (const Error&) {
  }
  return 0;
}

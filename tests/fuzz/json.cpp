#include <nlohmann/json.hpp>

#include "tern/core/io/json_text.h"
#include "tern/tests/fuzz/fuzz.h"

namespace {

int64_t depth_of(const nlohmann::json& j) {
  int64_t deepest = 0;
  if (j.is_structured())
    for (const auto& item : j) deepest = std::max(deepest, depth_of(item));
  return deepest + j.is_structured();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using namespace tern;
  const std::string text(fuzz::text_of(bytes, size));
  try {
    const nlohmann::json j = parse_json(text, {.depth = 20, .values = 1000});
    fuzz::require(depth_of(j) <= 20);
  } catch (const nlohmann::json::exception&) {
  } catch (const Error&) {
  }
  return 0;
}

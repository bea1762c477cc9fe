// Reads TERN_MAX_LEVEL.
#include "tern/core/base/max_level.h"

#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <cstdlib>

#include "tern/core/base/error.h"
#include "tern/core/base/terminal_text.h"

namespace tern::detail {
namespace {

constexpr std::array kNames = {"baseline", "avx2", "avx512", "avx512_bf16", "amx"};
#if defined(__aarch64__)
constexpr const char* kBaseline = "NEON";
#else
constexpr const char* kBaseline = "baseline";
#endif
constexpr std::array kShown = {kBaseline, "AVX2+FMA", "AVX-512", "AVX512_BF16", "AMX"};

MaxLevel from_environment() {
  const char* const text = std::getenv("TERN_MAX_LEVEL");
  if (!text || !*text) return MaxLevel::amx;
  try {
    return max_level(std::string(text));
  } catch (const Error& e) {
    fmt::print(stderr, "tern: {}\n", e.what());
    std::_Exit(2);
  }
}

}  // namespace

std::string to_string(MaxLevel level) { return kShown[static_cast<size_t>(level)]; }

MaxLevel max_level(const std::string& name) {
  for (size_t i = 0; i < kNames.size(); ++i)
    if (name == kNames[i] || name == kShown[i]) return static_cast<MaxLevel>(i);
  fail(fmt::format("TERN_MAX_LEVEL is '{}'; it must be one of {}", terminal_text(name),
                   fmt::join(kNames, ", ")));
}

MaxLevel max_level() {
  static const MaxLevel level = from_environment();
  return level;
}

}  // namespace tern::detail

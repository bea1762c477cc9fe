// The version of tern, as numbers and as text. CMake and packages read it here.
#pragma once

#include <string_view>

namespace tern {

inline constexpr int kVersionMajor = 0, kVersionMinor = 2, kVersionPatch = 0;
inline constexpr std::string_view kVersion = "0.2.0";

}  // namespace tern

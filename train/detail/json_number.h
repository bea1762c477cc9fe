// Numbers in JSON, which has no infinity and no NaN: they become texts. Inside of train only.
#pragma once

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "tern/core/io/json_value.h"

namespace tern::training {

inline nlohmann::json number(double v) {
  if (std::isfinite(v)) return v;
  return std::isnan(v) ? "nan" : v > 0 ? "inf" : "-inf";
}

inline double number(const JsonValue& j) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (!j.is_text()) return j.number();
  if (j.text() == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (j.text() == "inf") return kInfinity;
  return j.text() == "-inf" ? -kInfinity : j.number();
}

}  // namespace tern::training

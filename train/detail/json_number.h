// Numbers in JSON, also those that are not finite, for which it has no words. Inside of train only.
#pragma once

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

namespace tern::training {

inline nlohmann::json number(double v) {
  if (std::isfinite(v)) return v;
  return std::isnan(v) ? "nan" : v > 0 ? "inf" : "-inf";
}

inline double number(const nlohmann::json& j) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (j == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (j == "inf") return kInfinity;
  return j == "-inf" ? -kInfinity : j.get<double>();
}

}  // namespace tern::training

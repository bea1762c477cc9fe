#include "tern/apps/common/config_checks.h"

#include <fmt/format.h>

#include <algorithm>

#include "tern/core/base/error.h"

namespace tern::apps {

void check_range(const char* name, double value, double low, double high) {
  check(value >= low && value <= high, "{} is {:g}; {:g} to {:g}", name, value, low, high);
}

void check_count(const char* name, double value) { check_range(name, value, 1, 1e9); }
void check_any_count(const char* name, double value) { check_range(name, value, 0, 1e9); }

void check_share(const char* name, double value) {
  check(value >= 0 && value < 1, "{} is {:g}; at least 0 and below 1", name, value);
}

void check_above_zero(const char* name, double value) {
  check(value > 0 && value <= 1e15, "{} is {:g}; above 0", name, value);
}

void check_choice(const char* name, const std::string& word,
                  const std::vector<std::string>& words) {
  check(std::find(words.begin(), words.end(), word) != words.end(), "{} is '{}'; one of {}", name,
        word, fmt::join(words, ", "));
}

}  // namespace tern::apps

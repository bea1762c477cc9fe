// Checks that a program refuses configurations with values that no flag could have set.
#pragma once

#include <doctest/doctest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "tern/tests/support/errors.h"

namespace tern::test {

/// The message of the Error that parse(config) throws; empty if it throws none.
template <class Parse>
std::string refusal(const nlohmann::json& config, Parse parse) {
  return error_of([&] { parse(config.dump()); });
}

/// Values that a member of this type must not have.
inline std::vector<nlohmann::json> wrong_values(const nlohmann::json& value) {
  std::vector<nlohmann::json> wrong = {nullptr, nlohmann::json::array({1})};
  if (!value.is_string()) wrong.push_back("x");
  if (value.is_object() || value.is_array() || value.is_boolean()) wrong.push_back(1);
  if (value.is_string()) wrong.push_back(7);
  if (!value.is_boolean()) wrong.push_back(true);
  if (!value.is_number()) return wrong;
  wrong.push_back(-7);
  if (value.is_number_integer()) {
    wrong.push_back(1.5);
    wrong.push_back(1e300);
    wrong.push_back(std::numeric_limits<uint64_t>::max());
    wrong.push_back(std::numeric_limits<int64_t>::max());
  } else {
    wrong.push_back(-1e-9);
    wrong.push_back(1e300);
  }
  return wrong;
}

/// Sets every member of a configuration (JSON text that parse() accepts) to each invalid value and
/// checks that the Error names the member. `free` are members that may be any number, such as a
/// seed; `words` are texts with a fixed set of choices; `more` are members that older files lack.
template <class Parse>
void check_every_option(const std::string& text, Parse parse, const std::set<std::string>& free,
                        const std::set<std::string>& words,
                        const std::set<std::string>& more = {}) {
  const nlohmann::json fine = nlohmann::json::parse(text);
  CHECK(refusal(fine, parse) == "");
  const auto check_member = [&](const nlohmann::json::json_pointer& at, const std::string& name) {
    const nlohmann::json& value = fine[at];
    std::vector<nlohmann::json> wrong = wrong_values(value);
    if (words.contains(name)) wrong.push_back("nothing like that");
    for (const nlohmann::json& other : wrong) {
      if (free.contains(name) && other.is_number()) continue;
      nlohmann::json config = fine;
      config[at] = other;
      const std::string told = refusal(config, parse);
      CAPTURE(other.dump());
      CAPTURE(told);
      CHECK_MESSAGE(told.find(name + (words.contains(name) ? "" : " is")) != told.npos, name);
    }
    nlohmann::json config = fine;
    if (at.parent_pointer().empty())
      config.erase(name);
    else
      config[at.parent_pointer()].erase(name);
    const std::set<std::string> later = {"precision", "memory_use", "epoch_end",
                                         "steps",     "eval_steps", "parallel",
                                         "matmul",    "optimizer",  "optimizer_details"};
    if (!later.contains(name) && !more.contains(name))
      CHECK_MESSAGE(refusal(config, parse).find(name + " is missing") != std::string::npos, name);
  };
  for (const auto& [name, value] : fine.items()) {
    const nlohmann::json::json_pointer at = nlohmann::json::json_pointer() / name;
    check_member(at, name);
    if (value.is_object())
      for (const auto& [inner, unused] : value.items()) check_member(at / inner, inner);
  }
}

}  // namespace tern::test

// Damages JSON files and checks that a reader accepts or refuses every damaged copy properly.
#pragma once

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tern/core/base/error.h"

namespace tern::test {

namespace detail {

/// Adds copies of `fine`: each value replaced by several others in turn, and each member removed.
inline void add_changed(const nlohmann::json& fine, std::vector<std::string>& out) {
  using nlohmann::json;
  const json flat = fine.flatten();
  for (const auto& [path, old] : flat.items()) {
    std::vector<json::json_pointer> places;
    for (json::json_pointer at(path); !at.empty(); at = at.parent_pointer()) places.push_back(at);
    for (const json::json_pointer& at : places) {
      for (const json& other :
           {json(), json(true), json(7), json(-1), json(1.5), json(1e77), json(UINT64_MAX),
            json("x"), json::array(), json::array({json()}), json::object(), json{{"x", 1}}}) {
        json changed = fine;
        changed[at] = other;
        out.push_back(changed.dump());
      }
      json without = fine;
      if (without[at.parent_pointer()].is_object()) {
        without[at.parent_pointer()].erase(at.back());
        out.push_back(without.dump());
      }
    }
  }
}

}  // namespace detail

inline std::vector<std::string> damaged(const std::string& text) {
  // clang-format off
  std::vector<std::string> out = {"", " \n", std::string(text.size(), '\0'), "[]", "{}", "3",
                                  "null", "\"x\"", "{\"a\"", "[1,]", text + "}", text + ",",
                                  "\xff" + text, "[1e400]", "{\"a\": 1e400}", "{'a': 1}",
                                  std::string(100000, '[')};
  // clang-format on
  const size_t step = text.size() / 50 + 1;
  for (size_t n = 1; n < text.size(); n += step) {
    out.push_back(text.substr(0, n));
    std::string bytes = text;
    bytes[n] = '\xff';
    out.push_back(bytes);
    bytes[n] = '\0';
    out.push_back(bytes);
  }
  detail::add_changed(nlohmann::json::parse(text), out);
  return out;
}

/// Calls read(text) with every damaged copy of a fine file. It must accept the copy or throw an
/// Error of tern's, and refuse at least `least` copies. Errors must contain `file`.
template <class Read>
void check_damaged(const std::string& fine, const std::string& file, int least, Read read) {
  CHECK_NOTHROW(read(fine));
  int refused = 0;
  for (const std::string& text : damaged(fine)) {
    CAPTURE(text.substr(0, 300));
    std::string said;
    try {
      read(text);
    } catch (const Error& e) {
      said = e.what();
      ++refused;
    } catch (const std::exception& e) {
      FAIL_CHECK("no Error of tern: ", e.what());
    }
    CAPTURE(said);
    CHECK(said.find("json.exception") == said.npos);
    CHECK(said.find("type must be") == said.npos);
    CHECK(said.size() < 1000);
    if (!said.empty()) CHECK(said.find(file) != said.npos);
  }
  CHECK(refused >= least);
}

}  // namespace tern::test

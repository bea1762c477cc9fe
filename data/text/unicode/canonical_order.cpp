// Sorts runs of combining characters by class in O(n log n).
#include "tern/data/text/unicode/canonical_order.h"

#include <utf8proc.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace tern::datasets::detail {
namespace {

constexpr size_t kLong = 16;  // shorter runs are left to utf8proc

using Run = std::vector<std::pair<int, std::string_view>>;

void append_run(Run& run, std::string& to) {
  if (run.size() >= kLong)
    std::stable_sort(run.begin(), run.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [order, character] : run) to += character;
  run.clear();
}

}  // namespace

std::string canonical_order(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  Run run;
  for (size_t at = 0; at < text.size();) {
    utf8proc_int32_t c = 0;
    const auto length =
        utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()) + at,
                         static_cast<utf8proc_ssize_t>(text.size() - at), &c);
    const std::string_view character =
        text.substr(at, length > 0 ? static_cast<size_t>(length) : 1);
    at += character.size();
    const int order = length > 0 ? utf8proc_get_property(c)->combining_class : 0;
    if (order == 0) append_run(run, out);
    if (order == 0)
      out += character;
    else
      run.emplace_back(order, character);
  }
  append_run(run, out);
  return out;
}

}  // namespace tern::datasets::detail

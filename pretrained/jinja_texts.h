// Methods of texts, and what filters of jinja_builtins.cpp share with them.
// Inside of pretrained only.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tern/pretrained/jinja_run.h"

namespace tern::pretrained::jinja {

using Function = Value (*)(const Value& self, Call& call);
template <class F>
using Table = std::map<std::string_view, F>;

const Table<Function>& text_methods();

// Filters, whose subject may be any value.
Value trim(const Value& self, Call& call);
Value upper(const Value& self, Call& call);
Value lower(const Value& self, Call& call);
Value title(const Value& self, Call& call);
Value capitalize(const Value& self, Call& call);
Value replace(const Value& self, Call& call);
Value indent(const Value& self, Call& call);

/// The text of a value. Error if it is none.
const std::string& text_of(const Value& v);
// New values, which the budget counts.
Value made(Call& call, std::string_view text);
Value made(Call& call, Items items);
/// The pieces of a text around the first `limit` separators.
std::vector<std::string_view> cut(Call& call, std::string_view text, std::string_view by,
                                  int64_t limit = std::numeric_limits<int64_t>::max());
/// The elements as texts with a text between them.
Value joined(Call& call, const Value& list, const std::string& between);

}  // namespace tern::pretrained::jinja

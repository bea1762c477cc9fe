// Reads values of a JSON tree with checks, and tracks which members were read, so that a reader can
// refuse members that it does not know.
#include "tern/core/io/json_value.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <unordered_set>

#include "tern/core/base/error.h"

namespace tern {

using nlohmann::json;

// Remembers the addresses of the values that were read; the tree does not change. Searches for the
// place of a value only for an error.
struct JsonDocument::Impl {
  json tree;
  std::unordered_set<const json*> read;     // members
  std::unordered_set<const json*> walked;   // objects whose members are all read
  std::unordered_set<const json*> ignored;  // members, including their contents
};

namespace {

std::string place_of_member(const std::string& above, const std::string& key) {
  return above.empty() ? key : above + "." + key;
}

/// Calls visit(value, place) for each member of an object or element of a list.
template <class Visit>
void each_inside(const json& value, const std::string& place, Visit visit) {
  if (value.is_object())
    for (const auto& [key, member] : value.items()) visit(member, place_of_member(place, key));
  if (value.is_array())
    for (size_t i = 0; i < value.size(); ++i) visit(value[i], fmt::format("{}[{}]", place, i));
}

/// Whether `value` contains `wanted`. If so, sets `place` to the place of `wanted`.
bool find_place(const json& value, const json* wanted, std::string& place) {
  if (&value == wanted) return true;
  const std::string here = place;
  bool found = false;
  each_inside(value, here, [&](const json& inner, const std::string& name) {
    if (found || (&inner != wanted && !inner.is_structured())) return;
    place = name;
    found = find_place(inner, wanted, place);
  });
  if (!found) place = here;
  return found;
}

const json& null_value() {
  static const json kNull;
  return kNull;
}

std::string shown_value(const json& value) {
  constexpr size_t kMost = 40;
  std::string shown = value.dump(-1, ' ', false, json::error_handler_t::replace);
  if (shown.size() > kMost) shown = shown.substr(0, kMost) + "...";
  return shown;
}

}  // namespace

void JsonValue::fail(const std::string& reason) const {
  std::string place;
  find_place(document_->impl_->tree, value_, place);
  tern::fail(place.empty() ? reason : place + ": " + reason);
}

void JsonValue::fail_expected(const char* what) const {
  fail(fmt::format("expected {}, got {}", what, shown_value(*value_)));
}

bool JsonValue::is_null() const { return value_->is_null(); }
bool JsonValue::is_text() const { return value_->is_string(); }
bool JsonValue::is_list() const { return value_->is_array(); }
bool JsonValue::is_object() const { return value_->is_object(); }

const std::string& JsonValue::text() const {
  if (!value_->is_string()) fail_expected("a string");
  return value_->get_ref<const std::string&>();
}

bool JsonValue::boolean() const {
  if (!value_->is_boolean()) fail_expected("true or false");
  return value_->get<bool>();
}

double JsonValue::number() const {
  if (!value_->is_number()) fail_expected("a number");
  return value_->get<double>();
}

int64_t JsonValue::integer() const {
  const bool wraps = value_->is_number_unsigned() && value_->get<uint64_t>() > INT64_MAX;
  if (!value_->is_number_integer() || wraps) fail(shown() + " is not an integer below 2^63");
  return value_->get<int64_t>();
}

int64_t JsonValue::integer(int64_t least, int64_t most) const {
  const int64_t value = integer();
  if (value >= least && value <= most) return value;
  if (most == INT64_MAX) fail(fmt::format("it is {}, it must be at least {}", value, least));
  fail(fmt::format("it is {}, it must be from {} to {}", value, least, most));
}

std::vector<int64_t> JsonValue::integers() const {
  if (!value_->is_array()) fail_expected("a list of integers");
  std::vector<int64_t> numbers;
  for (const JsonValue& v : elements()) numbers.push_back(v.integer());
  return numbers;
}

JsonValue JsonValue::find(std::string_view key) const {
  if (!value_->is_object()) fail_expected("an object");
  const auto found = value_->find(std::string(key));
  if (found == value_->end()) return {document_, &null_value()};
  document_->impl_->read.insert(&*found);
  return {document_, &*found};
}

bool JsonValue::has(std::string_view key) const { return find(key).value_ != &null_value(); }

JsonValue JsonValue::at(std::string_view key) const {
  const JsonValue found = find(key);
  if (found.value_ == &null_value()) fail(fmt::format("it has no {}", key));
  return found;
}

JsonValue JsonValue::at(size_t i) const {
  if (!value_->is_array() || i >= value_->size())
    fail_expected(fmt::format("a list of at least {} elements", i + 1).c_str());
  return {document_, &(*value_)[i]};
}

size_t JsonValue::size() const { return value_->size(); }

std::vector<JsonMember> JsonValue::members() const {
  if (!value_->is_object()) fail_expected("an object");
  document_->impl_->walked.insert(value_);
  std::vector<JsonMember> members;
  members.reserve(value_->size());
  for (auto at = value_->begin(); at != value_->end(); ++at)
    members.push_back({at.key(), {document_, &*at}});
  return members;
}

std::vector<JsonValue> JsonValue::elements() const {
  if (!value_->is_array()) fail_expected("a list");
  std::vector<JsonValue> elements;
  elements.reserve(value_->size());
  for (const json& element : *value_) elements.push_back({document_, &element});
  return elements;
}

void JsonValue::ignore(std::string_view keys) const {
  std::istringstream words{std::string(keys)};
  for (std::string key; words >> key;)
    if (has(key)) document_->impl_->ignored.insert(find(key).value_);
}

std::string JsonValue::dump() const { return value_->dump(); }
std::string JsonValue::shown() const { return shown_value(*value_); }

JsonDocument::JsonDocument(std::string_view text, const JsonLimits& limits)
    : impl_(std::make_unique<Impl>()) {
  impl_->tree = parse_json(text, limits);
}

JsonDocument::~JsonDocument() = default;

JsonValue JsonDocument::root() const { return {this, &impl_->tree}; }

namespace {

template <class Known, class Stop>
void collect_unread(const json& value, const std::string& place, const Known& known,
                    const Stop& stop, std::vector<std::string>& out) {
  each_inside(value, place, [&](const json& inner, const std::string& name) {
    if (value.is_object() && !known(value, inner))
      out.push_back(name);
    else if (inner.is_structured() && !stop(inner))
      collect_unread(inner, name, known, stop, out);
  });
}

}  // namespace

std::vector<std::string> JsonDocument::unread() const {
  std::vector<std::string> out;
  collect_unread(
      impl_->tree, "",
      [&](const json& object, const json& member) {
        return impl_->walked.contains(&object) || impl_->read.contains(&member);
      },
      [&](const json& inner) { return impl_->ignored.contains(&inner); }, out);
  return out;
}

void JsonDocument::refuse_unread(const std::vector<std::string>& harmless) const {
  std::vector<std::string> names = unread();
  std::erase_if(names, [&](const std::string& name) {
    return std::find(harmless.begin(), harmless.end(), name) != harmless.end();
  });
  check(names.empty(), "it has {}, which tern does not know; it may change what the file means",
        fmt::join(names, ", "));
}

std::vector<std::string> JsonDocument::refuse_unread_inside() const {
  std::vector<std::string> outer = unread();
  std::erase_if(outer, [&](const std::string& name) { return !impl_->tree.contains(name); });
  refuse_unread(outer);
  return outer;
}

}  // namespace tern

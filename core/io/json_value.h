// Untrusted JSON, read value by value. Inside of tern only.
//
//   const JsonDocument file(text);
//   const JsonValue config = file.root();
//   const int64_t dim = config.at("hidden_size").integer();
//   const double eps = config.get("layer_norm_eps", 1e-12);
//   config.ignore("torch_dtype use_cache");
//   file.refuse_unread();
//
// Errors begin with the place of the value: "rope_scaling.factor: expected a number, got "4"". (The
// caller adds the file's name.) The document remembers which members were read: a member that the
// reader does not know may change the meaning of the file. A member that occurs twice is an error.
//
// A value refers to its document, which must outlive it. A document belongs to one thread.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "tern/core/io/json_text.h"

namespace tern {

class JsonDocument;
struct JsonMember;

class JsonValue {
 public:
  bool is_null() const;
  bool is_text() const;
  bool is_list() const;
  bool is_object() const;

  // The value as this type. Error if it has another type. An integer has no fraction and fits into
  // 64 bits.
  const std::string& text() const;
  bool boolean() const;
  double number() const;
  int64_t integer() const;
  /// The same. Error unless the value is from `least` to `most`.
  int64_t integer(int64_t least, int64_t most = std::numeric_limits<int64_t>::max()) const;
  std::vector<int64_t> integers() const;
  template <class T>
  T as() const {
    if constexpr (std::is_same_v<T, bool>) return boolean();
    if constexpr (std::is_same_v<T, int64_t>) return integer();
    if constexpr (std::is_same_v<T, double>) return number();
    if constexpr (std::is_same_v<T, std::string>) return text();
    static_assert(std::is_same_v<T, bool> || std::is_same_v<T, int64_t> ||
                  std::is_same_v<T, double> || std::is_same_v<T, std::string>);
  }

  /// A member of an object. Error if it is missing.
  JsonValue at(std::string_view key) const;
  /// The same, but null if the member is missing.
  JsonValue find(std::string_view key) const;
  bool has(std::string_view key) const;
  /// The value of a member, or `otherwise` if the member is missing or null.
  template <class T>
  T get(std::string_view key, const T& otherwise) const {
    const JsonValue member = find(key);
    return member.is_null() ? otherwise : member.as<T>();
  }
  std::string get(std::string_view key, const char* otherwise) const {
    return get<std::string>(key, otherwise);
  }
  /// All members of an object, and all elements of a list.
  std::vector<JsonMember> members() const;
  std::vector<JsonValue> elements() const;
  /// Element `i` of a list. Error if the list is shorter.
  JsonValue at(size_t i) const;
  size_t size() const;

  /// Counts these members and all their contents as read. `keys` are separated by spaces.
  void ignore(std::string_view keys) const;
  /// Throws Error with the place of this value in front.
  [[noreturn]] void fail(const std::string& reason) const;
  /// The value as JSON without spaces, its members sorted by name.
  std::string dump() const;
  /// The first characters of dump(), for errors.
  std::string shown() const;

 private:
  friend class JsonDocument;
  JsonValue(const JsonDocument* document, const nlohmann::json* value)
      : document_(document), value_(value) {}
  [[noreturn]] void fail_expected(const char* what) const;

  const JsonDocument* document_;
  const nlohmann::json* value_;
};

struct JsonMember {
  const std::string& name;
  JsonValue value;
};

class JsonDocument {
 public:
  /// Errors are those of parse_json().
  explicit JsonDocument(std::string_view text, const JsonLimits& limits = {});
  ~JsonDocument();
  JsonDocument(const JsonDocument&) = delete;
  JsonDocument& operator=(const JsonDocument&) = delete;

  JsonValue root() const;
  /// The places of the unread members: "vocab_size", "rope_scaling.type", "tokens[3].content". The
  /// contents of an unread member are not listed.
  std::vector<std::string> unread() const;
  /// Error if there are unread members other than `harmless` ones.
  void refuse_unread(const std::vector<std::string>& harmless = {}) const;
  /// Returns the names of the unread outermost members. Error if inner members are unread: a reader
  /// must know all members of an object that it uses.
  std::vector<std::string> refuse_unread_inside() const;

 private:
  friend class JsonValue;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tern

// Reads a Python pickle (protocols 2 to 5) as plain data. Nothing is imported, called or built:
// a call in the pickle becomes an `object` with the name of the function and its arguments.
// Inside of core only.
//
//   const Pickle pickle(bytes, allowed_names, 1000);
//   if (pickle.root().kind == PickleValue::Kind::dict) use(pickle.items(pickle.root()));
//
// Pickles are not trusted: names outside the list, other opcodes, references to nothing and bytes
// that are missing are Errors, which give the position. Memory: the values take up to 16 times the
// bytes of the pickle, and 60 bytes for each container.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tern::detail {

/// A value of a pickle. A small handle; the Pickle owns the contents.
struct PickleValue {
  enum class Kind : uint8_t {
    none,
    boolean,
    integer,
    large_integer,  ///< outside 64 bits
    real,
    text,  ///< valid UTF-8
    bytes,
    global,  ///< a name of the list of allowed ones
    tuple,
    list,
    dict,        ///< also an OrderedDict: its keys and values in turn
    object,      ///< a call: a global and a tuple of arguments
    persistent,  ///< a reference to outside of the pickle: its id
  };
  struct Span {
    uint32_t at, size;
  };
  Kind kind = Kind::none;
  union {
    int64_t integer = 0;  ///< also of a boolean
    double real;
    Span span;       ///< of text and bytes
    uint32_t index;  ///< of a global or a container
  };
};

class Pickle {
 public:
  /// Reads the whole pickle. `globals` are the allowed names ("torch.Size"); they must outlive this
  /// object. collections.OrderedDict is always allowed. More than `most` containers are an error.
  Pickle(std::string bytes, const std::vector<std::string_view>& globals, int64_t most);

  PickleValue root() const { return root_; }
  /// Of text, bytes or a global.
  std::string_view text(const PickleValue& value) const;
  /// Of a tuple, list, dict, object or persistent.
  const std::vector<PickleValue>& items(const PickleValue& value) const {
    return containers_[value.index];
  }

 private:
  friend class PickleReader;
  std::string bytes_;
  const std::vector<std::string_view>& globals_;
  std::vector<std::vector<PickleValue>> containers_;
  PickleValue root_;
};

}  // namespace tern::detail

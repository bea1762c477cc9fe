// Parses the Python literals in the header of an npy file, and writes such a header.
#include "tern/data/loading/detail/npy_header.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "tern/core/base/printable.h"

namespace tern::datasets::detail {
namespace {

using tern::detail::ElementType;

// The types of NumPy, and those with the same elements in files of weights.
struct NpyType {
  std::string_view numpy, type;
};
constexpr NpyType kNpyTypes[] = {{"f2", "F16"}, {"f4", "F32"}, {"f8", "F64"}, {"i1", "I8"},
                                 {"i2", "I16"}, {"i4", "I32"}, {"i8", "I64"}, {"u1", "U8"},
                                 {"u2", "U16"}, {"u4", "U32"}, {"b1", "BOOL"}};

// Reads the few literals of Python that NumPy writes.
class Literals {
 public:
  using Fail = std::function<void(int64_t, const std::string&)>;
  Literals(const std::string& text, const Fail& fail) : text_(text), fail_(fail) {}

  [[noreturn]] void fail(const std::string& what) const {
    fail_(static_cast<int64_t>(at_), "the npy header: " + what);
    tern::fail(what);  // not reached: fail_ throws
  }
  bool take(char c) {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!take(c)) fail(fmt::format("expected '{}'", c));
  }
  std::string string() {
    const bool single = take('\'');
    if (!single) expect('"');
    const size_t end = text_.find(single ? '\'' : '"', at_);
    if (end == std::string::npos) fail("a string has no end");
    std::string s = text_.substr(at_, end - at_);
    at_ = end + 1;
    return s;
  }
  bool boolean() {
    take('\0');  // skips spaces
    for (std::string_view word : {"True", "False"})
      if (std::string_view(text_).substr(at_).starts_with(word)) {
        at_ += word.size();
        return word == "True";
      }
    fail("expected True or False");
  }
  Shape tuple() {
    Shape shape;
    expect('(');
    while (!take(')')) {
      take('\0');
      int64_t value = 0;
      const auto [rest, error] =
          std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
      if (error != std::errc() || value < 0) fail("expected a size");
      if (shape.size() == kMaxDims) fail(fmt::format("it has more than {} axes", kMaxDims));
      shape.push_back(value);
      at_ = static_cast<size_t>(rest - text_.data());
      take('L');  // Python 2 marks long integers by L
      if (!take(',')) {
        expect(')');
        break;
      }
    }
    return shape;
  }
  void end() {
    take('\0');
    if (at_ != text_.size()) fail("something follows its end");
  }

 private:
  const std::string& text_;
  const Fail& fail_;
  size_t at_ = 0;
};

void set_type(Literals& in, NpyHeader& header) {
  if (in.take('[')) in.fail("records of several fields cannot be read; save their fields apart");
  const std::string descr = in.string();
  const char order = descr.empty() ? ' ' : descr[0];
  if (order == '<' || order == '>' || order == '|' || order == '=')
    for (const auto& [numpy, type] : kNpyTypes)
      if (descr.substr(1) == numpy) {
        header.type = tern::detail::find_element_type(type);
        header.swapped = order == '>' && header.type->bytes > 1;
        return;
      }
  in.fail(fmt::format("elements of type '{}' cannot be read; convert them with .astype()",
                      printable(descr.substr(0, 20))));
}

}  // namespace

NpyHeader parse_npy_header(const std::string& text, const Literals::Fail& fail) {
  Literals in(text, fail);
  NpyHeader header{};
  bool type = false, order = false, shape = false;
  in.expect('{');
  while (!in.take('}')) {
    const std::string key = in.string();
    in.expect(':');
    bool* seen = key == "descr"           ? &type
                 : key == "fortran_order" ? &order
                 : key == "shape"         ? &shape
                                          : nullptr;
    if (!seen || *seen) in.fail("it has a repeated or an unknown entry");
    *seen = true;
    if (seen == &type) set_type(in, header);
    if (seen == &order) header.fortran_order = in.boolean();
    if (seen == &shape) header.shape = in.tuple();
    if (!in.take(',')) {
      in.expect('}');
      break;
    }
  }
  in.end();
  if (!type || !order || !shape) in.fail("descr, fortran_order or shape is missing");
  return header;
}

std::string make_npy_header(DType dtype, const Shape& shape, bool fortran_order) {
  const ElementType* type = tern::detail::element_type_of(dtype);
  const char order = type->bytes > 1 ? '<' : '|';
  const auto* row = std::ranges::find(kNpyTypes, type->name, &NpyType::type);
  std::string sizes;
  for (int64_t size : shape) sizes += fmt::format("{}, ", size);
  if (shape.size() > 1) sizes.resize(sizes.size() - 2);
  if (shape.size() == 1) sizes.pop_back();
  std::string text = fmt::format("{{'descr': '{}{}', 'fortran_order': {}, 'shape': ({}), }}", order,
                                 row->numpy, fortran_order ? "True" : "False", sizes);
  text.append((64 - (text.size() + 11) % 64) % 64, ' ');
  text.push_back('\n');
  std::string header = "\x93NUMPY";
  header +=
      {'\x01', '\x00', static_cast<char>(text.size() & 0xff), static_cast<char>(text.size() >> 8)};
  return header + text;
}

}  // namespace tern::datasets::detail

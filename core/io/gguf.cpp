// Typed access to the metadata of a GGUF file, and loading of its tensors.
#include "tern/core/io/gguf.h"

#include <fmt/format.h>

#include <unordered_set>

#include "tern/core/io/gguf_blocks.h"
#include "tern/core/io/gguf_header.h"
#include "tern/core/io/random_file.h"

namespace tern {

using detail::GgufKind;
using detail::GgufValue;

namespace {

const char* kind_name(GgufKind kind) {
  constexpr const char* kNames[] = {"u8",      "i8",   "u16",  "i16", "u32", "i32", "f32",
                                    "boolean", "text", "list", "u64", "i64", "f64"};
  return kNames[static_cast<size_t>(kind)];
}

std::string_view text_at(const char* bytes) {
  uint64_t length;
  std::memcpy(&length, bytes, sizeof length);
  return {bytes + sizeof length, length};
}

/// Rows [begin, end) of a tensor as a tensor of their own.
GgufTensor rows_of(const GgufTensor& whole, int64_t begin, int64_t end) {
  check(whole.shape.size() >= 2, "GgufFile: '{}' of shape {} has no rows", whole.name, whole.shape);
  check(0 <= begin && begin <= end && end <= whole.shape[0],
        "GgufFile: rows {} to {} of '{}', which has {}", begin, end, whole.name, whole.shape[0]);
  GgufTensor part = whole;
  const int64_t row = whole.shape[0] == 0 ? 0 : whole.bytes / whole.shape[0];
  part.shape[0] = end - begin;
  part.offset += begin * row;
  part.bytes = (end - begin) * row;
  return part;
}

}  // namespace

struct GgufFile::Impl {
  Impl(const std::string& path, const GgufLimits& limits)
      : file(path), header(detail::read_gguf_header(file, limits)) {}

  bool has(std::string_view key) {
    const auto found = header.values.find(key);
    if (found == header.values.end()) return false;
    read.insert(found->first);
    return true;
  }

  const GgufValue& value(std::string_view key) {
    if (!has(key)) file.fail(fmt::format("the metadata has no {}", key));
    return header.values.at(key);
  }

  /// The value of a text or boolean, or the first element of such a list.
  const char* value(std::string_view key, GgufKind kind, bool list, const char* expected) {
    const GgufValue& found = value(key);
    if (found.kind != kind || found.list != list) fail_expected(key, expected);
    return found.bytes;
  }

  /// The elements of a list of numbers, or the only one.
  template <class T>
  std::vector<T> numbers(std::string_view key, bool list, const char* expected) {
    const GgufValue& found = value(key);
    const bool fraction = found.kind == GgufKind::f32 || found.kind == GgufKind::f64;
    if (found.list != list || found.kind == GgufKind::text || found.kind == GgufKind::boolean ||
        (fraction && std::is_integral_v<T>))
      fail_expected(key, expected);
    std::vector<T> numbers(static_cast<size_t>(found.count));
    const char* at = found.bytes;
    for (T& number : numbers)
      at += detail::with_gguf_number(found.kind, at, [&](auto x) {
        if constexpr (std::is_integral_v<T> && std::is_same_v<decltype(x), uint64_t>)
          if (x > static_cast<uint64_t>(INT64_MAX))
            file.fail(fmt::format("{}: {} is not an integer below 2^63", key, x));
        number = static_cast<T>(x);
        return sizeof x;
      });
    return numbers;
  }

  [[noreturn]] void fail_expected(std::string_view key, const char* expected) {
    const GgufValue& found = value(key);
    const std::string list = found.list ? fmt::format("a list of {} ", found.count) : "";
    file.fail(fmt::format("{}: expected {}, got {}{}", key, expected, list, kind_name(found.kind)));
  }

  const GgufTensor& tensor(std::string_view name) const {
    const auto found = header.places.find(name);
    if (found == header.places.end()) file.fail(fmt::format("there is no tensor '{}'", name));
    return header.tensors[found->second];
  }

  Tensor load(const GgufTensor& t) const {
    const detail::ElementType* blocks = detail::find_block_type(t.type);
    return detail::read_tensor(file, t.offset, t.shape,
                               blocks ? *blocks : *detail::find_element_type(t.type));
  }

  const RandomFile file;
  const detail::GgufHeader header;
  std::unordered_set<std::string_view> read;
};

GgufFile::GgufFile(const std::string& path, const GgufLimits& limits)
    : impl_(std::make_unique<Impl>(path, limits)) {}
GgufFile::GgufFile(GgufFile&&) noexcept = default;
GgufFile& GgufFile::operator=(GgufFile&&) noexcept = default;
GgufFile::~GgufFile() = default;

const std::string& GgufFile::path() const { return impl_->file.path(); }

std::vector<std::string> GgufFile::keys() const {
  return {impl_->header.keys.begin(), impl_->header.keys.end()};
}

std::vector<std::string> GgufFile::unread() const {
  std::vector<std::string> unread = keys();
  std::erase_if(unread, [&](const std::string& key) { return impl_->read.contains(key); });
  return unread;
}

bool GgufFile::has(std::string_view key) const { return impl_->has(key); }

std::string GgufFile::text(std::string_view key) const {
  return std::string(text_at(impl_->value(key, GgufKind::text, false, "a text")));
}

int64_t GgufFile::integer(std::string_view key) const {
  return impl_->numbers<int64_t>(key, false, "an integer")[0];
}

double GgufFile::number(std::string_view key) const {
  return impl_->numbers<double>(key, false, "a number")[0];
}

bool GgufFile::boolean(std::string_view key) const {
  const char byte = *impl_->value(key, GgufKind::boolean, false, "true or false");
  if (byte != 0 && byte != 1) impl_->file.fail(fmt::format("{}: neither true nor false", key));
  return byte == 1;
}

std::vector<std::string_view> GgufFile::texts(std::string_view key) const {
  const char* at = impl_->value(key, GgufKind::text, true, "a list of texts");
  std::vector<std::string_view> texts(static_cast<size_t>(impl_->value(key).count));
  for (std::string_view& text : texts) {
    text = text_at(at);
    at = text.data() + text.size();
  }
  return texts;
}

std::vector<int64_t> GgufFile::integers(std::string_view key) const {
  return impl_->numbers<int64_t>(key, true, "a list of integers");
}

std::vector<double> GgufFile::numbers(std::string_view key) const {
  return impl_->numbers<double>(key, true, "a list of numbers");
}

const std::vector<GgufTensor>& GgufFile::tensors() const { return impl_->header.tensors; }

const GgufTensor* GgufFile::find(std::string_view name) const {
  const auto found = impl_->header.places.find(name);
  return found == impl_->header.places.end() ? nullptr : &impl_->header.tensors[found->second];
}

Tensor GgufFile::load(std::string_view name) const { return impl_->load(impl_->tensor(name)); }

Tensor GgufFile::load_rows(std::string_view name, int64_t begin, int64_t end) const {
  return impl_->load(rows_of(impl_->tensor(name), begin, end));
}

}  // namespace tern

// Reads the header of a GGUF file, with checks of counts and lengths before any allocation.
#include "tern/core/io/gguf_header.h"

#include <algorithm>
#include <bit>

#include "tern/core/base/utf8.h"
#include "tern/core/io/file_kind.h"
#include "tern/core/io/gguf_blocks.h"

namespace tern::detail {
namespace {

constexpr int64_t kMostKeys = 10'000, kMostElements = 1 << 20;
constexpr int64_t kMostName = 1024;  // bytes of a key or name
constexpr int64_t kSmallestEntry = 8 + 1 + 4 + 1, kSmallestTensor = 8 + 1 + 4 + 4 + 8;

// Bytes of a value, by GgufKind; texts and lists have lengths of their own.
constexpr uint64_t kSizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

struct TypeName {
  uint32_t id;
  std::string_view name;
};

// ggml's numbers of types (enum ggml_type); those that are missing were removed from ggml.
constexpr TypeName kTypeNames[] = {
    {0, "F32"},     {1, "F16"},    {2, "Q4_0"},     {3, "Q4_1"},    {6, "Q5_0"},     {7, "Q5_1"},
    {8, "Q8_0"},    {9, "Q8_1"},   {10, "Q2_K"},    {11, "Q3_K"},   {12, "Q4_K"},    {13, "Q5_K"},
    {14, "Q6_K"},   {15, "Q8_K"},  {16, "IQ2_XXS"}, {17, "IQ2_XS"}, {18, "IQ3_XXS"}, {19, "IQ1_S"},
    {20, "IQ4_NL"}, {21, "IQ3_S"}, {22, "IQ2_S"},   {23, "IQ4_XS"}, {24, "I8"},      {25, "I16"},
    {26, "I32"},    {27, "I64"},   {28, "F64"},     {29, "IQ1_M"},  {30, "BF16"},    {34, "TQ1_0"},
    {35, "TQ2_0"},  {39, "MXFP4"}, {40, "NVFP4"},   {41, "Q1_0"},
};

// The bytes of the header, read as far as they are needed.
class Cursor {
 public:
  Cursor(const RandomFile& file, int64_t limit)
      : file_(file),
        end_(std::min(file.size(), limit)),
        bytes_(std::make_unique_for_overwrite<char[]>(static_cast<size_t>(end_))) {}

  int64_t at() const { return at_; }
  int64_t left() const { return file_.size() - at_; }
  /// The next `count` bytes. They stay where they are.
  const char* take(uint64_t count) {
    if (count > static_cast<uint64_t>(left()))
      fail(
          fmt::format("{} bytes are needed here, but only {} follow; the file is truncated or "
                      "damaged",
                      count, left()));
    if (count > static_cast<uint64_t>(end_ - at_))
      fail(fmt::format("the header has more than {} bytes; GgufLimits can allow more", end_));
    constexpr int64_t kPiece = 1 << 16;
    const int64_t needed = at_ + static_cast<int64_t>(count);
    if (needed > have_) {
      const int64_t to = std::min(end_, std::max(needed, have_ + kPiece));
      file_.read(have_, bytes_.get() + have_, to - have_);
      have_ = to;
    }
    const char* from = bytes_.get() + at_;
    at_ = needed;
    return from;
  }
  template <class T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof(T)), sizeof(T));
    return value;
  }
  /// A count of things that take `smallest` bytes or more.
  int64_t count(const char* what, int64_t smallest, int64_t limit) {
    const auto n = number<uint64_t>();
    if (n > static_cast<uint64_t>(left() / smallest))
      fail(
          fmt::format("{} {} do not fit into the {} bytes that follow; the file is truncated or "
                      "damaged",
                      n, what, left()));
    if (n > static_cast<uint64_t>(limit))
      fail(fmt::format("{} {} are over the limit of {}", n, what, limit));
    return static_cast<int64_t>(n);
  }
  std::string_view text() {
    const auto length = number<uint64_t>();
    return {take(length), length};
  }
  std::string_view name() {
    const std::string_view text = this->text();
    if (text.empty() || std::ssize(text) > kMostName || find_invalid_utf8(text))
      fail(fmt::format("a name of {} bytes; it must be UTF-8 of 1 to {}", text.size(), kMostName));
    return text;
  }
  [[noreturn]] void fail(const std::string& reason) const { file_.fail(at_, reason); }
  std::unique_ptr<char[]> release() { return std::move(bytes_); }

 private:
  const RandomFile& file_;
  int64_t end_, at_ = 0, have_ = 0;
  std::unique_ptr<char[]> bytes_;
};

void check_version(Cursor& header) {
  const auto version = header.number<uint32_t>();
  if (version != 0 && (version & 0xffff) == 0)
    header.fail("the file is big-endian; tern reads little-endian GGUF files");
  if (version != 2 && version != 3)
    header.fail(fmt::format("the file has version {}; tern reads versions 2 and 3", version));
}

GgufKind read_kind(Cursor& header, std::string_view key) {
  const auto kind = header.number<uint32_t>();
  if (kind > static_cast<uint32_t>(GgufKind::f64))
    header.fail(fmt::format("'{}' has the unknown type {}", key, kind));
  return static_cast<GgufKind>(kind);
}

GgufValue read_value(Cursor& header, std::string_view key) {
  GgufValue value{read_kind(header, key), false, 1, nullptr};
  if (value.kind == GgufKind::list) {
    value.list = true;
    value.kind = read_kind(header, key);
    if (value.kind == GgufKind::list) header.fail(fmt::format("'{}' is a list of lists", key));
    value.count = header.count("elements", value.kind == GgufKind::text ? 8 : 1, kMostElements);
  }
  value.bytes = header.take(0);
  if (value.kind == GgufKind::text) {
    for (int64_t i = 0; i < value.count; ++i) header.text();
    return value;
  }
  header.take(kSizes[static_cast<size_t>(value.kind)] * static_cast<uint64_t>(value.count));
  return value;
}

const ElementType& read_type(Cursor& header, std::string_view tensor) {
  const auto id = header.number<uint32_t>();
  const auto* row = std::find_if(std::begin(kTypeNames), std::end(kTypeNames),
                                 [&](const TypeName& t) { return t.id == id; });
  if (row == std::end(kTypeNames))
    header.fail(fmt::format("tensor '{}' has the unknown type {}", tensor, id));
  const ElementType* type = find_block_type(row->name);
  if (!type) type = find_element_type(row->name);
  if (!type)
    header.fail(
        fmt::format("tensor '{}' has type {}; tern reads F32, F16, BF16, Q4_0, Q4_1, Q5_0, "
                    "Q5_1, Q8_0, and Q2_K to Q6_K",
                    tensor, row->name));
  return *type;
}

// Reads an entry of the list of tensors. `offset` still counts from the beginning of the data.
GgufTensor read_tensor_entry(Cursor& header) {
  GgufTensor tensor;
  tensor.name = header.name();
  const auto axes = header.number<uint32_t>();
  if (axes > static_cast<uint32_t>(kMaxDims))
    header.fail(fmt::format("tensor '{}' has {} axes, at most {}", tensor.name, axes, kMaxDims));
  for (uint32_t i = 0; i < axes; ++i)
    tensor.shape.push_back(static_cast<int64_t>(header.number<uint64_t>()));
  std::reverse(tensor.shape.begin(), tensor.shape.end());
  const ElementType& type = read_type(header, tensor.name);
  tensor.type = type.name;
  const int64_t row = tensor.shape.empty() ? 1 : tensor.shape.back();
  if (row % type.elements != 0)
    header.fail(fmt::format("tensor '{}' of type {} has rows of {}, not a multiple of {}",
                            tensor.name, type.name, row, type.elements));
  // A size of 0 makes the product 0, but the other sizes must be valid too.
  int64_t elements = 1;
  bool overflow = false, empty = false;
  for (int64_t size : tensor.shape) {
    empty = empty || size == 0;
    overflow =
        overflow || size < 0 || (size > 0 && __builtin_mul_overflow(elements, size, &elements));
  }
  // An element takes up to 8 bytes in the file and in memory.
  if (overflow || elements > INT64_MAX / 8)
    header.fail(
        fmt::format("tensor '{}' has the shape {}, which is too large", tensor.name, tensor.shape));
  tensor.bytes = empty ? 0 : elements / type.elements * type.bytes;
  const auto offset = header.number<uint64_t>();
  if (offset > static_cast<uint64_t>(INT64_MAX))
    header.fail(fmt::format("tensor '{}' begins at {}, behind the end", tensor.name, offset));
  tensor.offset = static_cast<int64_t>(offset);
  return tensor;
}

int64_t alignment_of(const Cursor& header, const GgufHeader& content) {
  const auto found = content.values.find("general.alignment");
  if (found == content.values.end()) return 32;
  const GgufValue& value = found->second;
  uint32_t alignment = 0;
  if (value.kind == GgufKind::u32 && !value.list) std::memcpy(&alignment, value.bytes, 4);
  if (!std::has_single_bit(alignment))
    header.fail("general.alignment must be a power of two, as u32");
  return alignment;
}

// Turns offsets in the data into offsets in the file, and compares them with its size.
void place_tensors(const RandomFile& file, const Cursor& header, GgufHeader& content) {
  const int64_t alignment = alignment_of(header, content);
  const int64_t data = (header.at() + alignment - 1) / alignment * alignment;
  int64_t left = file.size();
  for (GgufTensor& t : content.tensors) {
    if (t.offset % alignment != 0)
      header.fail(fmt::format("tensor '{}' begins at {}, not at a multiple of {}", t.name, t.offset,
                              alignment));
    const int64_t space = file.size() - data;
    if (t.offset > space || t.bytes > space - t.offset)
      header.fail(
          fmt::format("tensor '{}' has {} bytes from {} on, but there are only {}; the file "
                      "is truncated or damaged",
                      t.name, t.bytes, t.offset, std::max<int64_t>(space, 0)));
    t.offset += data;
    left -= t.bytes;
    if (left < 0) header.fail("the tensors overlap: they have more bytes than the file");
  }
}

}  // namespace

GgufHeader read_gguf_header(const RandomFile& file, const GgufLimits& limits) {
  check(limits.header >= 0 && limits.tensors >= 0, "GgufLimits: {} bytes, {} tensors",
        limits.header, limits.tensors);
  const std::string first = file.first_bytes(kFirstBytes);
  if (!first.starts_with("GGUF")) {
    const FileKind kind = file_kind(first);
    file.fail(kind == FileKind::unknown ? "not a GGUF file"
                                        : fmt::format("this is {}, not a GGUF file", name(kind)));
  }
  Cursor header(file, limits.header);
  header.take(4);
  check_version(header);
  GgufHeader content;
  const int64_t tensors = header.count("tensors", kSmallestTensor, limits.tensors);
  const int64_t keys = header.count("keys", kSmallestEntry, kMostKeys);
  for (int64_t i = 0; i < keys; ++i) {
    const std::string_view key = header.name();
    if (!content.values.emplace(key, read_value(header, key)).second)
      header.fail(fmt::format("the key '{}' appears twice", key));
    content.keys.push_back(key);
  }
  content.tensors.reserve(static_cast<size_t>(tensors));  // names must stay where they are
  for (int64_t i = 0; i < tensors; ++i) {
    content.tensors.push_back(read_tensor_entry(header));
    if (!content.places.emplace(content.tensors.back().name, i).second)
      header.fail(fmt::format("two tensors are called '{}'", content.tensors.back().name));
  }
  place_tensors(file, header, content);
  content.bytes = header.release();
  return content;
}

}  // namespace tern::detail

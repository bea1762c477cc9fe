// Reads safetensors files (one file or shards), with checks of sizes, offsets and shapes before any
// allocation, and writes them. safetensors_header.cpp parses the header.
#include "tern/core/io/safetensors.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <set>
#include <unordered_set>

#include "tern/core/io/atomic_file.h"
#include "tern/core/io/file_kind.h"
#include "tern/core/io/foreign_file.h"
#include "tern/core/io/safetensors_header.h"
#include "tern/core/io/safetensors_shards.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/record.h"

namespace tern {
namespace {

static_assert(std::endian::native == std::endian::little,
              "safetensors files are little-endian, so tern supports only little-endian machines");

using detail::SafeTensorsEntry;
using detail::SafeTensorsHeader;

// The reference implementation's limit; also prevents hostile allocations.
constexpr int64_t kMaxHeader = 100'000'000;

float half_to_float(uint16_t h) {
  uint32_t sign = static_cast<uint32_t>(h & 0x8000) << 16;
  uint32_t exponent = (h >> 10) & 0x1f, mantissa = h & 0x3ff;
  if (exponent == 0) {  // zero or subnormal: mantissa * 2^-24
    float value = static_cast<float>(mantissa) * 0x1p-24f;
    return sign ? -value : value;
  }
  exponent = exponent == 31 ? 255 : exponent + 127 - 15;
  return std::bit_cast<float>(sign | exponent << 23 | mantissa << 13);
}

float bfloat_to_float(uint16_t b) { return std::bit_cast<float>(static_cast<uint32_t>(b) << 16); }

template <class From, class To>
void widen(const std::byte* from, void* to, int64_t n, To (*convert)(From)) {
  for (int64_t i = 0; i < n; ++i) {
    From value;
    std::memcpy(&value, from + i * static_cast<int64_t>(sizeof(From)), sizeof(From));
    static_cast<To*>(to)[i] = convert(value);
  }
}

template <class From>
void widen_integer(const std::byte* from, void* to, int64_t n) {
  widen<From, int64_t>(from, to, n, [](From v) { return static_cast<int64_t>(v); });
}

// An element type of the format: its size in the file, our type, and the conversion (null: same
// bytes).
struct FileType {
  std::string_view name;
  int64_t size;
  DType dtype;
  void (*convert)(const std::byte* from, void* to, int64_t n);
};

constexpr FileType kFileTypes[] = {
    {"F32", 4, DType::f32, nullptr},
    {"F64", 8, DType::f64, nullptr},
    {"I64", 8, DType::i64, nullptr},
    {"U8", 1, DType::u8, nullptr},
    {"F16", 2, DType::f32,
     [](const std::byte* f, void* t, int64_t n) { widen<uint16_t>(f, t, n, half_to_float); }},
    {"BF16", 2, DType::f32,
     [](const std::byte* f, void* t, int64_t n) { widen<uint16_t>(f, t, n, bfloat_to_float); }},
    {"BOOL", 1, DType::u8,
     [](const std::byte* f, void* t, int64_t n) {
       widen<uint8_t, uint8_t>(f, t, n, [](uint8_t v) { return static_cast<uint8_t>(v != 0); });
     }},
    {"I8", 1, DType::i64, widen_integer<int8_t>},
    {"I16", 2, DType::i64, widen_integer<int16_t>},
    {"I32", 4, DType::i64, widen_integer<int32_t>},
    {"U16", 2, DType::i64, widen_integer<uint16_t>},
    {"U32", 4, DType::i64, widen_integer<uint32_t>},
};

const FileType* find_file_type(std::string_view name) {
  for (const FileType& t : kFileTypes)
    if (t.name == name) return &t;
  return nullptr;
}

// A file that is read in pieces. Every error names it.
class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path) {
    fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd_ < 0) {
      const int reason = errno;
      fail_io(fmt::format("load_safetensors: {}: {}{}", path, std::strerror(reason),
                          reason == ENOENT ? detail::describe_other_weights(path) : ""));
    }
    struct stat info = {};
    bool regular = ::fstat(fd_, &info) == 0 && S_ISREG(info.st_mode);
    size_ = info.st_size;
    if (!regular) {
      ::close(fd_);
      fail_io(fmt::format("load_safetensors: {}: not a regular file", path));
    }
  }
  ~Reader() { ::close(fd_); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  const std::string& path() const { return path_; }
  int64_t size() const { return size_; }

  void read(int64_t at, void* to, int64_t count) const {
    constexpr int64_t kMost = int64_t{1} << 30;  // one call takes at most 2 GiB on Linux
    char* bytes = static_cast<char*>(to);
    while (count > 0) {
      ssize_t got = ::pread(fd_, bytes, static_cast<size_t>(std::min(count, kMost)), at);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) fail_at(at, std::strerror(errno));
      if (got == 0) fail_at(at, "the file ends here; it became shorter while it was read");
      bytes += got;
      at += got;
      count -= got;
    }
  }

  [[noreturn]] void fail_at(int64_t at, const std::string& reason) const {
    fail_io(fmt::format("load_safetensors: {}: byte {}: {}", path_, at, reason));
  }

 private:
  std::string path_;
  int fd_;
  int64_t size_ = 0;
};

// Reads the length (8 bytes) and the JSON. Sets `data` to the beginning of the tensors' bytes.
SafeTensorsHeader read_header(const Reader& file, int64_t most, int64_t& data) {
  std::string first(static_cast<size_t>(std::min(file.size(), kFirstBytes)), '\0');
  file.read(0, first.data(), std::ssize(first));
  const std::string foreign = detail::describe_foreign_file(file.path(), first);
  check_io(foreign.empty(), "load_safetensors: {}: {}", file.path(), foreign);
  if (file.size() < 8)
    file.fail_at(0, fmt::format("the file has only {} bytes, too few for a header", file.size()));
  uint64_t length = 0;
  file.read(0, &length, 8);
  if (length > static_cast<uint64_t>(kMaxHeader))
    file.fail_at(
        0,
        fmt::format(
            "a header of {} bytes is over the limit of {}; this is probably not a safetensors file",
            length, kMaxHeader));
  data = 8 + static_cast<int64_t>(length);
  if (data > file.size())
    file.fail_at(
        0, fmt::format(
               "a header of {} bytes does not fit into the file of {} bytes; the file is truncated",
               length, file.size()));
  std::string json(length, '\0');
  file.read(8, json.data(), static_cast<int64_t>(length));
  std::string error;
  SafeTensorsHeader header = detail::parse_safetensors_header(json, error, most);
  if (!error.empty()) file.fail_at(8, error);
  return header;
}

// Compares type and shape with the number of bytes of the entry.
void check_entry(const Reader& file, const SafeTensorsEntry& e, int64_t data) {
  auto fail_entry = [&](const std::string& reason) {
    file.fail_at(data, fmt::format("tensor '{:.80}': {}", e.name, reason));
  };
  const FileType* type = find_file_type(e.dtype);
  if (!type) fail_entry(fmt::format("unknown type '{:.20}'", e.dtype));
  int64_t begin = e.offsets[0], end = e.offsets[1], bytes = type->size;
  if (begin > end) fail_entry(fmt::format("its bytes end ({}) before they begin ({})", end, begin));
  if (end > file.size() - data)
    fail_entry(fmt::format("its bytes end at {}, but there are only {}; the file is truncated", end,
                           file.size() - data));
  // A size of 0 makes the product 0, but the other sizes must be valid too.
  bool overflow = false, empty = false;
  for (int64_t size : e.shape) {
    empty = empty || size == 0;
    overflow = overflow || (size > 0 && __builtin_mul_overflow(bytes, size, &bytes));
  }
  Shape shape(e.shape.begin(), e.shape.end());
  // Widened types need up to 8 bytes per element; those must fit too.
  if (overflow || bytes > INT64_MAX / 8) fail_entry(fmt::format("shape {} is too large", shape));
  if (empty) bytes = 0;
  if (bytes != end - begin)
    fail_entry(fmt::format("{} of shape {} needs {} bytes, the header gives {}", e.dtype, shape,
                           bytes, end - begin));
}

// The format requires that tensors cover the data exactly: no overlap, no gap, nothing after them.
void check_cover(const Reader& file, const SafeTensorsHeader& header, int64_t data) {
  std::vector<const SafeTensorsEntry*> order;
  for (const SafeTensorsEntry& e : header.entries) order.push_back(&e);
  std::sort(order.begin(), order.end(),
            [](const auto* a, const auto* b) { return a->offsets < b->offsets; });
  int64_t at = 0;
  for (const SafeTensorsEntry* e : order) {
    if (e->offsets[0] != at)
      file.fail_at(
          data + at,
          fmt::format("tensor '{:.80}' begins at {} instead of {}: the data has {}", e->name,
                      e->offsets[0], at, e->offsets[0] < at ? "an overlap" : "a hole"));
    at = e->offsets[1];
  }
  if (data + at != file.size())
    file.fail_at(data + at,
                 fmt::format("{} bytes follow the last tensor", file.size() - data - at));
}

Tensor read_tensor(const Reader& file, const SafeTensorsEntry& e, int64_t data) {
  const FileType& type = *find_file_type(e.dtype);
  Fresh out(Shape(e.shape.begin(), e.shape.end()), type.dtype);
  void* to = out.ref()->storage->data();
  int64_t at = data + e.offsets[0], left = e.offsets[1] - e.offsets[0];
  if (!type.convert) {
    file.read(at, to, left);
    return not_differentiable(out);
  }
  constexpr int64_t kPiece = 1 << 20;
  std::vector<std::byte> piece(static_cast<size_t>(std::min(left, kPiece)));
  auto* target = static_cast<std::byte*>(to);
  while (left > 0) {
    int64_t bytes = std::min(left, kPiece);
    file.read(at, piece.data(), bytes);
    type.convert(piece.data(), target, bytes / type.size);
    target += bytes / type.size * item_size(type.dtype);
    at += bytes;
    left -= bytes;
  }
  return not_differentiable(out);
}

std::string_view file_type_of(DType t) {
  for (const FileType& f : kFileTypes)
    if (f.dtype == t && !f.convert) return f.name;
  fail(fmt::format("save_safetensors: the format has no type for {}", t));
}

// The order of the tensors' bytes: large types first, so that each begins at a multiple of its
// size. Readers that map the file need that.
std::vector<size_t> byte_order(const SafeTensors& content) {
  std::vector<size_t> order(content.tensors.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  auto size = [&](size_t i) { return item_size(content.tensors[i].second.dtype()); };
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return size(a) > size(b); });
  return order;
}

SafeTensorsHeader header_of(const SafeTensors& content, const std::vector<size_t>& order) {
  SafeTensorsHeader header{{}, content.metadata};
  std::unordered_set<std::string_view> names;
  for (const auto& [name, t] : content.tensors) {
    check(names.insert(name).second, "save_safetensors: two tensors are called '{}'", name);
    check(name != "__metadata__", "save_safetensors: '{}' is not a valid name for a tensor", name);
    header.entries.push_back({name, std::string(file_type_of(t.dtype())), {}, {}});
    header.entries.back().shape.assign(t.shape().begin(), t.shape().end());
  }
  int64_t at = 0;
  for (size_t i : order) {
    const Tensor& t = content.tensors[i].second;
    int64_t end = at + t.numel() * item_size(t.dtype());
    header.entries[i].offsets = {at, end};
    at = end;
  }
  return header;
}

}  // namespace

Tensor SafeTensors::find(const std::string& name) const {
  for (const auto& [n, t] : tensors)
    if (n == name) return t;
  return {};
}

namespace {

SafeTensors load_file(const std::string& path, int64_t most) {
  Reader file(path);
  int64_t data = 0;
  SafeTensorsHeader header = read_header(file, most, data);
  for (const SafeTensorsEntry& e : header.entries) check_entry(file, e, data);
  check_cover(file, header, data);
  SafeTensors out;
  out.metadata = std::move(header.metadata);
  out.tensors.reserve(header.entries.size());
  for (const SafeTensorsEntry& e : header.entries)
    out.tensors.emplace_back(e.name, read_tensor(file, e, data));
  return out;
}

// The index and the shards must agree on every tensor. It is an error if a tensor is in no shard,
// or not in the shard that the index names.
SafeTensors load_shards(const std::string& index, int64_t most) {
  std::map<std::string, std::string> places = detail::read_shard_index(index);
  std::set<std::string> files;
  for (const auto& [name, file] : places) files.insert(file);
  SafeTensors out;
  for (const std::string& file : files) {
    SafeTensors part = load_file(file, most - std::ssize(out.tensors));
    for (auto& [name, tensor] : part.tensors) {
      const auto place = places.find(name);
      check_io(place != places.end() && place->second == file,
               "load_safetensors: {}: it holds the tensor '{:.80}', but {} does not place it there",
               file, name, index);
      places.erase(place);
      out.tensors.emplace_back(name, std::move(tensor));
    }
    out.metadata.merge(part.metadata);
  }
  check_io(places.empty(), "load_safetensors: {}: {} has no tensor '{:.80}'", index,
           places.empty() ? "" : places.begin()->second,
           places.empty() ? "" : places.begin()->first);
  return out;
}

}  // namespace

SafeTensors load_safetensors(const std::string& path, const SafeTensorsLimits& limits) {
  if (!detail::is_sharded(path)) return load_file(path, limits.tensors);
  return load_shards(detail::shard_index(path), limits.tensors);
}

int64_t safetensors_bytes(const std::string& path) {
  if (!detail::is_sharded(path)) return Reader(path).size();
  std::set<std::string> files;
  for (const auto& [name, file] : detail::read_shard_index(detail::shard_index(path)))
    files.insert(file);
  int64_t bytes = 0;
  for (const std::string& file : files) bytes += Reader(file).size();
  return bytes;
}

void save_safetensors(const std::string& path, const SafeTensors& content,
                      const std::function<void()>& begun) {
  for (const auto& [name, t] : content.tensors)
    check(t.defined(), "save_safetensors: '{}' is undefined", name);
  std::vector<size_t> order = byte_order(content);
  std::string json = detail::format_safetensors_header(header_of(content, order));
  check(static_cast<int64_t>(json.size()) <= kMaxHeader,
        "save_safetensors: {} names need a header of {} bytes, over the format's limit of {}",
        content.tensors.size(), json.size(), kMaxHeader);
  AtomicFile file(path);
  if (begun) begun();
  uint64_t length = json.size();
  file.write(&length, 8);
  file.write(json);
  for (size_t i : order) {
    Tensor t = content.tensors[i].second.detach().contiguous();
    dispatch(t.dtype(), [&]<class T>() {
      file.write(t.data<T>(), t.numel() * static_cast<int64_t>(sizeof(T)));
    });
  }
  file.commit();
}

void write_file_atomically(const std::string& path, std::string_view bytes) {
  AtomicFile file(path);
  file.write(bytes);
  file.commit();
}

}  // namespace tern

// Reads safetensors files (one file or shards), with checks of sizes, offsets and shapes before any
// allocation, and writes them. safetensors_header.cpp parses the header.
#include "tern/core/io/safetensors.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "tern/core/io/atomic_file.h"
#include "tern/core/io/element_types.h"
#include "tern/core/io/file_kind.h"
#include "tern/core/io/foreign_file.h"
#include "tern/core/io/safetensors_header.h"
#include "tern/core/io/safetensors_shards.h"
#include "tern/core/ops/ops.h"

namespace tern {
namespace {

using detail::ElementType, detail::element_type_of, detail::find_element_type;
using detail::read_tensor;
using detail::SafeTensorsEntry;
using detail::SafeTensorsHeader;

// The reference implementation's limit; also prevents hostile allocations.
constexpr int64_t kMaxHeader = 100'000'000;

// Every error of the file names it.
RandomFile open_safetensors(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0 && errno == ENOENT)
    fail_io(fmt::format("load_safetensors: {}: {}{}", path, std::strerror(ENOENT),
                        detail::describe_other_weights(path)));
  return RandomFile(fd, "load_safetensors: " + path);
}

// Reads the length (8 bytes) and the JSON. Sets `data` to the beginning of the tensors' bytes.
SafeTensorsHeader read_header(const RandomFile& file, const std::string& path, int64_t most,
                              int64_t& data) {
  const std::string foreign = detail::describe_foreign_file(path, file.first_bytes(kFirstBytes));
  check_io(foreign.empty(), "{}: {}", file.path(), foreign);
  if (file.size() < 8)
    file.fail(0, fmt::format("the file has only {} bytes, too few for a header", file.size()));
  uint64_t length = 0;
  file.read(0, &length, 8);
  if (length > static_cast<uint64_t>(kMaxHeader))
    file.fail(
        0,
        fmt::format(
            "a header of {} bytes is over the limit of {}; this is probably not a safetensors file",
            length, kMaxHeader));
  data = 8 + static_cast<int64_t>(length);
  if (data > file.size())
    file.fail(
        0, fmt::format(
               "a header of {} bytes does not fit into the file of {} bytes; the file is truncated",
               length, file.size()));
  std::string json(length, '\0');
  file.read(8, json.data(), static_cast<int64_t>(length));
  std::string error;
  SafeTensorsHeader header = detail::parse_safetensors_header(json, error, most);
  if (!error.empty()) file.fail(8, error);
  return header;
}

// Compares type and shape with the number of bytes of the entry.
void check_entry(const RandomFile& file, const SafeTensorsEntry& e, int64_t data) {
  auto fail_entry = [&](const std::string& reason) {
    file.fail(data, fmt::format("tensor '{:.80}': {}", e.name, reason));
  };
  const ElementType* type = find_element_type(e.dtype);
  if (!type) fail_entry(fmt::format("unknown type '{:.20}'", e.dtype));
  int64_t begin = e.offsets[0], end = e.offsets[1], bytes = type->bytes;
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
void check_cover(const RandomFile& file, const SafeTensorsHeader& header, int64_t data) {
  std::vector<const SafeTensorsEntry*> order;
  for (const SafeTensorsEntry& e : header.entries) order.push_back(&e);
  std::sort(order.begin(), order.end(),
            [](const auto* a, const auto* b) { return a->offsets < b->offsets; });
  int64_t at = 0;
  for (const SafeTensorsEntry* e : order) {
    if (e->offsets[0] != at)
      file.fail(data + at,
                fmt::format("tensor '{:.80}' begins at {} instead of {}: the data has {}", e->name,
                            e->offsets[0], at, e->offsets[0] < at ? "an overlap" : "a hole"));
    at = e->offsets[1];
  }
  if (data + at != file.size())
    file.fail(data + at, fmt::format("{} bytes follow the last tensor", file.size() - data - at));
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
    const ElementType* type = element_type_of(t.dtype());
    check(type, "save_safetensors: the format has no type for {}", t.dtype());
    header.entries.push_back({name, std::string(type->name), {}, {}});
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

/// A file whose header was read and checked.
struct Shard {
  RandomFile file;
  int64_t data = 0;  ///< where the tensors' bytes begin
  SafeTensorsHeader header;

  Shard(const std::string& path, int64_t most) : file(open_safetensors(path)) {
    header = read_header(file, path, most, data);
    for (const SafeTensorsEntry& e : header.entries) check_entry(file, e, data);
    check_cover(file, header, data);
  }
};

/// Where a tensor is.
struct Place {
  const Shard* shard;
  const SafeTensorsEntry* entry;

  Shape shape() const { return Shape(entry->shape.begin(), entry->shape.end()); }
  Tensor load(const Shape& part, int64_t offset) const {
    return read_tensor(shard->file, shard->data + entry->offsets[0] + offset, part,
                       *find_element_type(entry->dtype));
  }
};

}  // namespace

struct SafeTensorsFile::Impl {
  std::deque<Shard> shards;
  std::unordered_map<std::string_view, Place> places;

  const Place& place(std::string_view name) const {
    const auto found = places.find(name);
    check_io(found != places.end(), "{}: there is no tensor '{:.80}'", shards[0].file.path(), name);
    return found->second;
  }
};

SafeTensorsFile::SafeTensorsFile(const std::string& path, const SafeTensorsLimits& limits)
    : impl_(std::make_unique<Impl>()) {
  auto open = [&](const std::string& file, int64_t most) {
    std::vector<std::string> names;
    for (const SafeTensorsEntry& e : impl_->shards.emplace_back(file, most).header.entries)
      names.push_back(e.name);
    return names;
  };
  if (detail::is_sharded(path))
    detail::open_shards(detail::shard_index(path), limits.tensors, open);
  else
    open(path, limits.tensors);
  for (const Shard& shard : impl_->shards)
    for (const SafeTensorsEntry& e : shard.header.entries) impl_->places[e.name] = {&shard, &e};
}
SafeTensorsFile::SafeTensorsFile(SafeTensorsFile&&) noexcept = default;
SafeTensorsFile& SafeTensorsFile::operator=(SafeTensorsFile&&) noexcept = default;
SafeTensorsFile::~SafeTensorsFile() = default;

std::vector<std::string> SafeTensorsFile::names() const {
  std::vector<std::string> names;
  for (const Shard& shard : impl_->shards)
    for (const SafeTensorsEntry& e : shard.header.entries) names.push_back(e.name);
  return names;
}

Tensor SafeTensorsFile::load(std::string_view name) const {
  const Place& place = impl_->place(name);
  return place.load(place.shape(), 0);
}

Shape SafeTensorsFile::shape(std::string_view name) const { return impl_->place(name).shape(); }

Tensor SafeTensorsFile::load_rows(std::string_view name, int64_t begin, int64_t end) const {
  const Place& place = impl_->place(name);
  Shape shape = place.shape();
  check(!shape.empty(), "SafeTensorsFile: '{:.80}' is a scalar and has no rows", name);
  check(0 <= begin && begin <= end && end <= shape[0],
        "SafeTensorsFile: rows {} to {} of '{:.80}', which has {}", begin, end, name, shape[0]);
  const std::vector<int64_t>& offsets = place.entry->offsets;
  const int64_t row = shape[0] == 0 ? 0 : (offsets[1] - offsets[0]) / shape[0];
  shape[0] = end - begin;
  return place.load(shape, begin * row);
}

std::map<std::string, std::string> SafeTensorsFile::metadata() const {
  std::map<std::string, std::string> out;
  for (const Shard& shard : impl_->shards)
    out.insert(shard.header.metadata.begin(), shard.header.metadata.end());
  return out;
}

SafeTensors load_safetensors(const std::string& path, const SafeTensorsLimits& limits) {
  const SafeTensorsFile file(path, limits);
  SafeTensors out{{}, file.metadata()};
  for (const std::string& name : file.names()) out.tensors.emplace_back(name, file.load(name));
  return out;
}

int64_t safetensors_bytes(const std::string& path) {
  if (!detail::is_sharded(path)) return open_safetensors(path).size();
  std::set<std::string> files;
  for (const auto& [name, file] : detail::read_shard_index(detail::shard_index(path)))
    files.insert(file);
  int64_t bytes = 0;
  for (const std::string& file : files) bytes += open_safetensors(file).size();
  return bytes;
}

void save_safetensors(const std::string& path, const SafeTensors& content) {
  for (const auto& [name, t] : content.tensors)
    check(t.defined(), "save_safetensors: '{}' is undefined", name);
  std::vector<size_t> order = byte_order(content);
  std::string json = detail::format_safetensors_header(header_of(content, order));
  check(static_cast<int64_t>(json.size()) <= kMaxHeader,
        "save_safetensors: {} names need a header of {} bytes, over the format's limit of {}",
        content.tensors.size(), json.size(), kMaxHeader);
  AtomicFile file(path);
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

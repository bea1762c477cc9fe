// Reads arrays in pieces, converts their elements to the types of tensors and undoes Fortran order.
// An npz file is a zip archive of such arrays.
#include "tern/data/loading/npy.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <set>

#include "tern/core/ops/ops.h"
#include "tern/core/tape/record.h"
#include "tern/data/loading/detail/npy_header.h"
#include "tern/data/loading/detail/zip.h"

namespace tern::datasets {
namespace {

using detail::NpyHeader;

constexpr int64_t kMaxNpz = int64_t{1} << 36;
constexpr int64_t kSmallNpz = int64_t{1} << 26;  // always allowed
constexpr std::string_view kNpyMagic = "\x93NUMPY";

// The bytes of one array from any source.
struct Source {
  int64_t size;
  std::function<void(void*, int64_t)> read;
  std::function<void(int64_t at, const std::string& what)> fail;  // throws
};

NpyHeader read_header(const Source& source) {
  unsigned char start[8], length[4] = {};
  if (source.size < 10) source.fail(0, "too short for an npy file");
  source.read(start, 8);
  if (std::memcmp(start, kNpyMagic.data(), kNpyMagic.size()) != 0)
    source.fail(0, "is not an npy file");
  if (start[6] < 1 || start[6] > 3)
    source.fail(6, fmt::format("npy version {} is not known; there are 1 to 3", start[6]));
  const int64_t width = start[6] == 1 ? 2 : 4;
  source.read(length, width);
  const int64_t count =
      length[0] | length[1] << 8 | int64_t{length[2]} << 16 | int64_t{length[3]} << 24;
  if (count > detail::kMaxNpyHeader || count > source.size - 8 - width)
    source.fail(
        8,
        fmt::format("the header claims {} bytes, which do not fit in the file or exceed the limit",
                    count));
  std::string text(static_cast<size_t>(count), '\0');
  source.read(text.data(), count);
  NpyHeader header = detail::parse_npy_header(
      text, [&](int64_t at, const std::string& what) { source.fail(8 + width + at, what); });
  header.size = 8 + width + count;
  return header;
}

Tensor read_array(const Source& source) {
  const NpyHeader h = read_header(source);
  const int64_t item = h.type->bytes, left = source.size - h.size;
  int64_t bytes = item;  // as NumPy, counts an empty axis as 1
  bool fits = true;
  for (int64_t size : h.shape)
    fits = fits && !__builtin_mul_overflow(bytes, std::max<int64_t>(size, 1), &bytes);
  if (!fits || (h.shape.contains(0) ? 0 : bytes) != left)
    source.fail(
        h.size,
        fmt::format("an array of shape {} with {} bytes per element does not fit its {} bytes",
                    h.shape, item, left));
  Shape stored = h.shape;
  if (h.fortran_order) std::reverse(stored.begin(), stored.end());
  Tensor x = tern::detail::read_tensor(source.read, h.swapped, stored, *h.type);
  if (!h.fortran_order || h.shape.size() < 2) return x;
  Dims order;
  for (int axis = h.shape.size() - 1; axis >= 0; --axis) order.push_back(axis);
  return permute(x, order).contiguous();
}

// A tensor as it is written: the header, and the elements in file order.
struct Written {
  std::string header;
  Tensor elements;

  Written(const Tensor& x, const NpyOptions& options) {
    check_defined("save_npy", x);
    Tensor t = x.detach();
    if (options.fortran_order && t.ndim() > 1) {
      Dims order;
      for (int axis = t.ndim() - 1; axis >= 0; --axis) order.push_back(axis);
      t = permute(t, order);
    }
    elements = t.contiguous();
    header = detail::make_npy_header(x.dtype(), x.shape(), options.fortran_order);
  }
  const void* data() const {
    return dispatch(elements.dtype(), [&]<class T>() -> const void* { return elements.data<T>(); });
  }
  int64_t bytes() const { return elements.numel() * item_size(elements.dtype()); }
  uint32_t crc() const {
    uLong crc = crc32_z(0, reinterpret_cast<const Bytef*>(header.data()), header.size());
    if (bytes() > 0)
      crc = crc32_z(crc, static_cast<const Bytef*>(data()), static_cast<size_t>(bytes()));
    return static_cast<uint32_t>(crc);
  }
};

}  // namespace

Tensor load_npy(const std::string& path) {
  const RandomFile file(path);
  int64_t at = 0;
  return read_array({file.size(),
                     [&](void* to, int64_t count) {
                       file.read(at, to, count);
                       at += count;
                     },
                     [&](int64_t where, const std::string& what) { file.fail(where, what); }});
}

void save_npy(const std::string& path, const Tensor& x, const NpyOptions& options) {
  const Written written(x, options);
  AtomicFile file(path);
  file.write(written.header);
  if (written.bytes() > 0) file.write(written.data(), written.bytes());
  file.commit();
}

NamedTensors load_npz(const std::string& path, const NpzLimits& limits) {
  check(limits.ratio >= 1, "load_npz: the ratio is {}; at least 1", limits.ratio);
  const RandomFile file(path);
  const int64_t ratio = std::min(limits.ratio, kMaxNpz / std::max<int64_t>(file.size(), 1) + 1);
  const int64_t most = std::clamp(ratio * file.size(), kSmallNpz, kMaxNpz);
  NamedTensors out;
  std::set<std::string> names;
  int64_t total = 0;
  for (const ZipEntry& e : read_zip_directory(file)) {
    if (!e.name.ends_with(".npy"))
      file.fail(e.header, fmt::format("\"{}\" is not an npy file", e.name));
    if (!names.insert(e.name).second)
      file.fail(e.header, fmt::format("the archive has \"{}\" twice", e.name));
    total += std::min(e.size, most + 1);
    if (total > most)
      file.fail(e.header, fmt::format("the arrays take more than {} bytes, but the file has {}{}",
                                      most, file.size(),
                                      most < kMaxNpz ? "; NpzLimits::ratio can allow more" : ""));
    detail::ZipMember member(file, e);
    Tensor x = read_array(
        {e.size, [&](void* to, int64_t n) { member.read_exactly(to, n); },
         [&](int64_t at, const std::string& what) {
           file.fail(e.header, fmt::format("\"{}\": {} (at byte {} of it)", e.name, what, at));
         }});
    out.emplace_back(e.name.substr(0, e.name.size() - 4), std::move(x));
  }
  return out;
}

void save_npz(const std::string& path, const NamedTensors& arrays, const NpyOptions& options) {
  std::set<std::string> names;
  for (const auto& entry : arrays) {
    const std::string& name = entry.first;
    const bool plain =
        !name.empty() && name.size() < 0xff00 && std::all_of(name.begin(), name.end(), [](char c) {
          return static_cast<unsigned char>(c) >= 0x20 && c != 0x7f;
        });
    check(plain, "save_npz: '{}' cannot be the name of an array", name);
    check(names.insert(name).second, "save_npz: two arrays are called '{}'", name);
  }
  detail::ZipWriter zip(path);
  for (const auto& [name, x] : arrays) {
    const Written written(x, options);
    zip.begin(name + ".npy", std::ssize(written.header) + written.bytes(), written.crc());
    zip.write(written.header.data(), std::ssize(written.header));
    if (written.bytes() > 0) zip.write(written.data(), written.bytes());
  }
  zip.commit();
}

}  // namespace tern::datasets

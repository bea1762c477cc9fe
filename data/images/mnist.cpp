// Reads idx files, plain or gzip: checks sizes before it allocates, and converts big-endian
// numbers.
#include "tern/data/images/mnist.h"

#include <algorithm>
#include <array>
#include <bit>
#include <filesystem>

#include "tern/core/ops/ops.h"
#include "tern/core/tape/record.h"
#include "tern/data/loading/gzip.h"

namespace fs = std::filesystem;

namespace tern::datasets {
namespace {

constexpr int64_t kMnistBuffer = 64 * 1024;

uint32_t big_endian(const unsigned char* p) {
  return uint32_t{p[0]} << 24 | uint32_t{p[1]} << 16 | uint32_t{p[2]} << 8 | uint32_t{p[3]};
}

// The number of bytes that follow in the file. Unpacks a gzip file once to count them, because the
// sizes in the header may be false.
int64_t bytes_left(const ByteReader& file) {
  if (const auto left = file.remaining()) return *left;
  ByteReader counter(file.path());
  counter.drain();
  return counter.position() - file.position();
}

// Reads the shape after the file's first four bytes and checks that it fits the file.
Shape read_shape(ByteReader& file, int axes, int64_t item) {
  Shape shape;
  for (int i = 0; i < axes; ++i) {
    std::array<unsigned char, 4> size;
    file.read_exactly(size.data(), 4);
    shape.push_back(big_endian(size.data()));
  }
  int64_t bytes = item;
  bool fits = true;
  for (int64_t size : shape)
    fits = fits && !__builtin_mul_overflow(bytes, std::max<int64_t>(size, 1), &bytes);
  if (!fits || (!shape.contains(0) && bytes > bytes_left(file)))
    file.fail(fmt::format("an array of shape {} with {} bytes per element does not fit in the file",
                          shape, item));
  return shape;
}

template <class From, class To>
void read_elements(ByteReader& file, const Fresh& out) {
  To* to = out.data<To>();
  std::vector<unsigned char> buffer(kMnistBuffer);
  constexpr auto kItem = static_cast<int64_t>(sizeof(From));
  for (int64_t left = out.numel(); left > 0;) {
    const int64_t count = std::min(left, kMnistBuffer / kItem);
    file.read_exactly(buffer.data(), count * kItem);
    for (int64_t i = 0; i < count; ++i) {
      std::array<unsigned char, sizeof(From)> bytes;
      const unsigned char* from = buffer.data() + (i + 1) * kItem;
      for (unsigned char& byte : bytes) byte = *--from;
      *to++ = static_cast<To>(std::bit_cast<From>(bytes));
    }
    left -= count;
  }
}

// A type of elements by its code in the file.
struct IdxType {
  unsigned char code;
  int64_t bytes;
  DType dtype;
  void (*read)(ByteReader& file, const Fresh& out);
};
constexpr IdxType kIdxTypes[] = {
    {0x08, 1, DType::u8,
     [](ByteReader& f, const Fresh& out) { f.read_exactly(out.data<uint8_t>(), out.numel()); }},
    {0x09, 1, DType::i64, read_elements<int8_t, int64_t>},
    {0x0b, 2, DType::i64, read_elements<int16_t, int64_t>},
    {0x0c, 4, DType::i64, read_elements<int32_t, int64_t>},
    {0x0d, 4, DType::f32, read_elements<float, float>},
    {0x0e, 8, DType::f64, read_elements<double, double>}};

std::string find_file(const fs::path& folder, const std::string& name) {
  std::string dotted = name;
  dotted[name.rfind("-idx")] = '.';
  std::error_code error;
  for (const std::string& candidate : {name, name + ".gz", dotted, dotted + ".gz"})
    if (fs::exists(folder / candidate, error)) return (folder / candidate).string();
  fail_io(fmt::format("{}: neither {} nor {}.gz is in it", folder.string(), name, name));
}

void load_set(const fs::path& folder, const std::string& name, Tensor& images, Tensor& labels) {
  const std::string of_images = find_file(folder, name + "-images-idx3-ubyte");
  const std::string of_labels = find_file(folder, name + "-labels-idx1-ubyte");
  images = load_idx(of_images);
  check_io(images.ndim() == 3 && images.dtype() == DType::u8,
           "{}: pictures are a (N, height, width) array of bytes, this is {} {}", of_images,
           images.dtype(), images.shape());
  labels = load_idx(of_labels);
  check_io(labels.shape() == Shape{images.size(0)} && labels.dtype() == DType::u8,
           "{}: labels are bytes, one for each of the {} pictures, these are {} {}", of_labels,
           images.size(0), labels.dtype(), labels.shape());
  labels = labels.to(DType::i64);
}

}  // namespace

Tensor load_idx(const std::string& path) {
  ByteReader file(path);
  std::array<unsigned char, 4> magic;
  file.read_exactly(magic.data(), 4);
  const auto* const type = std::ranges::find(kIdxTypes, magic[2], &IdxType::code);
  if (magic[0] != 0 || magic[1] != 0 || type == std::end(kIdxTypes))
    file.fail(fmt::format("is not an idx file: it begins with {:#04x} {:#04x} {:#04x}", magic[0],
                          magic[1], magic[2]));
  if (magic[3] > kMaxDims)
    file.fail(fmt::format("has {} axes; at most {} are allowed", magic[3], kMaxDims));
  Fresh out(read_shape(file, magic[3], type->bytes), type->dtype);
  type->read(file, out);
  unsigned char more = 0;
  if (file.read(&more, 1) > 0) file.fail("something follows the array");
  return not_differentiable(out);
}

Mnist load_mnist(const std::string& folder) {
  std::error_code error;
  check_io(fs::is_directory(folder, error), "{}: no such folder", folder);
  Mnist set;
  load_set(folder, "train", set.train_images, set.train_labels);
  load_set(folder, "t10k", set.test_images, set.test_labels);
  return set;
}

}  // namespace tern::datasets

// Reads idx files, plain or gzip: checks sizes before it allocates, and converts big-endian
// numbers.
#include "tern/data/images/mnist.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>

#include "tern/core/io/element_types.h"
#include "tern/core/ops/ops.h"
#include "tern/data/loading/gzip.h"

namespace fs = std::filesystem;

namespace tern::datasets {
namespace {

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

// Codes of types in the file, and those types in files of weights.
struct IdxType {
  unsigned char code;
  std::string_view type;
};
constexpr IdxType kIdxTypes[] = {{0x08, "U8"},  {0x09, "I8"},  {0x0b, "I16"},
                                 {0x0c, "I32"}, {0x0d, "F32"}, {0x0e, "F64"}};

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
  const auto* const row = std::ranges::find(kIdxTypes, magic[2], &IdxType::code);
  if (magic[0] != 0 || magic[1] != 0 || row == std::end(kIdxTypes))
    file.fail(fmt::format("is not an idx file: it begins with {:#04x} {:#04x} {:#04x}", magic[0],
                          magic[1], magic[2]));
  if (magic[3] > kMaxDims)
    file.fail(fmt::format("has {} axes; at most {} are allowed", magic[3], kMaxDims));
  const tern::detail::ElementType& type = *tern::detail::find_element_type(row->type);
  Tensor out =
      tern::detail::read_tensor([&](void* to, int64_t count) { file.read_exactly(to, count); },
                                type.bytes > 1, read_shape(file, magic[3], type.bytes), type);
  unsigned char more = 0;
  if (file.read(&more, 1) > 0) file.fail("something follows the array");
  return out;
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

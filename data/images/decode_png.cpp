// Decodes and encodes PNG by libpng, which reports errors by longjmp: functions between setjmp and
// a possible jump must not have objects with destructors.
#include <png.h>

#include <cstdio>
#include <cstring>
#include <utility>

#include "tern/core/base/error.h"
#include "tern/core/io/safetensors.h"
#include "tern/data/images/detail/decode.h"

namespace tern::datasets {
namespace {

constexpr int64_t kPngPixelsPerByte = 1032 * 8;  // deflate's best ratio, for 1-bit pixels
// Chunks that change no pixel. libpng would unpack and keep up to a thousand of them, 16 MiB each.
constexpr png_byte kSkippedChunks[] = "tEXt\0zTXt\0iTXt\0sPLT";

struct Png {
  png_structp png = nullptr;
  png_infop info = nullptr;
  std::span<const uint8_t> bytes = {};
  size_t at = 0;
  bool ended = false;  // libpng asked for more bytes than there are
  char message[256] = {};

  Png() = default;
  Png(const Png&) = delete;
  Png& operator=(const Png&) = delete;
  ~Png() { png_destroy_read_struct(&png, &info, nullptr); }
};

void on_error(png_structp png, png_const_charp message) {
  auto* self = static_cast<Png*>(png_get_error_ptr(png));
  std::snprintf(self->message, sizeof self->message, "%s", message);
  png_longjmp(png, 1);
}

void on_warning(png_structp, png_const_charp) {}

void on_read(png_structp png, png_bytep to, size_t count) {
  auto* self = static_cast<Png*>(png_get_io_ptr(png));
  self->ended = count > self->bytes.size() - self->at;
  if (self->ended) png_error(png, "the file ends here");
  std::memcpy(to, self->bytes.data() + self->at, count);
  self->at += count;
}

// Reads up to the pixels, without allocating memory for them.
bool read_header(Png* self) {
  if (setjmp(png_jmpbuf(self->png))) return false;
  png_set_read_fn(self->png, self, on_read);
  png_set_user_limits(self->png, 1 << 30, 1 << 30);  // allocate_picture limits the pixels
  png_set_chunk_malloc_max(self->png, 1 << 24);
  png_set_keep_unknown_chunks(self->png, PNG_HANDLE_CHUNK_NEVER, kSkippedChunks,
                              static_cast<int>(sizeof kSkippedChunks / 5));
  // Some writers claim a smaller window than they use, so this takes the largest, 32 kB.
  png_set_option(self->png, PNG_MAXIMUM_INFLATE_WINDOW, PNG_OPTION_ON);
  png_read_info(self->png, self->info);
  return true;
}

bool read_rows(Png* self, png_bytepp rows) {
  if (setjmp(png_jmpbuf(self->png))) return false;
  png_set_strip_16(self->png);
  png_set_palette_to_rgb(self->png);
  png_set_expand_gray_1_2_4_to_8(self->png);
  png_set_strip_alpha(self->png);
  png_set_gray_to_rgb(self->png);
  png_set_interlace_handling(self->png);
  png_read_update_info(self->png, self->info);
  if (png_get_rowbytes(self->png, self->info) / 3 != png_get_image_width(self->png, self->info))
    png_error(self->png, "cannot be turned into RGB");
  png_read_image(self->png, rows);
  return true;
}

// Reads what follows the pixels: checksums, and maybe EXIF data. A file that ends there has lost
// no pixels.
bool read_end(Png* self) {
  if (setjmp(png_jmpbuf(self->png))) return self->ended;
  png_read_end(self->png, self->info);
  return true;
}

int orientation_of(const Png& self) {
  png_uint_32 count = 0;
  png_bytep exif = nullptr;
  if (!png_get_eXIf_1(self.png, self.info, &count, &exif)) return 1;
  return detail::exif_orientation({exif, count});
}

// Writes the picture as PNG to `to`. Returns false with a message in image->message.
bool to_memory(png_image* image, void* to, png_alloc_size_t* size, const Picture& p) {
  return png_image_write_to_memory(image, to, size, 0, p.rgb.data(), 0, nullptr) != 0;
}

}  // namespace

Picture detail::decode_png(std::span<const uint8_t> bytes, const std::string& name,
                           const DecodeOptions& options) {
  Png self;
  self.bytes = bytes;
  self.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &self, on_error, on_warning);
  self.info = self.png ? png_create_info_struct(self.png) : nullptr;
  check_io(self.info != nullptr, "{}: libpng has no memory", name);
  auto damaged = [&] {
    fail_io(fmt::format("{}: damaged PNG: {} (at byte {})", name, self.message, self.at));
  };
  if (!read_header(&self)) damaged();
  const int64_t height = png_get_image_height(self.png, self.info);
  const int64_t width = png_get_image_width(self.png, self.info);
  Picture picture =
      allocate_picture(name, height, width, std::ssize(bytes), kPngPixelsPerByte, options);
  std::vector<png_bytep> rows(static_cast<size_t>(height));
  for (int64_t y = 0; y < height; ++y) rows[static_cast<size_t>(y)] = picture.row(y);
  if (!read_rows(&self, rows.data()) || !read_end(&self)) damaged();
  return options.upright ? turned(std::move(picture), orientation_of(self)) : picture;
}

std::string encode_png(const Picture& p) {
  detail::check_picture("png", p);
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(p.width);
  image.height = static_cast<png_uint_32>(p.height);
  image.format = PNG_FORMAT_RGB;
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(image);
  std::string bytes(size, '\0');
  check(to_memory(&image, bytes.data(), &size, p), "png: {}", image.message);
  bytes.resize(size);
  return bytes;
}

void save_png(const std::string& path, const Picture& p) {
  write_file_atomically(path, encode_png(p));
}

}  // namespace tern::datasets

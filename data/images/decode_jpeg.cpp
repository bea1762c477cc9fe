// libjpeg-turbo, which reports errors by longjmp: functions between setjmp and a possible jump must
// not have objects with destructors.
#include <setjmp.h>
#include <stdio.h>
// Needs stdio.h before it.
#include <jpeglib.h>
//
#include <jerror.h>

#include <array>
#include <cstring>

#include "tern/core/base/error.h"
#include "tern/data/images/detail/decode.h"

namespace tern::datasets {
namespace {

constexpr int64_t kJpegPixelsPerByte = 2048;  // 64 pixels per bit, with some reserve
constexpr int kMaxScans = 500;                // real files have about ten

struct Jpeg {
  jpeg_decompress_struct info = {};
  jpeg_error_mgr errors = {};
  jpeg_progress_mgr progress = {};
  jmp_buf on_error = {};
  char message[JMSG_LENGTH_MAX] = {};
  bool made = false;

  Jpeg() = default;
  Jpeg(const Jpeg&) = delete;
  Jpeg& operator=(const Jpeg&) = delete;
  ~Jpeg() {
    if (made) jpeg_destroy_decompress(&info);
  }
};

Jpeg& self_of(j_common_ptr info) { return *static_cast<Jpeg*>(info->client_data); }

void give_up(j_common_ptr info) {
  Jpeg& self = self_of(info);
  info->err->format_message(info, self.message);
  longjmp(self.on_error, 1);
}

// Warnings mean damage that libjpeg would fill with grey, except for extra bytes between markers.
void on_message(j_common_ptr info, int level) {
  const int code = info->err->msg_code;
  if (level < 0 && code != JWRN_EXTRANEOUS_DATA && code != JWRN_ADOBE_XFORM) give_up(info);
}

void on_progress(j_common_ptr info) {
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number <= kMaxScans) return;
  Jpeg& self = self_of(info);
  snprintf(self.message, sizeof self.message, "more than %d scans", kMaxScans);
  longjmp(self.on_error, 1);
}

bool read_header(Jpeg* self, const uint8_t* bytes, size_t count) {
  if (setjmp(self->on_error)) return false;
  self->info.err = jpeg_std_error(&self->errors);
  self->errors.error_exit = give_up;
  self->errors.emit_message = on_message;
  self->info.client_data = self;
  jpeg_create_decompress(&self->info);
  self->made = true;
  self->progress.progress_monitor = on_progress;
  self->info.progress = &self->progress;
  jpeg_mem_src(&self->info, bytes, static_cast<unsigned long>(count));  // NOLINT: libjpeg's type
  jpeg_read_header(&self->info, TRUE);
  const bool inks =
      self->info.jpeg_color_space == JCS_CMYK || self->info.jpeg_color_space == JCS_YCCK;
  self->info.out_color_space = inks ? JCS_CMYK : JCS_RGB;
  return true;
}

// Rows of 3 or 4 bytes per pixel, `stride` bytes apart.
bool read_rows(Jpeg* self, uint8_t* to, size_t stride) {
  if (setjmp(self->on_error)) return false;
  jpeg_start_decompress(&self->info);
  while (self->info.output_scanline < self->info.output_height) {
    JSAMPROW row = to + self->info.output_scanline * stride;
    jpeg_read_scanlines(&self->info, &row, 1);
  }
  jpeg_finish_decompress(&self->info);
  return true;
}

// Pillow's conversion from CMYK: 255 - k minus the ink's share of it. Adobe stores inks inverted.
void from_inks(const uint8_t* cmyk, bool inverted, Picture& p) {
  const int flip = inverted ? 255 : 0;
  for (int64_t i = 0; i < p.height * p.width; ++i) {
    const int light = 255 - (cmyk[4 * i + 3] ^ flip);
    for (int c = 0; c < 3; ++c) {
      const int product = (cmyk[4 * i + c] ^ flip) * light + 128;
      p.rgb[static_cast<size_t>(3 * i + c)] =
          static_cast<uint8_t>(light - (((product >> 8) + product) >> 8));
    }
  }
}

}  // namespace

Picture detail::decode_jpeg(std::span<const uint8_t> bytes, const std::string& name,
                            const DecodeOptions& options) {
  Jpeg self;
  auto damaged = [&] {
    const size_t left = self.info.src ? self.info.src->bytes_in_buffer : bytes.size();
    fail_io(fmt::format("{}: damaged JPEG: {} (at byte {})", name, self.message,
                        bytes.size() - std::min(left, bytes.size())));
  };
  if (!read_header(&self, bytes.data(), bytes.size())) damaged();
  Picture picture = allocate_picture(name, self.info.image_height, self.info.image_width,
                                     std::ssize(bytes), kJpegPixelsPerByte, options);
  if (self.info.out_color_space == JCS_RGB) {
    if (!read_rows(&self, picture.rgb.data(), static_cast<size_t>(3 * picture.width))) damaged();
    return picture;
  }
  std::vector<uint8_t> inks(static_cast<size_t>(4 * picture.height * picture.width));
  if (!read_rows(&self, inks.data(), static_cast<size_t>(4 * picture.width))) damaged();
  from_inks(inks.data(), self.info.saw_Adobe_marker != 0, picture);
  return picture;
}

}  // namespace tern::datasets

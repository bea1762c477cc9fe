// Decodes JPEG by libjpeg-turbo, which reports errors by longjmp: functions between setjmp and a
// possible jump must not have objects with destructors.
#include <setjmp.h>
#include <stdio.h>
// jpeglib.h needs stdio.h before it.
#include <jpeglib.h>
//
#include <jerror.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "tern/core/base/error.h"
#include "tern/data/images/detail/decode.h"

namespace tern::datasets {
namespace {

constexpr int64_t kJpegPixelsPerByte = 2048;  // 64 pixels per bit, with some reserve
constexpr int kMaxScans = 500;                // real files have about ten
constexpr int kExif = JPEG_APP0 + 1;          // the marker of EXIF data

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

// After these warnings libjpeg fills pixels with grey: their data are damaged or missing. Other
// warnings are about headers (a version, or a scan that a baseline file cannot have, as Samsung's
// phones write it), bytes between markers, and restart markers out of order.
bool costs_pixels(int warning) {
  return warning == JWRN_HUFF_BAD_CODE || warning == JWRN_ARITH_BAD_CODE ||
         warning == JWRN_HIT_MARKER || warning == JWRN_JPEG_EOF;
}

void on_message(j_common_ptr info, int level) {
  if (level < 0 && costs_pixels(info->err->msg_code)) give_up(info);
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
  jpeg_save_markers(&self->info, kExif, 0xffff);
  jpeg_read_header(&self->info, TRUE);
  const bool inks =
      self->info.jpeg_color_space == JCS_CMYK || self->info.jpeg_color_space == JCS_YCCK;
  self->info.out_color_space = inks ? JCS_CMYK : JCS_RGB;
  return true;
}

// Writes rows of 3 or 4 bytes per pixel, `stride` bytes apart.
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

// Pillow's conversion from CMYK: 255 - k minus the ink's share of it. Adobe
// stores inks inverted; Pillow and browsers expect that of all files.
void from_inks(const uint8_t* cmyk, Picture& p) {
  for (int64_t i = 0; i < p.height * p.width; ++i) {
    const int light = cmyk[4 * i + 3];
    for (int c = 0; c < 3; ++c) {
      const int product = (255 - cmyk[4 * i + c]) * light + 128;
      p.rgb[static_cast<size_t>(3 * i + c)] =
          static_cast<uint8_t>(light - (((product >> 8) + product) >> 8));
    }
  }
}

int orientation_of(const Jpeg& self) {
  constexpr uint8_t kName[] = {'E', 'x', 'i', 'f', 0, 0};
  for (auto* m = self.info.marker_list; m; m = m->next)
    if (m->marker == kExif && m->data_length > sizeof kName &&
        std::equal(std::begin(kName), std::end(kName), m->data))
      return detail::exif_orientation({m->data, m->data_length});
  return 1;
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
  const int orientation = options.upright ? orientation_of(self) : 1;
  if (self.info.out_color_space == JCS_RGB) {
    if (!read_rows(&self, picture.rgb.data(), static_cast<size_t>(3 * picture.width))) damaged();
  } else {
    std::vector<uint8_t> inks(static_cast<size_t>(4 * picture.height * picture.width));
    if (!read_rows(&self, inks.data(), static_cast<size_t>(4 * picture.width))) damaged();
    from_inks(inks.data(), picture);
  }
  return turned(std::move(picture), orientation);
}

}  // namespace tern::datasets

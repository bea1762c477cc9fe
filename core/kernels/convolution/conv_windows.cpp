// Copies the parts of pictures that windows read into memory with zeros around them, and packs rows
// and columns of the window matrix from there.
#include "tern/core/kernels/convolution/conv_windows.h"

#include <bit>
#include <type_traits>

#include "tern/core/base/ceil_div.h"
#include "tern/core/base/simd.h"
#include "tern/core/kernels/bf16/bf16_elements.h"
#include "tern/core/kernels/vectors.h"

namespace tern::kernels {
namespace {

constexpr int64_t kSlack = 32;  // copies read whole vectors

/// Whether a tap of any output reads padded coordinate `at` along an axis.
bool is_read(int64_t at, int64_t kernel, int64_t stride, int64_t dilation) {
  for (int64_t k = 0; k < kernel; ++k)
    if ((at - k * dilation) % stride == 0) return true;
  return false;
}

template <class T>
[[gnu::always_inline]] inline void load_wide(Vector8& v, const T* from) {
  for (int i = 0; i < 8; ++i) v[i] = widened(from[i]);
}
template <>
[[gnu::always_inline]] inline void load_wide(Vector8& v, const float* from) {
  load(v, from);
}

template <class T>
void fetch(const T* from, int64_t count) {
  constexpr int64_t kLine = 64 / sizeof(T);
  for (int64_t i = 0; i < count; i += kLine) __builtin_prefetch(from + i);
}

/// Elements 0, 2, ..., 14 of `from`. Reads no element after them.
[[gnu::always_inline]] inline void copy_every_other(const float* from, float* to) {
  Vector8 low, high;
  load(low, from);
  load(high, from + 7);
  store(to, __builtin_shufflevector(low, high, 0, 2, 4, 6, 9, 11, 13, 15));
}

/// to[i] = from[2 * i] for begin <= i < end. Reads no element after from[2 * end - 2].
[[gnu::always_inline]] inline void take_every_other(const float* from, float* to, int64_t begin,
                                                    int64_t end) {
  auto eight = [=](int64_t i) { copy_every_other(from + 2 * i, to + i); };
  int64_t i = begin;
  for (; i + 8 <= end; i += 8) eight(i);
  if (i < end && end - begin >= 8) return eight(end - 8);
  for (; i < end; ++i) to[i] = from[2 * i];
}
[[gnu::always_inline]] inline void take_every_other(const Bf16* from, float* to, int64_t begin,
                                                    int64_t end) {
  for (int64_t i = begin; i < end; ++i) to[i] = widened(from[2 * i]);
}

/// to[j * stride + i] = from[i * step + j] for i < rows and j < columns.
template <class T>
[[gnu::always_inline]] inline void turn(const T* from, int64_t step, int64_t rows, int64_t columns,
                                        float* to, int64_t stride) {
  int64_t i = 0;
  for (; i + 8 <= rows; i += 8) {
    int64_t j = 0;
    for (; j + 8 <= columns; j += 8) {
      Vector8 x[8];
#pragma GCC unroll 8
      for (int k = 0; k < 8; ++k) load_wide(x[k], from + (i + k) * step + j);
      transpose(x);
#pragma GCC unroll 8
      for (int k = 0; k < 8; ++k) store(to + (j + k) * stride + i, x[k]);
    }
    for (; j < columns; ++j)
      for (int64_t k = 0; k < 8; ++k) to[j * stride + i + k] = widened(from[(i + k) * step + j]);
  }
  for (; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) to[j * stride + i] = widened(from[i * step + j]);
}

/// to[i] = from[i] for i < count: reads and writes no other elements. The last vector overlaps.
template <class T>
[[gnu::always_inline]] inline void copy_row(const T* from, float* to, int64_t count) {
  auto eight = [=](int64_t i) {
    Vector8 x{};  // without {} g++ warns at -O2
    load_wide(x, from + i);
    store(to + i, x);
  };
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) eight(i);
  if (i < count && count >= 8) return eight(count - 8);
  for (; i < count; ++i) to[i] = widened(from[i]);
}

/// to[i] = a word of bfloat16 numbers for begin <= i < end: upper[i * step] and lower[i * step], or
/// 0 for those that the masks leave out.
template <class T>
[[gnu::always_inline]] inline void join(const T* upper, const T* lower, uint32_t upper_mask,
                                        uint32_t lower_mask, float* to, int64_t begin, int64_t end,
                                        int64_t step) {
  auto joined = [=](auto high, auto low) {
    const uint32_t u = std::bit_cast<uint32_t>(as_factor(high));
    const uint32_t l = std::bit_cast<uint32_t>(as_factor(low));
    return std::bit_cast<float>((u & upper_mask) | (l >> 16 & lower_mask));
  };
  auto word = [=](int64_t i) { to[i] = joined(upper[i * step], lower[i * step]); };
  auto words = [=]<int kCount>(std::integral_constant<int, kCount>, int64_t i) {
    for (int64_t j = i; j < i + kCount; ++j) word(j);
  };
  // Whole vectors where columns are neighbours. The last one overlaps.
  constexpr std::integral_constant<int, 16> k16;
  constexpr std::integral_constant<int, 8> k8;
  int64_t i = begin;
  if (step == 1) {
    for (; i + 16 <= end; i += 16) words(k16, i);
    if (i + 8 <= end) {
      words(k8, i);
      i += 8;
    }
    if (i < end && end - begin >= 8) {
      words(k8, end - 8);
      i = end;
    }
  }
  if constexpr (std::is_same_v<T, float>)
    for (; step == 2 && i + 8 <= end; i += 8) {
      alignas(32) float u[8], l[8];
      copy_every_other(upper + 2 * i, u);
      copy_every_other(lower + 2 * i, l);
      for (int j = 0; j < 8; ++j) to[i + j] = joined(u[j], l[j]);
    }
  for (; i < end; ++i) word(i);
}

/// Copies `count` numbers in whole vectors. Reads and writes up to 7 numbers more.
[[gnu::always_inline]] inline void copy_vectors(const float* from, float* to, int64_t count) {
  for (int64_t j = 0; j < count; j += 8) {
    Vector8 x;
    load(x, from + j);
    store(to + j, x);
  }
}

template <int kCount>
[[gnu::always_inline]] inline void copy_exactly(const float* from, float* to) {
  __builtin_memcpy(to, from, kCount * sizeof(float));
}

}  // namespace

int64_t Windows::feature_of(int64_t column) const {
  const int64_t block = column / (kChannels * c_.taps()), rest = column % (kChannels * c_.taps());
  const int64_t tap = rest / channels_of(block), channel = rest % channels_of(block);
  return (block * kChannels + channel) * c_.taps() + tap;
}

Windows::Part::Part(const Windows& w, int64_t first_row, int64_t rows, int64_t first_column,
                    int64_t columns, WordOrder words)
    : c_(w.c_),
      w_(w),
      words_(words),
      planes_(w.order_ != Order::pixels),
      in_place_(reads_in_place()),
      first_row_(first_row),
      rows_(rows),
      pictures_((planes_ ? (first_column + columns - 1) : (first_row + rows - 1)) / c_.out_plane() -
                (planes_ ? first_column : first_row) / c_.out_plane() + 1),
      picture_(pictures_),
      place_(words == WordOrder::none ? rows : ceil_div(rows, kBf16Group) * kBf16Group / 2),
      held_([&] {
        // The channels that are read, in whole blocks.
        const int64_t together = !planes_ ? kChannels : w.quads() ? 4 : 1;
        const int64_t from = planes_ ? first_row : first_column;
        const int64_t last = from + (planes_ ? rows : columns) - 1;
        const int64_t first = from / (together * c_.taps()) * together;
        const int64_t end = (last / (together * c_.taps()) + 1) * together;
        first_channel_ = first;
        channels_ = std::min(end, c_.in_group()) - first;
        planes_held_ = words == WordOrder::none ? end - first : (end - first) / 2;
        return planes_ ? plan(first_column, columns) : plan(first_row, rows);
      }()) {
  words == WordOrder::none ? set_places() : set_word_places();
  const Factor x =
      w.x_.at((first_picture_ * c_.in + w.first_channel_ + first_channel_) * c_.plane());
  data_ = in_place_ ? static_cast<const float*>(x.data) : held_.data();
  if (!in_place_) x.visit([&](auto from) { hold(from); });
  if (w.rounded_)
    simd([to = held_.data(), n = pictures_ * picture_size_] {
      for (int64_t i = 0; i < n; ++i) to[i] = as_factor(to[i]);
    });
}

/// Whether no window reaches beyond a picture, and runs of columns are whole vectors, so that
/// copies read nothing after them.
bool Windows::Part::reads_in_place() const {
  const Conv::Sizes ones{1, 1, 1};
  if (w_.order_ != Order::planes || w_.x_.bf16 || w_.rounded_ || c_.stride != ones) return false;
  for (size_t a = 0; a < 3; ++a)
    if (c_.padding[a] != 0 ||
        c_.out_size[a] - 1 + (c_.kernel[a] - 1) * c_.dilation[a] >= c_.size[a])
      return false;
  return (c_.out_size == c_.size ? c_.plane() : c_.out_width()) % 8 == 0;
}

/// Decides which elements are held and where. Returns how many numbers that takes.
int64_t Windows::Part::plan(int64_t first_output, int64_t outputs) {
  const auto& [stride_d, stride_h, stride_w] = c_.stride;
  const int64_t depth_reach = (c_.kernel[0] - 1) * c_.dilation[0] + 1;
  const int64_t height_reach = (c_.kernel[1] - 1) * c_.dilation[1] + 1;
  const int64_t width_reach = (c_.kernel[2] - 1) * c_.dilation[2] + 1;
  const int64_t plane = c_.out_plane(), heights = c_.out_size[1], width = c_.out_width();
  first_picture_ = first_output / plane;
  if (in_place_) {
    row_ = c_.width();
    depth_ = c_.size[1] * row_;
    plane_ = phase_ = c_.plane();
    picture_size_ = c_.in * plane_;
    for (int64_t i = 0; i < pictures_; ++i)
      picture_.data()[i] = {0, 0, c_.size[0], c_.size[1], i * picture_size_};
    return 0;
  }
  int64_t most_depths = 0, most_heights = 0;
  for (int64_t i = 0; i < pictures_; ++i) {
    const int64_t start = (first_picture_ + i) * plane;
    const int64_t first = std::max<int64_t>(first_output - start, 0) / width;
    const int64_t last = (std::min(first_output + outputs - start, plane) - 1) / width;
    const int64_t d0 = first / heights, d1 = last / heights;
    const int64_t h0 = d0 == d1 ? first % heights : 0, h1 = d0 == d1 ? last % heights : heights - 1;
    Picture& p = picture_.data()[i];
    p.depth = d0 * stride_d;
    p.depths = (d1 - d0) * stride_d + depth_reach;
    p.height = h0 * stride_h;
    p.heights = (h1 - h0) * stride_h + height_reach;
    most_depths = std::max(most_depths, p.depths);
    most_heights = std::max(most_heights, p.heights);
  }
  // If all outputs are in one row, only the columns that they read are held.
  int64_t q0 = 0, q1 = width - 1;
  const int64_t last_output = first_output + outputs - 1;
  if (first_output / width == last_output / width) {
    q0 = first_output % width;
    q1 = last_output % width;
  }
  left_ = q0 * stride_w;
  columns_ = (q1 - q0) * stride_w + width_reach;
  if (planes_) {
    phase_ = ceil_div(columns_, stride_w);
    row_ = std::min(stride_w, columns_) * phase_;  // later phases have no columns
  } else {
    unit_ = std::min(kChannels, c_.in_group());
    row_ = columns_ * unit_;
  }
  depth_ = most_heights * row_;
  plane_ = most_depths * depth_;
  picture_size_ = plane_ * (planes_ ? planes_held_ : ceil_div(channels_, kChannels));
  for (int64_t i = 0; i < pictures_; ++i) {
    Picture& p = picture_.data()[i];
    p.origin = i * picture_size_ - p.depth * depth_ - p.height * row_;
  }
  return pictures_ * picture_size_ + kSlack;
}

/// The distance of the element that a tap reads from the element that tap 0 reads.
int64_t Windows::Part::of_tap(int64_t tap) const {
  const int64_t area = c_.kernel[1] * c_.kernel[2];
  const int64_t d = tap / area * c_.dilation[0];
  const int64_t h = tap % area / c_.kernel[2] * c_.dilation[1];
  const int64_t w = tap % c_.kernel[2] * c_.dilation[2];
  const int64_t column = planes_ ? w % c_.stride[2] * phase_ + w / c_.stride[2] : w * unit_;
  return d * depth_ + h * row_ + column;
}

/// The position that the first output of a row of outputs reads with tap 0, if that column is held.
int64_t Windows::Part::of_output_row(const Picture& p, int64_t row) const {
  const int64_t d = row / c_.out_size[1] * c_.stride[0];
  const int64_t h = row % c_.out_size[1] * c_.stride[1];
  const int64_t left = planes_ ? left_ / c_.stride[2] : left_ * unit_;
  return p.origin + d * depth_ + h * row_ - left;
}

void Windows::Part::set_places() {
  int64_t* place = place_.data();
  if (planes_) {
    // Rows of `together` channels alternate: (channel / together, tap, channel % together).
    const int64_t taps = c_.taps(), together = w_.quads() ? 4 : 1, period = taps * together;
    for (int64_t i = 0; i < rows_; ++i) {
      const int64_t k = first_row_ + i, channel = k / period * together + k % together;
      place[i] = i < period ? (channel - first_channel_) * plane_ + of_tap(k % period / together)
                            : place[i - period] + together * plane_;
    }
    return;
  }
  const int64_t step = c_.stride[2] * unit_;
  for (int64_t i = 0; i < rows_;) {
    const int64_t o = first_row_ + i, at = o % c_.out_plane();
    const Picture& p = picture_.data()[o / c_.out_plane() - first_picture_];
    const int64_t first = of_output_row(p, at / c_.out_width());
    for (int64_t q = at % c_.out_width(); q < c_.out_width() && i < rows_; ++q, ++i)
      place[i] = first + q * step;
  }
}

/// The places of words in the order of packed groups. Four channels are two planes of words.
void Windows::Part::set_word_places() {
  constexpr int64_t kQuads = kBf16Group / 4;
  const int64_t taps = c_.taps();
  const bool apart = words_ == WordOrder::even_and_odd;
  for (int64_t i = 0; i < rows_ / 4; ++i) {
    const int64_t k = first_row_ / 4 + i;
    const int64_t first = (k / taps - first_channel_ / 4) * 2 * plane_ + of_tap(k % taps);
    int64_t* group = place_.data() + i / kQuads * kBf16Group / 2;
    const int64_t at = i % kQuads;
    group[apart ? at : 2 * at] = first;
    group[apart ? kQuads + at : 2 * at + 1] = first + plane_;
  }
}

/// Lists the rows of the picture that are held and not zero; returns their number.
int64_t Windows::Part::list_lines(const Picture& p, Line* to) const {
  const Line* const begin = to;
  for (int64_t d = p.depth; d < p.depth + p.depths; ++d) {
    if (!is_read(d, c_.kernel[0], c_.stride[0], c_.dilation[0])) continue;
    for (int64_t h = p.height; h < p.height + p.heights; ++h) {
      if (!is_read(h, c_.kernel[1], c_.stride[1], c_.dilation[1])) continue;
      const int64_t from_d = d - c_.padding[0], from_h = h - c_.padding[1];
      if (from_d < 0 || from_d >= c_.size[0] || from_h < 0 || from_h >= c_.size[1]) continue;
      *to++ = {(from_d * c_.size[1] + from_h) * c_.width(), p.origin + d * depth_ + h * row_};
    }
  }
  return to - begin;
}

template <class T>
void Windows::Part::hold(const T* x) const {
  std::fill_n(held_.data(), pictures_ * picture_size_ + kSlack, 0.f);
  Scratch<Line> lines(plane_ / row_);
  for (int64_t i = 0; i < pictures_; ++i, x += c_.in * c_.plane()) {
    const int64_t count = list_lines(picture_.data()[i], lines.data());
    if (planes_) {
      hold_planes(x, lines.data(), count);
      continue;
    }
    // The channels of a block are held side by side. A row of all of them is many short pieces of
    // memory, so the next one is fetched early, unless it is shorter than half a line.
    const bool early = c_.width() >= 8;
    for (int64_t block = 0; block < ceil_div(channels_, kChannels); ++block) {
      const int64_t channels = std::min(kChannels, channels_ - block * kChannels);
      const T* from = x + block * kChannels * c_.plane();
      for (int64_t j = 0; j < count; ++j) {
        const int64_t next = lines.data()[std::min(j + 1, count - 1)].from;
        for (int64_t i = 0; i < channels && early; ++i)
          fetch(from + i * c_.plane() + next, c_.width());
        hold_pixels(from + lines.data()[j].from, channels,
                    held_.data() + lines.data()[j].to + block * plane_);
      }
    }
  }
}

/// Holds rows of every plane, one plane after the other: padded columns left_ ... of each row, one
/// phase of the stride after the other.
template <class T>
void Windows::Part::hold_planes(const T* x, const Line* lines, int64_t count) const {
  const int64_t step = c_.stride[2];
  for (int64_t f = 0; f < row_ / phase_; ++f) {
    if (!is_read(f, c_.kernel[2], step, c_.dilation[2])) continue;
    // Held column i is column i * step + first of the picture.
    const int64_t first = left_ + f - c_.padding[2];
    const int64_t begin = std::clamp<int64_t>(first < 0 ? ceil_div(-first, step) : 0, 0, phase_);
    const int64_t end = std::clamp<int64_t>(ceil_div(c_.width() - first, step), begin, phase_);
    if (words_ == WordOrder::none) {
      for (int64_t channel = 0; channel < channels_; ++channel)
        simd([=, from = x + channel * c_.plane() + first,
              to = held_.data() + channel * plane_ + f * phase_] {
          for (const Line* line = lines; line < lines + count; ++line)
            if (step == 1)
              copy_row(from + line->from + begin, to + line->to + begin, end - begin);
            else if (step == 2)
              take_every_other(from + line->from, to + line->to, begin, end);
            else
              for (int64_t i = begin; i < end; ++i)
                to[line->to + i] = widened(from[line->from + i * step]);
        });
      continue;
    }
    for (int64_t plane = 0; plane < planes_held_; ++plane) {
      const int64_t quad = plane / 2 * 4, odd = plane % 2;
      const bool apart = words_ == WordOrder::even_and_odd;
      const int64_t upper = quad + (apart ? odd : 2 * odd + 1);
      const int64_t lower = quad + (apart ? odd + 2 : 2 * odd);
      const bool has_upper = upper < channels_, has_lower = lower < channels_;
      simd([=, a = x + (has_upper ? upper : quad) * c_.plane() + first,
            b = x + (has_lower ? lower : quad) * c_.plane() + first,
            to = held_.data() + plane * plane_ + f * phase_] {
        for (const Line* line = lines; line < lines + count; ++line)
          join(a + line->from, b + line->from, has_upper ? 0xffff0000u : 0, has_lower ? 0xffffu : 0,
               to + line->to, begin, end, step);
      });
    }
  }
}

/// Holds a row of `channels` planes, column by column.
template <class T>
void Windows::Part::hold_pixels(const T* from, int64_t channels, float* to) const {
  const int64_t first = left_ - c_.padding[2];
  const int64_t begin = std::clamp<int64_t>(-first, 0, columns_);
  const int64_t end = std::clamp<int64_t>(c_.width() - first, begin, columns_);
  simd([=, step = c_.plane(), unit = unit_] {
    turn(from + first + begin, step, channels, end - begin, to + begin * unit, unit);
  });
}

void Windows::Part::add_run(int64_t from, int64_t count) {
  if (runs_ > 0) {
    Run& last = run_[static_cast<size_t>(runs_ - 1)];
    if (last.from + last.count == from) {
      last.count += count;
      width_ += count;
      return;
    }
  }
  run_[static_cast<size_t>(runs_++)] = {from, width_, count};
  width_ += count;
}

void Windows::Part::choose(int64_t column, int64_t width) {
  runs_ = width_ = 0;
  while (width_ < width) {
    const int64_t j = column + width_, rest = width - width_;
    if (planes_) {
      const int64_t at = j % c_.out_plane(), q = at % c_.out_width();
      const Picture& p = picture_.data()[j / c_.out_plane() - first_picture_];
      add_run(of_output_row(p, at / c_.out_width()) + q, std::min(rest, c_.out_width() - q));
    } else {
      const int64_t per_block = kChannels * c_.taps(), block = j / per_block;
      const int64_t channels = w_.channels_of(block);
      const int64_t tap = j % per_block / channels, channel = j % per_block % channels;
      add_run((block - first_channel_ / kChannels) * plane_ + of_tap(tap) + channel,
              std::min(rest, channels - channel));
    }
  }
}

void Windows::Part::copy(int64_t row, int64_t rows, float* to, int64_t stride) const {
  const int64_t* place = place_.data() + (row - first_row_);
  // In place, every row is a short piece of memory. Those that are copied next arrive meanwhile.
  const int64_t next = in_place_ ? std::min(rows, first_row_ + rows_ - row - rows) : 0;
  for (int64_t i = rows; i < rows + next; ++i)
    for (int64_t r = 0; r < runs_; ++r) fetch(data_ + place[i] + run_[r].from, run_[r].count);
  copy_places(place, rows, to, stride);
}

void Windows::Part::copy_words(float* to, int64_t stride) const {
  constexpr int64_t kWords = kBf16Group / 2;
  const int64_t* place = place_.data();
  const int64_t whole = rows_ / kBf16Group * kWords, rest = rows_ % kBf16Group / 4;
  if (whole > 0) copy_places(place, whole, to, stride);
  if (rest == 0) return;
  to += whole * stride;
  place += whole;
  std::fill_n(to, kWords * stride, 0.f);
  if (words_ == WordOrder::neighbours) return copy_places(place, 2 * rest, to, stride);
  copy_places(place, rest, to, stride);
  copy_places(place + kWords / 2, rest, to + kWords / 2 * stride, stride);
}

void Windows::Part::copy_places(const int64_t* place, int64_t rows, float* to,
                                int64_t stride) const {
  const float* held = data_;
  const Run* run = run_.data();
  const int64_t runs = runs_, width = width_;
  // If all runs have the same size, a copy is a few instructions.
  auto equal = [=](int64_t count) {
    for (int64_t r = 0; r < runs; ++r)
      if (run[r].count != count) return false;
    return width == stride;
  };
  auto copy_equal = [=]<int kCount>() {
    simd([=] {
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t r = 0; r < runs; ++r)
          copy_exactly<kCount>(held + place[i] + run[r].from, to + i * stride + r * kCount);
    });
  };
  if (equal(32)) return copy_equal.template operator()<32>();
  if (equal(16)) return copy_equal.template operator()<16>();
  if (equal(8)) return copy_equal.template operator()<8>();
  if (equal(4)) return copy_equal.template operator()<4>();
  // Copies whole vectors. The next ones overwrite the numbers that are written too much. The last
  // row is copied exactly.
  simd([=] {
    for (int64_t i = 0; i + 1 < rows; ++i) {
      float* row_to = to + i * stride;
      for (int64_t r = 0; r < runs; ++r)
        copy_vectors(held + place[i] + run[r].from, row_to + run[r].to, run[r].count);
      for (int64_t j = width; j < stride; ++j) row_to[j] = 0;
    }
    float* last = to + (rows - 1) * stride;
    for (int64_t r = 0; r < runs; ++r)
      for (int64_t j = 0; j < run[r].count; ++j)
        last[run[r].to + j] = held[place[rows - 1] + run[r].from + j];
    for (int64_t j = width; j < stride; ++j) last[j] = 0;
  });
}

}  // namespace tern::kernels

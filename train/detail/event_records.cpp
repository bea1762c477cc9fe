// Wraps messages into records with CRC-32C, and makes histograms.
#include "tern/train/detail/event_records.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

namespace tern::training {

using tern::detail::append_little_endian;

namespace {

constexpr std::array<uint32_t, 256> crc_table() {
  constexpr uint32_t kPolynomial = 0x82F63B78;  // 0x1EDC6F41, bits reversed
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < table.size(); ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? kPolynomial : 0);
    table[i] = crc;
  }
  return table;
}

// TensorFlow's bucket limits: 1e-12, 1.1e-12, ... below 1e20, the largest double; 0; and the same
// numbers with a minus sign.
std::vector<double> exponential_limits() {
  std::vector<double> positive;
  for (double v = 1e-12; v < 1e20; v *= 1.1) positive.push_back(v);
  positive.push_back(std::numeric_limits<double>::max());
  std::vector<double> limits;
  for (size_t i = positive.size(); i-- > 0;) limits.push_back(-positive[i]);
  limits.push_back(0);
  limits.insert(limits.end(), positive.begin(), positive.end());
  return limits;
}

// The lower end of the first of `bins` equal buckets, then the upper end of each.
std::vector<double> linear_limits(double low, double high, int bins) {
  if (low == high) {
    low -= 0.5;
    high += 0.5;
  }
  std::vector<double> limits;
  const double width = high / bins - low / bins;  // their difference may overflow
  for (int i = 0; i < bins; ++i) limits.push_back(low + width * i);
  limits.push_back(high);
  return limits;
}

// Copies limits and counts to h. Cuts off empty buckets at both ends, except one whose limit is the
// lower end of the first filled bucket, and joins neighbouring empty buckets.
void compress(Histogram& h, const std::vector<double>& limits, const std::vector<double>& counts) {
  auto filled = [](double count) { return count > 0; };
  const auto first = std::find_if(counts.begin(), counts.end(), filled) - counts.begin();
  const auto last = counts.rend() - std::find_if(counts.rbegin(), counts.rend(), filled);
  // Before TensorFlow's first bucket, which begins at minus infinity, there is none to keep.
  for (auto i = static_cast<size_t>(std::max<std::ptrdiff_t>(first - 1, 0));
       i < static_cast<size_t>(last); ++i) {
    if (counts[i] == 0 && !h.counts.empty() && h.counts.back() == 0 && h.counts.size() > 1) {
      h.limits.back() = limits[i];
      continue;
    }
    h.limits.push_back(limits[i]);
    h.counts.push_back(counts[i]);
  }
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  static constexpr std::array<uint32_t, 256> kTable = crc_table();
  uint32_t crc = 0xFFFFFFFF;
  for (const char c : bytes) crc = crc >> 8 ^ kTable[(crc ^ static_cast<uint8_t>(c)) & 0xFF];
  return ~crc;
}

uint32_t masked_crc32c(std::string_view bytes) { return std::rotr(crc32c(bytes), 15) + 0xA282EAD8; }

std::string event_record(std::string_view data) {
  std::string out;
  append_little_endian(out, static_cast<uint64_t>(data.size()));
  append_little_endian(out, masked_crc32c(out));
  out += data;
  append_little_endian(out, masked_crc32c(data));
  return out;
}

Histogram make_histogram(const std::vector<double>& values, int bins) {
  Histogram h;
  h.count = std::ssize(values);
  const auto [least, largest] = std::minmax_element(values.begin(), values.end());
  h.min = *least;
  h.max = *largest;
  static const std::vector<double> kExponential = exponential_limits();
  const std::vector<double> linear =
      bins > 0 ? linear_limits(h.min, h.max, bins) : std::vector<double>();
  const std::vector<double>& limits = bins > 0 ? linear : kExponential;
  std::vector<double> counts(limits.size());
  for (const double v : values) {
    h.sum += v;
    h.sum_squares += v * v;
    // A bucket is (previous limit, limit]; the smallest value belongs to the first bucket.
    auto i =
        static_cast<size_t>(std::lower_bound(limits.begin(), limits.end(), v) - limits.begin());
    if (bins > 0) i = std::clamp<size_t>(i, 1, limits.size() - 1);
    ++counts[i];
  }
  compress(h, limits, counts);
  return h;
}

}  // namespace tern::training

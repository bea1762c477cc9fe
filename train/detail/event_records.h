// The bytes of TensorBoard's event files: records of protocol buffers. Inside of train only.
//
// Sources: the TFRecord format (https://www.tensorflow.org/tutorials/load_data/tfrecord#tfrecords_
// format_details), the messages Event, Summary, HistogramProto and TensorProto of TensorFlow
// (tensorflow/core/util/event.proto, tensorflow/core/framework/summary.proto), the encoding
// (https://protobuf.dev/programming-guides/encoding).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tern/core/io/protobuf.h"

namespace tern::training {

/// CRC-32C (Castagnoli, RFC 3720) of the bytes.
uint32_t crc32c(std::string_view bytes);
/// The CRC as records store it: rotated, plus a constant. A plain CRC would detect errors badly in
/// bytes that contain CRCs themselves.
uint32_t masked_crc32c(std::string_view bytes);

/// A record: the length (u64), its CRC, the data, their CRC, all little-endian.
std::string event_record(std::string_view data);

/// The content of a HistogramProto: the number of values in each bucket, and their moments.
struct Histogram {
  double min = 0, max = 0, sum = 0, sum_squares = 0;
  int64_t count = 0;
  /// The upper end of each bucket, ascending, and the number of values in it. The first bucket is
  /// empty: its end is where the second bucket begins.
  std::vector<double> limits, counts;
};

/// Counts the values in `bins` buckets of equal width from the smallest to the largest value. 0:
/// the buckets of TensorFlow, from 1e-12 to 1e20 with each end 1.1 times the previous one, and the
/// same for negative values. Empty buckets at the ends are cut off, and neighbouring empty buckets
/// are joined.
/// REQUIRES: at least one value, and only finite ones.
Histogram make_histogram(const std::vector<double>& values, int bins);

}  // namespace tern::training

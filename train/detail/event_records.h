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

namespace tern::training {

/// CRC-32C (Castagnoli, RFC 3720) of the bytes.
uint32_t crc32c(std::string_view bytes);
/// As it stands in records: turned, so that a CRC of bytes that hold CRCs is no fixed point.
uint32_t masked_crc32c(std::string_view bytes);

/// A record: the length (u64), its CRC, the data, their CRC, all little-endian.
std::string event_record(std::string_view data);

/// A message of protocol buffers, field by field.
class Message {
 public:
  Message& add_int(int field, int64_t value);
  Message& add_double(int field, double value);
  Message& add_float(int field, float value);
  Message& add_bytes(int field, std::string_view bytes);
  Message& add_message(int field, const Message& m) { return add_bytes(field, m.bytes_); }
  Message& add_packed(int field, const std::vector<double>& values);
  const std::string& bytes() const { return bytes_; }

 private:
  void tag(int field, int wire_type);
  void varint(uint64_t value);
  std::string bytes_;
};

/// How many of some values fall between limits: HistogramProto.
struct Histogram {
  double min = 0, max = 0, sum = 0, sum_squares = 0;
  int64_t count = 0;
  /// The upper end of each bucket, ascending, and what is in it. The first bucket is empty: it
  /// says where the second begins.
  std::vector<double> limits, counts;
};

/// `bins` buckets of one width between the least and the largest value; 0: TensorFlow's, from
/// 1e-12 to 1e20 with each end 1.1 times the one before, negative ones likewise. Empty buckets at
/// the ends are cut off, and others beside each other made one. REQUIRES: finite values, at least
/// one.
Histogram make_histogram(const std::vector<double>& values, int bins);

}  // namespace tern::training

// Messages of protocol buffers, field by field: event files of TensorBoard and models in ONNX use
// them. Inside of tern only.
//
// Source: https://protobuf.dev/programming-guides/encoding.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tern::detail {

template <class T>
void append_little_endian(std::string& out, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) out += static_cast<char>(value >> (8 * i) & 0xFF);
}

/// A message, whose fields are numbered.
class ProtobufMessage {
 public:
  ProtobufMessage& add_int(int field, int64_t value);
  ProtobufMessage& add_double(int field, double value);
  ProtobufMessage& add_float(int field, float value);
  ProtobufMessage& add_bytes(int field, std::string_view bytes);
  ProtobufMessage& add_message(int field, const ProtobufMessage& m) {
    return add_bytes(field, m.bytes_);
  }
  ProtobufMessage& add_packed(int field, const std::vector<double>& values);
  /// Begins a field of `size` bytes, which whoever writes the message writes behind it.
  ProtobufMessage& begin_bytes(int field, size_t size);
  const std::string& bytes() const { return bytes_; }

 private:
  void tag(int field, int wire_type);
  void varint(uint64_t value);
  std::string bytes_;
};

}  // namespace tern::detail

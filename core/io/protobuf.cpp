// Encodes the fields of protocol buffers.
#include "tern/core/io/protobuf.h"

#include <bit>

namespace tern::detail {

void ProtobufMessage::varint(uint64_t value) {
  for (; value > 0x7F; value >>= 7) bytes_ += static_cast<char>((value & 0x7F) | 0x80);
  bytes_ += static_cast<char>(value);
}

void ProtobufMessage::tag(int field, int wire_type) {
  varint(static_cast<uint64_t>(field) << 3 | static_cast<uint64_t>(wire_type));
}

ProtobufMessage& ProtobufMessage::add_int(int field, int64_t value) {
  tag(field, 0);
  varint(static_cast<uint64_t>(value));
  return *this;
}

ProtobufMessage& ProtobufMessage::add_double(int field, double value) {
  tag(field, 1);
  append_little_endian(bytes_, std::bit_cast<uint64_t>(value));
  return *this;
}

ProtobufMessage& ProtobufMessage::add_float(int field, float value) {
  tag(field, 5);
  append_little_endian(bytes_, std::bit_cast<uint32_t>(value));
  return *this;
}

ProtobufMessage& ProtobufMessage::begin_bytes(int field, size_t size) {
  tag(field, 2);
  varint(size);
  return *this;
}

ProtobufMessage& ProtobufMessage::add_bytes(int field, std::string_view bytes) {
  begin_bytes(field, bytes.size());
  bytes_ += bytes;
  return *this;
}

ProtobufMessage& ProtobufMessage::add_packed(int field, const std::vector<double>& values) {
  std::string bytes;
  for (const double v : values) append_little_endian(bytes, std::bit_cast<uint64_t>(v));
  return add_bytes(field, bytes);
}

}  // namespace tern::detail

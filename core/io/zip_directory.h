// The directory of a zip archive, also Zip64. Inside of tern only.
// https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tern/core/io/random_file.h"

namespace tern {

struct ZipEntry {
  std::string name;              ///< without control characters
  int64_t packed = 0, size = 0;  ///< bytes in the archive, bytes unpacked
  int64_t header = 0;            ///< position of its local header
  uint32_t crc = 0;
  bool deflated = false;
};

/// The first numbers of the records of an archive.
struct ZipMagic {
  static constexpr uint32_t kLocal = 0x04034b50, kCentral = 0x02014b50, kEnd = 0x06054b50,
                            kEnd64 = 0x06064b50, kLocator64 = 0x07064b50;
  static constexpr uint32_t kInExtra = 0xffffffff;  ///< the Zip64 extra field has the number
};

/// Reads and checks the archive's directory: every member is inside the file, none unpacks to more
/// than deflate allows, and the packed sizes together do not exceed the file. Names may repeat.
std::vector<ZipEntry> read_zip_directory(const RandomFile& file);

/// The position of the bytes of a member, which its local header precedes. They are in the file.
int64_t zip_data_position(const RandomFile& file, const ZipEntry& entry);

}  // namespace tern

// Fuzzes the readers of npy files and npz archives.
#include "tern/data/loading/npy.h"

#include "tern/tests/fuzz/fuzz.h"
#include "tern/tests/support/data_files.h"

namespace {

using namespace tern;

/// An npy file: a header and the elements of one axis.
std::string npy_of(const std::string& type, size_t n, const std::string& elements) {
  const std::string text =
      "{'descr': '" + type + "', 'fortran_order': False, 'shape': (" + std::to_string(n) + ",), }";
  std::string out("\x93NUMPY\x01\x00", 8);
  out += {static_cast<char>(text.size()), static_cast<char>(text.size() >> 8)};
  return out + text + elements;
}

/// A zip archive with one deflated member. A gzip file contains the same deflated bytes.
std::string zip_of(const std::string& name, const std::string& content) {
  std::string packed = test::gzip(content, 1), out;
  const std::string crc = packed.substr(packed.size() - 8, 4);
  packed = packed.substr(10, packed.size() - 18);
  auto put = [&](size_t n, int bytes) {
    for (int i = 0; i < bytes; ++i) out.push_back(static_cast<char>(n >> 8 * i));
  };
  auto put_entry = [&] {  // the part that both headers share: version, flags, method, time, sizes
    put(20, 2), put(0, 2), put(8, 2), put(0, 4);
    out += crc;
    put(packed.size(), 4), put(content.size(), 4), put(name.size(), 2), put(0, 2);
  };
  put(0x04034b50, 4);
  put_entry();
  out += name + packed;
  const size_t central = out.size();
  put(0x02014b50, 4), put(20, 2);
  put_entry();
  put(0, 8), put(0, 2), put(0, 4);  // no comment; the first header is at 0
  out += name;
  const size_t size = out.size() - central;
  put(0x06054b50, 4), put(0, 4), put(1, 2), put(1, 2), put(size, 4), put(central, 4), put(0, 2);
  return out;
}

/// Repeats the input as elements, in a file and in an archive; all of them must be read back.
void read_many(std::string_view text) {
  const std::string elements = fuzz::repeated(text);
  const size_t n = elements.size() / 2;
  const std::string array = npy_of("<u2", n, elements.substr(0, 2 * n));
  const Tensor x = datasets::load_npy(fuzz::File(array).path());
  const NamedTensors all = datasets::load_npz(fuzz::File(zip_of("a.npy", array)).path());
  fuzz::require(all.size() == 1);
  for (const Tensor& t : {x, all[0].second}) {
    const auto values = t.to_vector<int64_t>();
    fuzz::require(values.size() == n);
    for (size_t i = 0; i < n; ++i) {
      const auto low = static_cast<uint8_t>(elements[2 * i]),
                 high = static_cast<uint8_t>(elements[2 * i + 1]);
      fuzz::require(values[i] == (low | high << 8));
    }
  }
}

/// An archive of noise, which exceeds the buffers even when compressed.
std::string large_archive() {
  std::string noise;
  for (uint32_t x = 1; noise.size() < 100'000; x = x * 1664525 + 1013904223)
    noise.push_back(static_cast<char>(x >> 24));
  return zip_of("a.npy", npy_of("|u1", noise.size(), noise));
}

}  // namespace

// Reads the input as a file, as a header followed by 64 bytes, as the elements of a large file, as
// damage to a large archive, and as an archive.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const std::string text(fuzz::text_of(bytes, size));
  std::string headed("\x93NUMPY\x01\x00", 8);
  headed += {static_cast<char>(size & 255), static_cast<char>(size >> 8 & 255)};
  headed += text + std::string(64, '\1');
  for (const std::string& content : {text, headed}) {
    const fuzz::File file(content);
    fuzz::may_refuse_file([&] {
      const Tensor x = datasets::load_npy(file.path());
      fuzz::require(x.numel() <= static_cast<int64_t>(content.size()));
    });
  }
  read_many(text);
  static const std::string kLarge = large_archive();
  const fuzz::File hurt(fuzz::damaged(kLarge, bytes, size));
  fuzz::may_refuse_file([&] { datasets::load_npz(hurt.path()); });
  const fuzz::File file(text);
  fuzz::may_refuse_file([&] {
    for (const auto& [name, x] :
         datasets::load_npz(file.path()))  // deflate packs at most 1032 bytes into one
      fuzz::require(x.numel() <= 1032 * static_cast<int64_t>(size));
  });
  return 0;
}

// Reads the six files of CIFAR-10 from a folder or an archive, checks sizes and labels, and writes
// such files.
#include "tern/data/images/cifar10.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <string_view>

#include "tern/core/base/error.h"
#include "tern/core/io/safetensors.h"
#include "tern/data/loading/gzip.h"
#include "tern/data/loading/tar.h"

namespace tern::datasets {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kRecord = 1 + kImageBytes;
constexpr int64_t kFileRecords = 10000;  // per official file; also the limit
constexpr int kTrainFiles = 5;
constexpr int kTestFile = kTrainFiles;  // files are numbered 0-4 (training) and 5 (test)
constexpr int kFiles = kTrainFiles + 1;
constexpr int kClasses = 10;
constexpr int64_t kMaxMeta = 4096;
// The official archive has 184 MB; this limit stops archives that unpack without end.
constexpr int64_t kMaxArchive = int64_t{1} << 30;

constexpr std::string_view kMetaFile = "batches.meta.txt";
constexpr const char* kFolder = "cifar-10-batches-bin";
constexpr const char* kArchive = "cifar-10-binary.tar.gz";
constexpr std::array<std::string_view, kFiles> kFileNames = {"data_batch_1.bin", "data_batch_2.bin",
                                                             "data_batch_3.bin", "data_batch_4.bin",
                                                             "data_batch_5.bin", "test_batch.bin"};
constexpr std::array<const char*, kClasses> kOfficialNames = {
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"};

// Collects the files of a set in any order.
class Gatherer {
 public:
  // `source` is the name in messages: the folder or the archive.
  explicit Gatherer(std::string source) : source_(std::move(source)) {}

  // The index of file `name` among the six; nothing for other names.
  static std::optional<int> index_of(std::string_view name) {
    auto it = std::find(kFileNames.begin(), kFileNames.end(), name);
    if (it == kFileNames.end()) return std::nullopt;
    return static_cast<int>(it - kFileNames.begin());
  }

  // Reads a batch file of `bytes` bytes from a ByteReader or TarReader.
  template <class Reader>
  void add_batch(int file, int64_t bytes, Reader& reader) {
    check_size(file, bytes);
    counts_[file] = bytes / kRecord;
    bool const is_test = file == kTestFile;
    ImageSet& set = is_test ? *test_ : *train_;
    int64_t const first = is_test ? 0 : file * counts_[file];
    int64_t const total = is_test ? counts_[file] : kTrainFiles * counts_[file];
    set.images.resize(static_cast<size_t>(total));
    set.labels.resize(static_cast<size_t>(total));
    for (int64_t i = 0; i < counts_[file]; ++i) {
      uint8_t& label = set.labels[first + i];
      reader.read_exactly(&label, 1);
      check_io(label < kClasses, "{}: record {} (at byte {}) has label {}, labels are 0 to {}",
               where(file), i, i * kRecord, label, kClasses - 1);
      reader.read_exactly(set.images[first + i].data(), kImageBytes);
    }
  }

  // Reads the class names, one per line.
  template <class Reader>
  void add_meta(int64_t bytes, Reader& reader) {
    std::string const where = fmt::format("{}/{}", source_, kMetaFile);
    check_io(bytes <= kMaxMeta, "{}: {} bytes are too many for {} class names", where, bytes,
             kClasses);
    std::string text(static_cast<size_t>(bytes), '\0');
    reader.read_exactly(text.data(), bytes);
    names_.clear();
    for (size_t at = 0; at < text.size();) {
      size_t const end = std::min(text.find('\n', at), text.size());
      std::string line = text.substr(at, end - at);
      if (line.ends_with('\r')) line.pop_back();
      bool const plain = std::none_of(line.begin(), line.end(), [](char c) {
        return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
      });
      check_io(plain, "{}: a class name holds control characters (at byte {})", where, at);
      if (!line.empty()) names_.push_back(std::move(line));
      at = end + 1;
    }
    check_io(std::ssize(names_) == kClasses, "{}: names {} classes, CIFAR-10 has {}", where,
             names_.size(), kClasses);
  }

  Cifar10 finish() {
    for (int file = 0; file < kFiles; ++file)
      check_io(counts_[file] > 0, "{}: {} is missing", source_, kFileNames[file]);
    check_io(counts_[0] < kFileRecords || counts_[kTestFile] == kFileRecords,
             "{}: {} bytes, but {} were expected: {} records of {} bytes", where(kTestFile),
             counts_[kTestFile] * kRecord, kFileRecords * kRecord, kFileRecords, kRecord);
    if (names_.empty()) names_.assign(kOfficialNames.begin(), kOfficialNames.end());
    return {train_, test_, names_};
  }

 private:
  std::string where(int file) const { return fmt::format("{}/{}", source_, kFileNames[file]); }

  // Checks sizes before anything is allocated.
  void check_size(int file, int64_t bytes) const {
    check_io(counts_[file] == 0, "{}: the archive has this file twice", where(file));
    check_io(bytes > 0 && bytes % kRecord == 0 && bytes <= kFileRecords * kRecord,
             "{}: {} bytes, but {} were expected: {} records of {} bytes (or fewer whole records)",
             where(file), bytes, kFileRecords * kRecord, kFileRecords, kRecord);
    if (file == kTestFile) return;
    for (int other = 0; other < kTrainFiles; ++other)
      check_io(
          counts_[other] == 0 || counts_[other] * kRecord == bytes,
          "{}: {} bytes, but {} has {}: all training files must have the same size (official: {})",
          where(file), bytes, kFileNames[other], counts_[other] * kRecord, kFileRecords * kRecord);
  }

  std::string source_;
  std::shared_ptr<ImageSet> train_ = std::make_shared<ImageSet>();
  std::shared_ptr<ImageSet> test_ = std::make_shared<ImageSet>();
  std::vector<std::string> names_;
  std::array<int64_t, kFiles> counts_{};
};

Cifar10 from_folder(const fs::path& folder) {
  Gatherer gatherer(folder.string());
  for (int file = 0; file < kFiles; ++file) {
    fs::path const path = folder / kFileNames[file];
    check_io(fs::exists(path), "{}: {} is missing", folder.string(), kFileNames[file]);
    ByteReader reader(path.string());
    check_io(!reader.is_gzip(), "{}: is packed by gzip; unpack it first", path.string());
    gatherer.add_batch(file, *reader.remaining(), reader);
  }
  if (fs::path const meta = folder / kMetaFile; fs::exists(meta)) {
    ByteReader reader(meta.string());
    check_io(!reader.is_gzip(), "{}: is packed by gzip; unpack it first", meta.string());
    gatherer.add_meta(*reader.remaining(), reader);
  }
  return gatherer.finish();
}

Cifar10 from_archive(const std::string& path) {
  Gatherer gatherer(path);
  TarReader tar(path, {.max_bytes = kMaxArchive});
  while (auto member = tar.next()) {
    if (!member->is_file) continue;
    std::string_view const base =
        std::string_view(member->name)
            .substr(member->name.find_last_of('/') + 1);  // the whole name if it has no slash
    if (auto file = Gatherer::index_of(base)) gatherer.add_batch(*file, member->size, tar);
    if (base == kMetaFile) gatherer.add_meta(member->size, tar);
  }
  return gatherer.finish();
}

void append(std::string& bytes, const ImageSet& set, int64_t i) {
  bytes.push_back(static_cast<char>(set.labels[i]));
  bytes.append(reinterpret_cast<const char*>(set.images[i].data()), kImageBytes);
}

}  // namespace

Cifar10 load_cifar10(const std::string& path) {
  std::error_code error;
  check_io(fs::exists(path, error), "{}: no such file or folder", path);
  if (!fs::is_directory(path, error)) return from_archive(path);
  fs::path const folder(path);
  for (const fs::path& candidate : {folder, folder / kFolder})
    for (std::string_view name : kFileNames)
      if (fs::exists(candidate / name, error)) return from_folder(candidate);
  if (fs::exists(folder / kArchive, error)) return from_archive((folder / kArchive).string());
  fail_io(fmt::format("{}: holds no CIFAR-10: neither {} nor {}/ nor {} is in it", path,
                      kFileNames[0], kFolder, kArchive));
}

void write_cifar10(const std::string& dir, const Cifar10& set) {
  int64_t const per_file = set.train->size() / kTrainFiles;
  check(set.train->size() % kTrainFiles == 0,
        "write_cifar10: the number of training pictures is {}; it must be a multiple of {}",
        set.train->size(), kTrainFiles);
  check(std::ssize(set.class_names) == kClasses, "write_cifar10: {} class names instead of {}",
        set.class_names.size(), kClasses);
  std::error_code error;
  fs::create_directories(dir, error);
  check_io(fs::is_directory(dir), "{}: the folder cannot be made: {}", dir, error.message());
  for (int file = 0; file < kFiles; ++file) {
    const ImageSet& images = file == kTestFile ? *set.test : *set.train;
    int64_t const first = file == kTestFile ? 0 : file * per_file;
    int64_t const count = file == kTestFile ? images.size() : per_file;
    check(count >= 1 && count <= kFileRecords,
          "write_cifar10: {} records for {}; a file holds 1 to {}", count, kFileNames[file],
          kFileRecords);
    std::string bytes;
    bytes.reserve(static_cast<size_t>(count * kRecord));
    for (int64_t i = 0; i < count; ++i) append(bytes, images, first + i);
    write_file_atomically((fs::path(dir) / kFileNames[file]).string(), bytes);
  }
  std::string names;
  for (const std::string& name : set.class_names) names += name + '\n';
  write_file_atomically((fs::path(dir) / kMetaFile).string(), names);
}

}  // namespace tern::datasets

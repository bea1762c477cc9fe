// Reads CIFAR-100 from a folder or an archive, and checks sizes, labels and names.
#include "tern/data/images/cifar100.h"

#include <filesystem>
#include <functional>

#include "tern/core/base/error.h"
#include "tern/data/loading/tar.h"

namespace fs = std::filesystem;

namespace tern::datasets {
namespace {

constexpr int64_t kCifar100Record = 2 + kImageBytes;
constexpr int64_t kMaxRecords = 50000;
constexpr int64_t kMaxNames = 1 << 16;
constexpr int kCifar100Classes = 100, kGroups = 20;
constexpr const char* kCifar100Folder = "cifar-100-binary";
constexpr const char* kCifar100Archive = "cifar-100-binary.tar.gz";
constexpr const char *kTrain = "train.bin", *kTest = "test.bin";
constexpr const char *kFine = "fine_label_names.txt", *kCoarse = "coarse_label_names.txt";

using Read = std::function<void(void*, int64_t)>;  // all bytes, or an IoError

struct Parts {
  std::shared_ptr<ImageSet> images = std::make_shared<ImageSet>();
  std::vector<uint8_t> groups;
};

void read_records(const std::string& where, int64_t bytes, const Read& read, Parts& set) {
  check_io(set.groups.empty(), "{}: the archive has this file twice", where);
  check_io(bytes > 0 && bytes % kCifar100Record == 0 && bytes <= kMaxRecords * kCifar100Record,
           "{}: {} bytes, but 1 to {} records of {} bytes were expected", where, bytes, kMaxRecords,
           kCifar100Record);
  const auto count = static_cast<size_t>(bytes / kCifar100Record);
  set.images->images.resize(count);
  set.images->labels.resize(count);
  set.groups.resize(count);
  for (size_t i = 0; i < count; ++i) {
    uint8_t labels[2];
    read(labels, 2);
    check_io(labels[0] < kGroups && labels[1] < kCifar100Classes,
             "{}: record {} (at byte {}) has group {} and class {}; the largest are {} and {}",
             where, i, static_cast<int64_t>(i) * kCifar100Record, labels[0], labels[1], kGroups - 1,
             kCifar100Classes - 1);
    set.groups[i] = labels[0];
    set.images->labels[i] = labels[1];
    read(set.images->images[i].data(), kImageBytes);
  }
}

std::vector<std::string> read_names(const std::string& where, int64_t bytes, const Read& read,
                                    int count) {
  check_io(bytes <= kMaxNames, "{}: {} bytes are too many for {} names", where, bytes, count);
  std::string text(static_cast<size_t>(bytes), '\0');
  read(text.data(), bytes);
  std::vector<std::string> names(1);
  for (size_t at = 0; at < text.size(); ++at) {
    const auto c = static_cast<unsigned char>(text[at]);
    check_io(c >= 0x20 || c == '\n' || c == '\r',
             "{}: a name holds control characters (at byte {})", where, at);
    if (c == '\n' && !names.back().empty()) names.emplace_back();
    if (c >= 0x20) names.back().push_back(text[at]);
  }
  if (names.back().empty()) names.pop_back();
  check_io(std::ssize(names) == count, "{}: has {} names, but CIFAR-100 has {}", where,
           names.size(), count);
  return names;
}

// Collects the files of a set, in any order.
struct Cifar100Gatherer {
  std::string source;
  Parts train, test;
  std::vector<std::string> fine, coarse;

  void take(const std::string& name, int64_t bytes, const Read& read) {
    const std::string where = source + "/" + name;
    if (name == kTrain) read_records(where, bytes, read, train);
    if (name == kTest) read_records(where, bytes, read, test);
    if (name == kFine) fine = read_names(where, bytes, read, kCifar100Classes);
    if (name == kCoarse) coarse = read_names(where, bytes, read, kGroups);
  }

  Cifar100 finish() {
    check_io(!train.groups.empty(), "{}: {} is missing", source, kTrain);
    check_io(!test.groups.empty(), "{}: {} is missing", source, kTest);
    for (int i = 0; fine.size() < kCifar100Classes; ++i) fine.push_back(std::to_string(i));
    for (int i = 0; coarse.size() < kGroups; ++i) coarse.push_back(std::to_string(i));
    return {train.images, test.images, train.groups, test.groups, fine, coarse};
  }
};

Cifar100 cifar100_from_folder(const fs::path& folder) {
  Cifar100Gatherer all{folder.string(), {}, {}, {}, {}};
  for (const char* name : {kTrain, kTest, kFine, kCoarse}) {
    std::error_code error;
    if (!fs::exists(folder / name, error)) continue;
    ByteReader file((folder / name).string());
    check_io(!file.is_gzip(), "{}: is packed by gzip; unpack it first", file.path());
    all.take(name, *file.remaining(), [&](void* to, int64_t n) { file.read_exactly(to, n); });
  }
  return all.finish();
}

Cifar100 cifar100_from_archive(const std::string& path) {
  Cifar100Gatherer all{path, {}, {}, {}, {}};
  TarReader tar(path, {.max_bytes = 3 * kMaxRecords * kCifar100Record});
  while (const auto member = tar.next())
    if (member->is_file)
      all.take(member->name.substr(member->name.rfind('/') + 1), member->size,
               [&](void* to, int64_t n) { tar.read_exactly(to, n); });
  return all.finish();
}

}  // namespace

Cifar100 load_cifar100(const std::string& path) {
  std::error_code error;
  check_io(fs::exists(path, error), "{}: no such file or folder", path);
  if (!fs::is_directory(path, error)) return cifar100_from_archive(path);
  const fs::path folder(path);
  for (const fs::path& candidate : {folder, folder / kCifar100Folder})
    if (fs::exists(candidate / kTrain, error) || fs::exists(candidate / kTest, error))
      return cifar100_from_folder(candidate);
  if (fs::exists(folder / kCifar100Archive, error))
    return cifar100_from_archive((folder / kCifar100Archive).string());
  fail_io(fmt::format("{}: holds no CIFAR-100: neither {} nor {}/ nor {} is in it", path, kTrain,
                      kCifar100Folder, kCifar100Archive));
}

}  // namespace tern::datasets

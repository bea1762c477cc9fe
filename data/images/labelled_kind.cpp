// Recognises the kind of a labelled set by file names and first bytes, and chooses the side of its
// pictures.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "tern/core/base/error.h"
#include "tern/core/base/terminal_text.h"
#include "tern/core/io/file_kind.h"
#include "tern/data/images/detail/picture_splits.h"
#include "tern/data/images/labelled_pictures.h"
#include "tern/data/images/picture_folder.h"
#include "tern/data/loading/hidden.h"
#include "tern/data/loading/tar.h"

namespace tern::datasets {
namespace {

namespace fs = std::filesystem;

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

bool holds_mnist(const fs::path& folder) {
  for (const char* name : {"train-images-idx3-ubyte", "train-images.idx3-ubyte"})
    if (is_there(folder / name) || is_there(folder / (std::string(name) + ".gz"))) return true;
  return false;
}

// IoError for a file that is not a tar archive. Names its format and the command that unpacks it.
void check_archive(const std::string& path) {
  ByteReader file(path);
  if (file.is_gzip()) return;
  std::string first(static_cast<size_t>(std::min(*file.remaining(), kFirstBytes)), '\0');
  file.read_exactly(first.data(), std::ssize(first));
  const FileKind kind = file_kind(first);
  for (const auto& [archive, command] : {std::pair(FileKind::zip, "unzip"),
                                         {FileKind::xz, "tar xf"},
                                         {FileKind::bzip2, "tar xf"},
                                         {FileKind::zstd, "tar --zstd -xf"},
                                         {FileKind::seven_zip, "7z x"},
                                         {FileKind::rar, "unrar x"}})
    check_io(kind != archive, "{}: is {}; unpack it and give the folder: {} {}", path,
             name(archive), command, shell_word(path));
  check_io(kind != FileKind::png && kind != FileKind::jpeg,
           "{}: is one picture; give a folder with a folder of pictures for each class", path);
  check_io(first.find('\0') != first.npos,
           "{}: is a text or an empty file, not a tar archive; give a folder with a folder of "
           "pictures for each class, or an archive of CIFAR-10 or CIFAR-100",
           path);
}

// Which CIFAR a path holds: 10, 100, or 0 for none.
int cifar_at(const std::string& path) {
  const fs::path folder(path);
  if (!fs::is_directory(folder)) {
    check_archive(path);
    TarReader archive(path);
    int64_t pictures = 0;
    while (const auto member = archive.next()) {
      const std::string name = fs::path(member->name).filename().string();
      if (name == "train.bin" || name == "test.bin") return 100;
      if (name.starts_with("data_batch_") || name == "test_batch.bin") return 10;
      pictures += !is_hidden(member->name) && is_picture_file(name);
    }
    check_io(pictures == 0,
             "{}: is an archive of {} pictures; unpack it and give the folder: tar xf {}", path,
             pictures, shell_word(path));
    return 0;
  }
  for (const char* name :
       {"cifar-10-batches-bin", "cifar-10-binary.tar.gz", "test_batch.bin", "data_batch_1.bin",
        "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"})
    if (is_there(folder / name)) return 10;
  for (const char* name : {"cifar-100-binary", "cifar-100-binary.tar.gz", "train.bin", "test.bin"})
    if (is_there(folder / name)) return 100;
  return 0;
}

}  // namespace

std::string labelled_kind(const std::string& path) {
  check_io(is_there(path), "{}: no such file or folder", path);
  if (const int cifar = cifar_at(path); cifar > 0) return fmt::format("CIFAR-{}", cifar);
  if (holds_mnist(path)) return "MNIST";
  std::string about;
  if (fs::is_directory(path)) {
    const FoundPictures found = find_pictures(path);
    if (!found.paths.empty() && detail::folders_in(path).empty()) open_picture_folder(path);
    if (!found.paths.empty()) return "pictures";
    about = unused_text(found.unused);
  }
  fail_io(fmt::format(
      "{}: holds no labelled pictures{}; looked for CIFAR-10 (data_batch_1.bin, "
      "cifar-10-batches-bin/ or cifar-10-binary.tar.gz), CIFAR-100 (train.bin, "
      "cifar-100-binary/ or cifar-100-binary.tar.gz), MNIST (train-images-idx3-ubyte) and a "
      "folder of .png and .jpg files for each class",
      path, about.empty() ? "" : " (" + about + ")"));
}

int64_t usual_side(const std::string& path, const std::string& kind, const FolderReading& reading) {
  if (kind != "pictures") return kind == "MNIST" ? 28 : kImageSide;
  constexpr int64_t kLooked = 15;
  const detail::PictureSplits splits = detail::find_splits(path);
  const PictureFolder all = open_picture_folder(splits.train.empty() ? splits.test : splits.train);
  std::vector<int64_t> sides;
  for (int64_t i = 0; i < kLooked; ++i) try {
      const auto at = static_cast<size_t>(i * std::ssize(all.files) / kLooked);
      const Picture p = load_picture(all.files[at].path);
      sides.push_back(std::min(p.height, p.width));
    } catch (const IoError& e) {
      if (!reading.skip_damaged) detail::refuse_damaged(e);
    }
  if (sides.empty()) return kImageSide;
  std::sort(sides.begin(), sides.end());
  return std::clamp<int64_t>(sides[sides.size() / 2] / 4 * 4, 16, 48);
}

}  // namespace tern::datasets

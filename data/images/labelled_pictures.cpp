#include "tern/data/images/labelled_pictures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "tern/core/base/error.h"
#include "tern/core/base/rng.h"
#include "tern/core/base/threads.h"
#include "tern/data/images/cifar100.h"
#include "tern/data/images/mnist.h"
#include "tern/data/images/picture_folder.h"
#include "tern/data/loading/tar.h"

namespace tern::datasets {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kTestShare = 5;  // without a test set one of so many pictures is in it

// Planes of bytes, each three times where there is one, as a picture.
Picture from_planes(const uint8_t* planes, int64_t channels, int64_t side) {
  Picture p{side, side, std::vector<uint8_t>(static_cast<size_t>(3 * side * side))};
  const int64_t pixels = side * side;
  for (int64_t i = 0; i < pixels; ++i)
    for (int64_t c = 0; c < 3; ++c)
      p.rgb[static_cast<size_t>(3 * i + c)] = planes[std::min(c, channels - 1) * pixels + i];
  return p;
}

// The set of n pictures that picture(i) gives.
template <class GetPicture>
LabelledSet make_set(std::vector<int64_t> labels, const PictureForm& form, GetPicture picture) {
  const auto n = std::ssize(labels);
  auto bytes = std::make_shared<std::vector<uint8_t>>(static_cast<size_t>(n * form.numbers()));
  parallel_for(n, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      write_planes(picture(i), form, bytes->data() + i * form.numbers());
  });
  return {std::shared_ptr<const uint8_t>(bytes, bytes->data()), std::move(labels)};
}

LabelledSet cifar_set(const std::shared_ptr<const ImageSet>& set, const PictureForm& form) {
  std::vector<int64_t> labels(set->labels.begin(), set->labels.end());
  if (form.side == kImageSide)
    return {std::shared_ptr<const uint8_t>(set, set->images.data()->data()), std::move(labels)};
  return make_set(std::move(labels), form, [&](int64_t i) {
    return from_planes(set->images[static_cast<size_t>(i)].data(), 3, kImageSide);
  });
}

LabelledSet mnist_set(const Tensor& images, const Tensor& labels, const PictureForm& form,
                      const std::string& path) {
  const int64_t side = images.size(1);
  check_io(images.size(2) == side, "{}: its pictures are {} x {}, not square", path, side,
           images.size(2));
  return make_set(labels.to_vector<int64_t>(), form, [&](int64_t i) {
    return from_planes(images.data<uint8_t>() + i * side * side, 1, side);
  });
}

LabelledSet folder_set(const std::vector<PictureFile>& files, const PictureForm& form) {
  std::vector<int64_t> labels;
  for (const PictureFile& f : files) labels.push_back(f.label);
  return make_set(std::move(labels), form,
                  [&](int64_t i) { return load_picture(files[static_cast<size_t>(i)].path); });
}

// Mean and deviation of each channel, of a training set.
Normalization measured(const LabelledSet& set, const PictureForm& form) {
  Normalization n;
  const int64_t pixels = form.side * form.side;
  for (int64_t c = 0; c < form.channels; ++c) {
    std::array<int64_t, 256> counts{};
    for (int64_t i = 0; i < set.size(); ++i) {
      const uint8_t* plane = set.bytes.get() + (i * form.channels + c) * pixels;
      for (int64_t p = 0; p < pixels; ++p) ++counts[plane[p]];
    }
    double sum = 0, squares = 0;
    for (size_t v = 0; v < counts.size(); ++v) {
      const double value = static_cast<double>(v) / 255, count = static_cast<double>(counts[v]);
      sum += count * value;
      squares += count * value * value;
    }
    const auto all = static_cast<double>(set.size() * pixels), mean = sum / all;
    const double deviation = std::sqrt(std::max(squares / all - mean * mean, 0.0));
    n.mean[static_cast<size_t>(c)] = mean;
    n.std[static_cast<size_t>(c)] = deviation > 1e-6 ? deviation : 1;  // all are of one colour
  }
  for (auto c = static_cast<size_t>(form.channels); c < 3; ++c) {  // grey
    n.mean[c] = n.mean[0];
    n.std[c] = n.std[0];
  }
  return n;
}

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

bool holds_mnist(const fs::path& folder) {
  for (const char* name : {"train-images-idx3-ubyte", "train-images.idx3-ubyte"})
    if (is_there(folder / name) || is_there(folder / (std::string(name) + ".gz"))) return true;
  return false;
}

// Which CIFAR lies there: 10, 100, or 0.
int cifar_at(const std::string& path) {
  const fs::path folder(path);
  if (!fs::is_directory(folder)) {
    TarReader archive(path);
    while (const auto member = archive.next()) {
      const std::string name = fs::path(member->name).filename().string();
      if (name == "train.bin" || name == "test.bin") return 100;
      if (name.starts_with("data_batch_") || name == "test_batch.bin") return 10;
    }
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

bool has_folders(const fs::path& folder) {
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    if (entry.is_directory()) return true;
  return false;
}

void read_cifar100(const std::string& path, LabelledPictures& p) {
  const Cifar100 set = load_cifar100(path);
  p.class_names = set.class_names;
  p.train = cifar_set(set.train, p.form);
  p.test = cifar_set(set.test, p.form);
}

void read_mnist(const std::string& path, LabelledPictures& p) {
  const Mnist set = load_mnist(path);
  p.form.channels = 1;
  p.train = mnist_set(set.train_images, set.train_labels, p.form, path);
  p.test = mnist_set(set.test_images, set.test_labels, p.form, path);
  int64_t last = 0;
  for (const LabelledSet* s : {&p.train, &p.test})
    for (const int64_t label : s->labels) {
      check_io(label >= 0 && label < 1000, "{}: a label is {}; 0 to 999", path, label);
      last = std::max(last, label);
    }
  for (int64_t i = 0; i <= last; ++i) p.class_names.push_back(std::to_string(i));
}

// Classes stand mixed, so that the first N pictures are of all of them.
std::vector<PictureFile> mixed(const std::vector<PictureFile>& files, uint64_t seed) {
  constexpr uint64_t kStream = ~uint64_t{1};  // that of no epoch
  std::vector<PictureFile> out;
  for (const int64_t i : permutation(std::ssize(files), Rng(seed).stream(kStream)))
    out.push_back(files[static_cast<size_t>(i)]);
  return out;
}

// The folders of the training pictures and of the test pictures; the second is empty if there is
// none.
std::pair<std::string, std::string> folders_in(const std::string& path) {
  for (const char* name : {"test", "val", "valid"})
    if (is_there(fs::path(path) / "train") && is_there(fs::path(path) / name))
      return {path + "/train", fs::path(path) / name};
  return {path, ""};
}

void read_folders(const std::string& path, uint64_t seed, LabelledPictures& p) {
  const auto [training, apart] = folders_in(path);
  const PictureFolder all = open_picture_folder(training);
  p.class_names = all.class_names;
  std::vector<PictureFile> train = mixed(all.files, seed), test;
  if (!apart.empty()) {
    const PictureFolder other = open_picture_folder(apart);
    check_io(other.class_names == all.class_names, "{} and {}: their classes are not the same",
             apart, training);
    test = mixed(other.files, seed);
  } else {
    const auto n = std::ssize(train), held = (n + kTestShare - 1) / kTestShare;
    check_io(n > held, "{}: {} pictures are too few to hold some out as the test set", path, n);
    test.assign(train.begin(), train.begin() + held);
    train.erase(train.begin(), train.begin() + held);
    p.note = fmt::format(" (one of {}, chosen by the seed)", kTestShare);
  }
  p.train = folder_set(train, p.form);
  p.test = folder_set(test, p.form);
}

}  // namespace

LabelledPictures::LabelledPictures(const Cifar10& set, int64_t side)
    : form{.side = side},
      class_names(set.class_names),
      train(cifar_set(set.train, form)),
      test(cifar_set(set.test, form)) {}

std::string labelled_kind(const std::string& path) {
  check_io(is_there(path), "{}: no such file or folder", path);
  if (const int cifar = cifar_at(path); cifar > 0) return fmt::format("CIFAR-{}", cifar);
  if (holds_mnist(path)) return "MNIST";
  check_io(fs::is_directory(path) && has_folders(path),
           "{}: holds no labelled pictures; looked for CIFAR-10 (data_batch_1.bin, "
           "cifar-10-batches-bin/ or cifar-10-binary.tar.gz), CIFAR-100 (train.bin, "
           "cifar-100-binary/ or cifar-100-binary.tar.gz), MNIST (train-images-idx3-ubyte) and a "
           "folder of .png and .jpg files for each class",
           path);
  return "pictures";
}

int64_t usual_side(const std::string& path, const std::string& kind) {
  if (kind != "pictures") return kind == "MNIST" ? 28 : kImageSide;
  constexpr int64_t kLooked = 15;
  const PictureFolder all = open_picture_folder(folders_in(path).first);
  std::vector<int64_t> sides;
  for (int64_t i = 0; i < kLooked; ++i) {
    const auto at = static_cast<size_t>(i * std::ssize(all.files) / kLooked);
    const Picture p = load_picture(all.files[at].path);
    sides.push_back(std::min(p.height, p.width));
  }
  std::sort(sides.begin(), sides.end());
  return std::clamp<int64_t>(sides[kLooked / 2] / 4 * 4, 16, 48);
}

LabelledPictures load_labelled_pictures(const std::string& path, int64_t side, uint64_t seed) {
  const std::string kind = labelled_kind(path);
  if (kind == "CIFAR-10") return {load_cifar10(path), side};
  LabelledPictures p;
  p.kind = kind;
  p.form.side = side;
  if (kind == "CIFAR-100")
    read_cifar100(path, p);
  else if (kind == "MNIST")
    read_mnist(path, p);
  else
    read_folders(path, seed, p);
  check_io(p.class_names.size() > 1, "{}: has one class; a classifier needs two", path);
  p.form.classes = std::ssize(p.class_names);
  p.form.normalization = measured(p.train, p.form);
  return p;
}

void write_planes(const Picture& x, const PictureForm& form, uint8_t* out) {
  Rng unused(0);
  const bool fits = x.height == form.side && x.width == form.side;
  const Picture p = fits ? x : fit_picture(x, {.size = form.side, .shorter = form.side}, unused);
  const int64_t pixels = form.side * form.side;
  for (int64_t i = 0; i < pixels; ++i) {
    const uint8_t* rgb = &p.rgb[static_cast<size_t>(3 * i)];
    if (form.channels == 1)  // ITU-R 601, as Pillow's convert("L")
      out[i] =
          static_cast<uint8_t>((rgb[0] * 19595 + rgb[1] * 38470 + rgb[2] * 7471 + 0x8000) >> 16);
    else
      for (int64_t c = 0; c < 3; ++c) out[c * pixels + i] = rgb[c];
  }
}

Dataset<LabelledPicture> LabelledSet::dataset(const PictureForm& form) const {
  return {size(), [set = *this, numbers = form.numbers()](int64_t i) {
            return LabelledPicture{
                std::shared_ptr<const uint8_t>(set.bytes, set.bytes.get() + i * numbers),
                set.labels[static_cast<size_t>(i)]};
          }};
}

}  // namespace tern::datasets

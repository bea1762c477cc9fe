// Reads CIFAR, MNIST or folders of pictures into bytes of one form; splits, shuffles, measures and
// reports on folders.
#include "tern/data/images/labelled_pictures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>

#include "tern/core/base/ceil_div.h"
#include "tern/core/base/error.h"
#include "tern/core/base/rng.h"
#include "tern/core/base/threads.h"
#include "tern/data/images/cifar100.h"
#include "tern/data/images/detail/picture_splits.h"
#include "tern/data/images/mnist.h"
#include "tern/data/images/picture_folder.h"

namespace tern::datasets {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kTestShare = 5;  // without a test set, one of this many pictures is held out

// Makes a picture of 3 planes, or of 1 plane for all three channels.
Picture from_planes(const uint8_t* planes, int64_t channels, int64_t side) {
  Picture p{side, side, std::vector<uint8_t>(static_cast<size_t>(3 * side * side))};
  const int64_t pixels = side * side;
  for (int64_t i = 0; i < pixels; ++i)
    for (int64_t c = 0; c < 3; ++c)
      p.rgb[static_cast<size_t>(3 * i + c)] = planes[std::min(c, channels - 1) * pixels + i];
  return p;
}

// Makes a set: picture(i) gives the picture of labels[i].
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

std::string shortened_names(const std::vector<std::string>& names) {
  constexpr size_t kShown = 12;
  const auto end = names.begin() + std::min<int64_t>(std::ssize(names), kShown);
  const std::string text = fmt::format("{}", fmt::join(names.begin(), end, ", "));
  return names.size() > kShown ? text + ", ..." : text;
}

std::string shortened(const std::vector<std::string>& errors) {
  constexpr size_t kShown = 5;
  std::string text;
  for (size_t i = 0; i < std::min(errors.size(), kShown); ++i)
    text += (i == 0 ? "" : "; ") + errors[i];
  return errors.size() > kShown ? fmt::format("{}; and {} more", text, errors.size() - kShown)
                                : text;
}

// Removes the pictures that have an error.
void drop(LabelledSet& set, std::vector<uint8_t>& bytes, const std::vector<std::string>& errors,
          int64_t numbers) {
  int64_t kept = 0;
  for (int64_t i = 0; i < set.size(); ++i) {
    const auto from = static_cast<size_t>(i);
    if (!errors[from].empty()) continue;
    if (kept < i) std::copy_n(&bytes[from * numbers], numbers, &bytes[kept * numbers]);
    set.labels[static_cast<size_t>(kept++)] = set.labels[from];
  }
  set.labels.resize(static_cast<size_t>(kept));
  bytes.resize(static_cast<size_t>(kept * numbers));
}

// Reads the files. Appends the error texts of those that were left out.
LabelledSet folder_set(const std::vector<PictureFile>& files, const PictureForm& form,
                       const FolderReading& reading, std::vector<std::string>& damaged) {
  LabelledSet set;
  for (const PictureFile& f : files) set.labels.push_back(f.label);
  const int64_t n = set.size(), numbers = form.numbers();
  auto bytes = std::make_shared<std::vector<uint8_t>>(static_cast<size_t>(n * numbers));
  std::vector<std::string> errors(files.size());
  parallel_for(n, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) try {
        const std::string& path = files[static_cast<size_t>(i)].path;
        write_planes(load_picture(path, {.upright = reading.upright}), form,
                     bytes->data() + i * numbers);
      } catch (const IoError& e) {
        if (!reading.skip_damaged) detail::refuse_damaged(e);
        errors[static_cast<size_t>(i)] = e.what();
      }
  });
  drop(set, *bytes, errors, numbers);
  for (std::string& e : errors)
    if (!e.empty()) damaged.push_back(std::move(e));
  set.bytes = {bytes, bytes->data()};
  return set;
}

// The mean and standard deviation of each channel of a set.
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
    n.std[static_cast<size_t>(c)] = deviation > 1e-6 ? deviation : 1;  // 1 if all pixels are equal
  }
  for (auto c = static_cast<size_t>(form.channels); c < 3; ++c) {  // grey pictures
    n.mean[c] = n.mean[0];
    n.std[c] = n.std[0];
  }
  return n;
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
  check_io(p.train.size() > 0 && p.test.size() > 0,
           "{}: has {} training and {} test pictures; both are needed", path, p.train.size(),
           p.test.size());
  int64_t last = 0;
  for (const LabelledSet* s : {&p.train, &p.test})
    for (const int64_t label : s->labels) {
      check_io(label >= 0 && label < 1000, "{}: a label is {}; labels must be 0 to 999", path,
               label);
      last = std::max(last, label);
    }
  for (int64_t i = 0; i <= last; ++i) p.class_names.push_back(std::to_string(i));
}

// Shuffles the files, so that the first pictures are of all classes.
std::vector<PictureFile> mixed(const std::vector<PictureFile>& files, uint64_t seed) {
  constexpr uint64_t kStream = ~uint64_t{1};  // no epoch has this stream
  std::vector<PictureFile> out;
  for (const int64_t i : permutation(std::ssize(files), Rng(seed).stream(kStream)))
    out.push_back(files[static_cast<size_t>(i)]);
  return out;
}

// "; FOLDER has no x, y": names in `other` that `names` lacks. Empty if there are none.
std::string lacking(const std::string& folder, const std::vector<std::string>& names,
                    const std::vector<std::string>& other) {
  std::vector<std::string> missing;
  std::set_difference(other.begin(), other.end(), names.begin(), names.end(),
                      std::back_inserter(missing));
  return missing.empty() ? "" : fmt::format("; {} has no {}", folder, fmt::join(missing, ", "));
}

void check_same_classes(const std::string& a, const std::vector<std::string>& names_a,
                        const std::string& b, const std::vector<std::string>& names_b) {
  check_io(names_a == names_b, "{} and {}: their classes are not the same{}{}", a, b,
           lacking(a, names_a, names_b), lacking(b, names_b, names_a));
}

void add_remark(LabelledPictures& p, std::string text) {
  if (!text.empty()) p.remarks.push_back(std::move(text));
}

void remark_damaged(LabelledPictures& p, const std::vector<std::string>& damaged) {
  if (!damaged.empty())
    add_remark(p, fmt::format("{} damaged picture{} left out: {}", damaged.size(),
                              damaged.size() == 1 ? " was" : "s were", shortened(damaged)));
}

void remark_left_out(LabelledPictures& p, const std::vector<std::string>& folders) {
  for (const std::string& folder : folders) {
    const size_t count = find_pictures(folder).paths.size();
    add_remark(p, fmt::format("{} was not used; it has {} picture{}", folder, count,
                              count == 1 ? "" : "s"));
  }
}

void check_classes(const std::string& path, const std::vector<std::string>& names) {
  if (names.size() > 1) return;
  const std::string only = path + "/" + names.at(0);
  const std::vector<std::string> inner =
      fs::is_directory(only) ? detail::folders_in(only) : std::vector<std::string>{};
  fail_io(fmt::format("{}: has one class ({}); a classifier needs two{}", path, names[0],
                      inner.empty() ? ""
                                    : fmt::format(". If its folders are the classes ({}), give {}",
                                                  shortened_names(inner), only)));
}

// Moves a fifth of the pictures from `train` to a test set.
std::vector<PictureFile> take_test_share(const std::string& path, std::vector<PictureFile>& train) {
  const auto n = std::ssize(train), held = ceil_div(n, kTestShare);
  check_io(n > held, "{}: {} pictures are too few to hold some out as the test set", path, n);
  std::vector<PictureFile> test(train.begin(), train.begin() + held);
  train.erase(train.begin(), train.begin() + held);
  return test;
}

UnusedFiles sum_of(UnusedFiles a, const UnusedFiles& b) {
  for (const auto& [kind, count] : b) a[kind] += count;
  return a;
}

void read_folders(const std::string& path, uint64_t seed, const FolderReading& reading,
                  LabelledPictures& p) {
  const detail::PictureSplits splits = detail::find_splits(path);
  check_io(
      !splits.train.empty(),
      "{}: holds a test set ({}) but no training set; to train on that folder, rename it to train",
      path, splits.test);
  const PictureFolder all = open_picture_folder(splits.train);
  p.class_names = all.class_names;
  UnusedFiles unused = sum_of(all.unused, splits.unused);
  std::vector<PictureFile> train = mixed(all.files, seed), test;
  if (!splits.test.empty()) {
    check_io(!detail::folders_in(splits.test).empty(),
             "{}: its pictures are not in folders of classes, so they cannot test a model; give "
             "only {} as the data",
             splits.test, splits.train);
    const PictureFolder other = open_picture_folder(splits.test);
    check_same_classes(splits.test, other.class_names, splits.train, all.class_names);
    test = mixed(other.files, seed);
    unused = sum_of(unused, other.unused);
    if (fs::path(splits.test).filename() != "test")
      add_remark(p, fmt::format("the test images are those of {}", splits.test));
  } else {
    test = take_test_share(path, train);
    p.note = fmt::format(" (one in {}, chosen by the seed)", kTestShare);
    p.split_by_seed = true;
  }
  std::vector<std::string> damaged;
  p.train = folder_set(train, p.form, reading, damaged);
  p.test = folder_set(test, p.form, reading, damaged);
  check_io(p.train.size() > 0 && p.test.size() > 0, "{}: too many pictures are damaged: {}", path,
           shortened(damaged));
  add_remark(p, unused_text(unused));
  remark_left_out(p, splits.left_out);
  remark_damaged(p, damaged);
}

// Gives files the labels of a model's classes, by name.
void relabel(const std::string& path, PictureFolder& folder, const std::vector<std::string>& names,
             LabelledPictures& p) {
  std::vector<int64_t> labels;
  for (const std::string& name : folder.class_names) {
    const auto found = std::find(names.begin(), names.end(), name);
    check_io(found != names.end(),
             "{}: its folder {} is not one of the classes that the model was trained on: {}", path,
             name, shortened_names(names));
    labels.push_back(found - names.begin());
  }
  for (PictureFile& f : folder.files) f.label = labels[static_cast<size_t>(f.label)];
  std::vector<std::string> missing;
  for (const std::string& name : names)
    if (std::find(folder.class_names.begin(), folder.class_names.end(), name) ==
        folder.class_names.end())
      missing.push_back(name);
  if (!missing.empty())
    add_remark(p, fmt::format("{} has no pictures of {}", path, shortened_names(missing)));
}

}  // namespace

LabelledPictures::LabelledPictures(const Cifar10& set, int64_t side)
    : form{.side = side},
      class_names(set.class_names),
      train(cifar_set(set.train, form)),
      test(cifar_set(set.test, form)) {}

LabelledPictures load_labelled_pictures(const std::string& path, int64_t side, uint64_t seed,
                                        const FolderReading& reading) {
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
    read_folders(path, seed, reading, p);
  check_classes(path, p.class_names);
  p.form.classes = std::ssize(p.class_names);
  p.form.normalization = measured(p.train, p.form);
  return p;
}

LabelledPictures load_test_pictures(const std::string& path, const PictureForm& form,
                                    const std::vector<std::string>& class_names, uint64_t seed,
                                    const FolderReading& reading) {
  LabelledPictures p;
  if (labelled_kind(path) != "pictures") {
    p = load_labelled_pictures(path, form.side, seed);
    p.train = {};
    return p;
  }
  p.kind = "pictures";
  p.form.side = form.side;
  p.form.channels = form.channels;
  const detail::PictureSplits splits = detail::find_splits(path);
  const std::string& from = splits.test.empty() ? splits.train : splits.test;
  PictureFolder folder = open_picture_folder(from);
  if (!class_names.empty()) relabel(from, folder, class_names, p);
  p.class_names = class_names.empty() ? folder.class_names : class_names;
  std::vector<std::string> damaged;
  p.test = folder_set(mixed(folder.files, seed), p.form, reading, damaged);
  check_io(p.test.size() > 0, "{}: all of its pictures are damaged: {}", from, shortened(damaged));
  p.form.classes = std::ssize(p.class_names);
  p.form.normalization = measured(p.test, p.form);
  p.note =
      splits.test.empty() ? fmt::format(" (all of {})", from) : fmt::format(" (those of {})", from);
  add_remark(p, unused_text(sum_of(folder.unused, splits.unused)));
  if (!splits.train.empty() && !splits.test.empty()) remark_left_out(p, {splits.train});
  remark_left_out(p, splits.left_out);
  remark_damaged(p, damaged);
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

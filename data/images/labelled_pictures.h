// Labelled pictures of any kind, recognised by the files at a path, in memory as bytes of one form.
//
//   datasets::LabelledPictures set = datasets::load_labelled_pictures("pictures/", 64);
//   auto loader = datasets::labelled_loader(set.train.dataset(set.form), set.form,
//                                       {.augment = datasets::AugmentOptions::named("standard")});
//   for (datasets::Batch& batch : loader) loss(model(batch.images), batch.labels);
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tern/data/images/cifar10.h"
#include "tern/data/images/labelled_loader.h"
#include "tern/data/images/picture.h"

namespace tern::datasets {

struct LabelledSet {
  std::shared_ptr<const uint8_t> bytes;  ///< (N, channels, side, side)
  std::vector<int64_t> labels;
  int64_t size() const { return std::ssize(labels); }
  Dataset<LabelledPicture> dataset(const PictureForm& form) const;
};

struct LabelledPictures {
  std::string kind = "CIFAR-10";  ///< or "CIFAR-100", "MNIST", "pictures"
  std::string note;               ///< how the test set was chosen, if it was not given
  bool split_by_seed = false;     ///< whether the seed chose the test set among all pictures
  /// Sentences about a folder: unused files, damaged pictures that were left out, which part of the
  /// set is the test set.
  std::vector<std::string> remarks;
  PictureForm form;
  std::vector<std::string> class_names;
  LabelledSet train, test;

  LabelledPictures() = default;
  /// From CIFAR-10, with the default normalization. Shares the bytes unless they are resized.
  LabelledPictures(const Cifar10& set, int64_t side = kImageSide);  // NOLINT: implicit
};

/// The kind of set at a path: "CIFAR-10" or "CIFAR-100" (a folder or an archive, as load_cifar10
/// and load_cifar100 say), "MNIST" (also similar sets, see load_mnist), or "pictures": .png and
/// .jpg files in a folder for each class. Otherwise an IoError says what was looked for, and for an
/// archive of another format which command unpacks it.
std::string labelled_kind(const std::string& path);

/// How the pictures in folders are read.
struct FolderReading {
  bool upright = true;  ///< DecodeOptions::upright
  /// true: leaves out unreadable pictures and lists them in `remarks`. false: the first one is an
  /// error. The split of the other pictures into training and test set is the same.
  bool skip_damaged = false;
};

/// The usual side: 28 for MNIST, 32 for CIFAR, and 16 to 48 for folders, by the median of some
/// files.
int64_t usual_side(const std::string& path, const std::string& kind,
                   const FolderReading& reading = {});

/// Reads a set and resizes its pictures to side x side. Folders of classes may be in a training
/// folder and a test folder with usual names in any case, such as train or training; test, testing,
/// val, valid, validation, dev or eval. If there are test and validation pictures, the test
/// pictures are the test set. Without either, a fifth of the pictures, chosen by the seed, is the
/// test set. The order of pictures from folders is random, so that the first pictures are of all
/// classes. The mean and deviation of the training set normalise all sets except CIFAR-10.
LabelledPictures load_labelled_pictures(const std::string& path, int64_t side, uint64_t seed = 0,
                                        const FolderReading& reading = {});

/// The pictures at a path for testing a trained model: the test set, or all pictures of folders
/// without one. `train` is empty. Pictures from folders get the side and channels of the model's
/// `form`, and the index of their class in `class_names` as label. Some classes may have no folder;
/// a folder without a class is an IoError. If `class_names` is empty, the folders are the classes.
LabelledPictures load_test_pictures(const std::string& path, const PictureForm& form,
                                    const std::vector<std::string>& class_names, uint64_t seed = 0,
                                    const FolderReading& reading = {});

/// Writes the planes of a picture: resizes its shorter side and crops the middle. A single channel
/// is the luminance.
void write_planes(const Picture& picture, const PictureForm& form, uint8_t* out);

}  // namespace tern::datasets

// Labelled pictures of any kind, known by what lies at a path, in memory as bytes of one form.
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

#include "tern/data/images/image_loader.h"
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
  std::string note;               ///< how the test set was chosen, if that is not given
  /// What else is to be known of a folder: files that were not used, damaged pictures that were
  /// left out, which part of the set is the test set. Each is a sentence.
  std::vector<std::string> remarks;
  PictureForm form;
  std::vector<std::string> class_names;
  LabelledSet train, test;

  LabelledPictures() = default;
  /// Of CIFAR-10, with the default normalization. The bytes are shared where they are not resized.
  LabelledPictures(const Cifar10& set, int64_t side = kImageSide);  // NOLINT: implicit
};

/// What lies at a path: "CIFAR-10" or "CIFAR-100" (a folder or an archive, as load_cifar10 and
/// load_cifar100 say), "MNIST" (and its like, see load_mnist), or "pictures": .png and .jpg files
/// in a folder for each class. IoError that says what was looked for if it is none of these; an
/// archive of another kind is called by its name, with the command that unpacks it.
std::string labelled_kind(const std::string& path);

/// How the pictures in folders are read.
struct FolderReading {
  bool upright = true;  ///< DecodeOptions::upright
  /// Leaves out the pictures that cannot be read, and says which, where the first one would be an
  /// error otherwise. Which pictures of the others are tested stays the same.
  bool skip_damaged = false;
};

/// The side that suits them: that of the files, but 16 to 48 for folders of pictures.
int64_t usual_side(const std::string& path, const std::string& kind,
                   const FolderReading& reading = {});

/// Reads a set and resizes its pictures to side x side. Folders of classes may be in a folder of
/// training and one of test pictures, of the usual names in any case: train or training; test,
/// testing, val, valid or validation (where there are two of these, test is the test set). Where
/// they are not, a fifth of the pictures, chosen by the seed, is the test set. The classes of
/// folders stand mixed, so that the first pictures are of all of them. All but CIFAR-10 are
/// normalised by mean and deviation of the training set.
LabelledPictures load_labelled_pictures(const std::string& path, int64_t side, uint64_t seed = 0,
                                        const FolderReading& reading = {});

/// The pictures at a path that a trained model is tested on: the test set, or all of folders that
/// have none apart. `train` is empty. `form` is the model's: those of folders get its side and
/// channels. So are `class_names`: labels count these, and the folders may be fewer. IoError for a
/// folder that is none of them. If it is empty, the folders are the classes.
LabelledPictures load_test_pictures(const std::string& path, const PictureForm& form,
                                    const std::vector<std::string>& class_names, uint64_t seed = 0,
                                    const FolderReading& reading = {});

/// Writes the planes of a picture: the shorter side is resized, the middle is cut out. One channel
/// is the luminance.
void write_planes(const Picture& picture, const PictureForm& form, uint8_t* out);

}  // namespace tern::datasets

// Labelled pictures of any kind that `data` reads, in memory as bytes of one form.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tern/apps/train_cifar/config.h"
#include "tern/data/images/cifar10.h"
#include "tern/data/images/picture.h"
#include "tern/data/loading/dataset.h"

namespace tern::apps::train_cifar {

/// A picture: its planes one after the other, each by rows from the top.
struct Sample {
  std::shared_ptr<const uint8_t> bytes;  ///< (channels, side, side); keeps alive its set
  int64_t label = 0;
};

struct PictureSet {
  std::shared_ptr<const uint8_t> bytes;  ///< (N, channels, side, side)
  std::vector<int64_t> labels;
  int64_t size() const { return std::ssize(labels); }
};

struct Pictures {
  std::string kind = "CIFAR-10";  ///< "MNIST", "pictures"
  std::string note;               ///< how the test images were chosen, if that is not given
  PictureForm form;
  std::vector<std::string> class_names;
  PictureSet train, test;

  Pictures() = default;
  /// Of CIFAR-10, whose bytes are shared where they are not resized; normalised as it always was.
  Pictures(const data::Cifar10& set, int64_t side = data::kImageSide);  // NOLINT: implicit
};

/// What lies at a path: "CIFAR-10" or "CIFAR-100" (a folder or an archive, as load_cifar10 and
/// load_cifar100 say), "MNIST" (and its like, see load_mnist), or "pictures": .png and .jpg files
/// in a folder for each class. IoError that says what was looked for if it is none of these.
std::string kind_of_pictures(const std::string& path);

/// The side that suits them: that of the files, 16 to 64 for folders of pictures.
int64_t usual_side(const std::string& path, const std::string& kind);

/// Reads a set and resizes its pictures to side x side. Folders of classes are in train/ and test/
/// (or val/ or valid/). Where they are not, a fifth of the pictures, chosen by the seed, is the
/// test set. The classes of folders stand mixed, so that --limit takes some of each. All but
/// CIFAR-10 are normalised by mean and deviation of the training set.
Pictures load_pictures(const std::string& path, int64_t side, uint64_t seed);

/// Writes the planes of a picture: the shorter side is resized, the middle is cut out. One channel
/// is the luminance.
void write_planes(const data::Picture& picture, const PictureForm& form, uint8_t* out);

/// Of every byte of pictures and labels, so that a run goes on with the data it was started with.
std::string data_checksum(const Pictures& data);

}  // namespace tern::apps::train_cifar

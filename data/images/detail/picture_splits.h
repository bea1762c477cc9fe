// Finds the training and test set among folders of pictures. Inside of data only.
#pragma once

#include <string>
#include <vector>

#include "tern/core/base/error.h"
#include "tern/data/images/picture_folder.h"

namespace tern::datasets::detail {

struct PictureSplits {
  std::string train;                  ///< the folder with the folders of classes
  std::string test;                   ///< the same for the test set; empty if there is none
  std::vector<std::string> left_out;  ///< other folders beside these two
  UnusedFiles unused;                 ///< files beside the folders of the parts
};

/// The names of the folders in a folder, without hidden ones, in ascending order. `unused` becomes
/// the number of all else in it.
std::vector<std::string> folders_in(const std::string& path, UnusedFiles* unused = nullptr);

/// Finds the parts of the set in a folder by their usual names in any case: train, training,
/// trainset; test, testing, testset; val, valid, validation, valset, dev, eval; or these as a word
/// of a name, as in seg_train. If there are test/ and validation folders, test/ is the test set.
/// Without parts, the folder itself is `train`. Without a training set, `train` is empty. IoError
/// if it is unclear whether folders are parts or classes.
PictureSplits find_splits(const std::string& path);

/// Throws the error of a damaged picture again, with the way to leave such pictures out.
[[noreturn]] void refuse_damaged(const IoError& error);

}  // namespace tern::datasets::detail

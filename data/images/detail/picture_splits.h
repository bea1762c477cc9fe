// Which folders of pictures are parts of one set. Inside of data only.
#pragma once

#include <string>
#include <vector>

namespace tern::datasets::detail {

struct PictureSplits {
  std::string train;                  ///< the folder with the folders of classes
  std::string test;                   ///< the same of the test set; empty if there is none
  std::vector<std::string> left_out;  ///< other folders beside these two
};

/// The names of the folders in a folder, without hidden ones, in ascending order.
std::vector<std::string> folders_in(const std::string& path);

/// The parts of the set in a folder, known by their usual names in any case (train, training; test,
/// testing; val, valid, validation; these as a word of a name, as in seg_train). The test set is
/// test/ where there is validation/, too. Without parts, the folder itself is `train`. Without a
/// training set, `train` is empty. IoError where it cannot be told whether folders are parts or
/// classes.
PictureSplits find_splits(const std::string& path);

}  // namespace tern::datasets::detail

// The options of export_onnx() (onnx.h).
#pragma once

#include <map>
#include <string>
#include <vector>

namespace tern {

class AtomicFiles;

struct OnnxOptions {
  /// Names of the inputs and outputs. Default: "input" and "output", with _0, _1, ... if several.
  std::vector<std::string> inputs = {}, outputs = {};
  /// Names of the sizes that differ between examples, in the order in which they first appear in
  /// the inputs. Default: N, T, then size_2, ...
  std::vector<std::string> sizes = {};
  /// 17, which most programs read, or 23 of 2025, which has attention, RMSNorm and GELU as ops of
  /// their own.
  int opset = 17;
  /// Weights in a file of their own, PATH.data, beside the model. Always so from 2 GiB on.
  bool separate_weights = false;
  /// Properties of the model that its users may read, such as the names of classes.
  std::map<std::string, std::string> metadata = {};
  /// For models that belong together, as an encoder and a decoder: takes their files, and moves all
  /// into place by its commit(). Null: the export itself moves its file.
  AtomicFiles* files = nullptr;
};

}  // namespace tern

// How an op of tern is written in ONNX; the table of all is in forms.cpp. Inside of onnx only.
#pragma once

#include <string_view>

namespace tern::onnx {

class Emitter;

struct Form {
  std::string_view op;      ///< tern's name
  void (*write)(Emitter&);  ///< null: only results that are constants can be written
  const char* onnx = "";    ///< for forms that many ops share: the op in ONNX
  int since = 17;           ///< the first opset that has it; before, the op is written as its parts

  /// Whether the result has the elements of the first input.
  bool is_copy() const { return op == "clone"; }
};

/// Null if there is none in this opset.
const Form* find_form(std::string_view op, int opset);

}  // namespace tern::onnx

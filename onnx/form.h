// How an op of tern is written in ONNX; the table of all is in forms.cpp. Inside of onnx only.
#pragma once

#include <string_view>

namespace tern::onnx {

class Emitter;

struct Form {
  std::string_view op;      ///< tern's name
  void (*write)(Emitter&);  ///< null: only results that are constants can be written
  const char* onnx = "";    ///< for forms that many ops share: the op in ONNX

  /// Whether the result has the elements of the first input.
  bool is_copy() const { return op == "clone"; }
};

/// Null if there is none.
const Form* find_form(std::string_view op);

}  // namespace tern::onnx

// The forms of tern's ops in ONNX: one row per op. Inside of onnx only.
#pragma once

#include <string_view>

namespace tern::onnx {

class Emitter;

struct Form {
  std::string_view op;      ///< tern's name
  void (*write)(Emitter&);  ///< null: only results that are constants can be written
  const char* onnx = "";    ///< for forms that many ops share: the op in ONNX

  /// Whether the result has the elements of the first input.
  bool is_copy() const;
};

/// Null if there is none.
const Form* find_form(std::string_view op);

/// Whether two ops are written the same way, as view and reshape.
bool same_form(std::string_view a, std::string_view b);

}  // namespace tern::onnx

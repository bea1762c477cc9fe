// Errors of AnyLayer: as<T>() with a wrong type, and use after a move.
#include "tern/nn/any_layer.h"

namespace tern::nn::detail {

void fail_other_layer(const std::type_info& is, const std::type_info& wanted) {
  fail(fmt::format("AnyLayer: the layer is a {}, not a {}", short_name(is), short_name(wanted)));
}

void fail_moved_layer() {
  fail(
      "AnyLayer: its layer was moved to another object; use that object, or copy instead of "
      "moving");
}

}  // namespace tern::nn::detail

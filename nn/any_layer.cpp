// Assignment of AnyLayer. Its errors: as<T>() with a wrong type, and use after a move.
#include "tern/nn/any_layer.h"

namespace tern::nn {
namespace {

// The model no longer uses these weights: optimizers and averages that hold them can tell.
void retire(const detail::HeldLayer& layer) {
  for (const detail::Slot& slot : layer.fields())
    std::visit(
        [](const auto* field) {
          if constexpr (requires { field->own(); })
            if (field->defined()) field->own().ref()->storage->retire();
        },
        slot.field);
}

}  // namespace

AnyLayer& AnyLayer::operator=(const AnyLayer& other) {
  if (this == &other) return *this;
  const bool same = held_ && held_->type() == other.held().type();
  if (same && held_->assign(other.held())) return *this;
  return *this = AnyLayer(other);
}

AnyLayer& AnyLayer::operator=(AnyLayer&& other) {
  if (this == &other) return *this;
  const bool same = held_ && other.held_ && held_->type() == other.held_->type();
  if (same && held_->assign(*other.held_)) return *this;
  if (held_) retire(*held_);
  held_ = std::move(other.held_);
  return *this;
}

}  // namespace tern::nn

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

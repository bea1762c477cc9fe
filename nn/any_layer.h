// A layer whose type is chosen at run time: any module or function object that takes a const
// Tensor& and returns a Tensor.
//
//   nn::AnyLayer layer = nn::Linear(8, 8, rng);
//   if (deep) layer = Mlp(8, 64, rng);
//   Tensor y = layer(x);
//   if (layer.is<Mlp>()) layer.as<Mlp>().up.weight ...
//
// It is a module like the one it holds: every walk of module.h sees that module's fields under the
// same names. A copy has its own layer and weights. Lists of AnyLayer: dynamic_sequential.h and
// module_dict.h. If the types are known at compile time, prefer sequential.h, std::vector<Layer> or
// std::variant: the compiler checks these, and there is no virtual call.
#pragma once

#include <memory>
#include <string_view>
#include <type_traits>
#include <typeinfo>
#include <utility>

#include "tern/nn/module.h"
#include "tern/nn/print.h"

namespace tern::nn {
namespace detail {

/// A layer behind virtual functions.
struct HeldLayer {
  virtual ~HeldLayer() = default;
  virtual Tensor call(const Tensor& x) const = 0;
  virtual std::unique_ptr<HeldLayer> clone() const = 0;
  /// Assigns a layer of the same type; false if the type has no such assignment.
  virtual bool assign(const HeldLayer& other) = 0;
  virtual const std::type_info& type() const = 0;
  virtual Slots fields() const = 0;
  virtual void outline(Outliner& out, std::string_view name) const = 0;
  virtual void* address() = 0;
};

template <class L>
struct Held final : HeldLayer {
  explicit Held(L l) : layer(std::move(l)) {}
  Tensor call(const Tensor& x) const override { return layer(x); }
  std::unique_ptr<HeldLayer> clone() const override { return std::make_unique<Held>(layer); }
  bool assign(const HeldLayer& other) override {
    if constexpr (std::is_copy_assignable_v<L>) layer = static_cast<const Held&>(other).layer;
    return std::is_copy_assignable_v<L>;
  }
  const std::type_info& type() const override { return typeid(L); }
  Slots fields() const override {
    Slots out;
    Collector(out, "")("", layer);
    return out;
  }
  void outline(Outliner& out, std::string_view name) const override { out(name, layer); }
  void* address() override { return &layer; }
  L layer;
};

[[noreturn]] void fail_other_layer(const std::type_info& is, const std::type_info& wanted);
[[noreturn]] void fail_moved_layer();

}  // namespace detail

class AnyLayer {
 public:
  template <class L>
  requires(!std::is_same_v<std::remove_cvref_t<L>, AnyLayer>) AnyLayer(L layer)  // NOLINT: implicit
      : held_(std::make_unique<detail::Held<L>>(std::move(layer))) {
    static_assert(std::is_invocable_r_v<Tensor, const L&, const Tensor&>,
                  "an AnyLayer holds a layer that takes a const Tensor& and returns a Tensor; wrap "
                  "other layers in a module that does");
    static_assert(std::is_copy_constructible_v<L>,
                  "a copy of an AnyLayer copies its layer, so the layer must be copyable");
  }
  AnyLayer(const AnyLayer& other) : held_(other.held().clone()) {}
  AnyLayer(AnyLayer&&) noexcept = default;
  /// Assigning a layer of the same type writes into the existing weights, as for a layer that is
  /// not in an AnyLayer: optimizers and averages still see them. Otherwise it takes the new layer,
  /// and an optimizer that holds the old one refuses its next step.
  AnyLayer& operator=(const AnyLayer& other);
  AnyLayer& operator=(AnyLayer&& other);
  ~AnyLayer() = default;

  Tensor operator()(const Tensor& x) const { return held().call(x); }

  template <class L>
  bool is() const {
    return held().type() == typeid(L);
  }
  /// The layer itself. Error if it has another type; names both types.
  template <class L>
  L& as() {
    return *static_cast<L*>(checked(typeid(L)));
  }
  template <class L>
  const L& as() const {
    return *static_cast<const L*>(checked(typeid(L)));
  }
  const std::type_info& type() const { return held().type(); }

  static void fields(auto& m, auto&& visit) {
    for (const detail::Slot& slot : m.held().fields())
      std::visit([&](auto* field) { visit(slot.name, *field); }, slot.field);
  }
  /// For printing: prints the held layer instead of this.
  void outline(detail::Outliner& out, std::string_view name) const { held().outline(out, name); }

 private:
  detail::HeldLayer& held() const {
    if (!held_) detail::fail_moved_layer();
    return *held_;
  }
  void* checked(const std::type_info& wanted) const {
    if (held().type() != wanted) detail::fail_other_layer(held().type(), wanted);
    return held().address();
  }
  std::unique_ptr<detail::HeldLayer> held_;
};

}  // namespace tern::nn

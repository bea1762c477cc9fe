// Models as text: fmt::print("{}", model) shows the tree of modules, as PyTorch does, with the
// shapes of all parameters and buffers and the number of trained values of every module:
//
//   Mlp(
//     (up): Linear(weight (64, 2), bias (64,)) 192
//     (down): Linear(weight (2, 64), bias (2,)) 130
//   ) 322 parameters
//
// Equal layers of a list are shown once: "(blocks.0-11): 12 x GmlpBlock(...) 330,624 each". A
// shared parameter counts at its first place; elsewhere it is shown as "weight = src_embed.weight".
#pragma once

#include <string>
#include <string_view>
#include <typeinfo>
#include <utility>
#include <vector>

#include "tern/nn/module.h"

namespace tern::nn {
namespace detail {

/// 1234567 as "1,234,567".
std::string with_commas(int64_t n);

/// "Linear" for tern::nn::Linear, "Sequential" for tern::nn::Sequential<...>.
std::string short_name(const std::type_info& type);

/// A module for printing: its type, its own tensors, its modules.
struct Outline {
  struct Field {
    std::string name;
    const OwnedTensor* tensor;
    bool is_buffer;
  };
  std::string name;
  const std::type_info* type;
  bool held = false;  ///< in evaluation by freeze()
  std::vector<Field> tensors = {};
  std::vector<Outline> modules = {};
};

/// Walks the fields of one module.
class Outliner {
 public:
  explicit Outliner(Outline& out, std::string list = "") : out_(out), list_(std::move(list)) {}

  template <class Field>
  void operator()(std::string_view name, Field& field) {
    using T = std::remove_const_t<Field>;
    if constexpr (std::is_base_of_v<OwnedTensor, T>) {
      if (field.defined())
        out_.tensors.push_back({list_ + std::string(name), &field, std::is_same_v<T, Buffer>});
    } else if constexpr (std::is_same_v<T, TrainingMode>) {
      out_.held = out_.held || field.held();
    } else if constexpr (is_slot<T>) {
      return;  // a generator
    } else if constexpr (requires { field.outline(*this, name); }) {
      field.outline(*this, name);  // prints what it holds: AnyLayer
    } else if constexpr (HasFields<T>) {
      if (name.empty()) return T::fields(field, *this);  // part of this module
      T::fields(field, module<T>(name));
    } else if constexpr (is_a<T, std::optional> || is_a<T, std::unique_ptr>) {
      if (field) (*this)(name, *field);
    } else if constexpr (is_a<T, std::vector> || is_array<T>) {
      Outliner elements = list(name);
      for (size_t i = 0; i < field.size(); ++i) elements(std::to_string(i), field[i]);
    } else if constexpr (is_a<T, std::tuple>) {
      std::apply([elements = list(name),
                  i = 0](auto&... each) mutable { (elements(std::to_string(i++), each), ...); },
                 field);
    } else if constexpr (is_a<T, std::variant>) {
      std::visit([&](auto& each) { (*this)(name, each); }, field);
    } else {
      module<T>(name);
    }
  }

 private:
  template <class T>
  Outliner module(std::string_view name) {
    out_.modules.push_back({list_ + std::string(name), &typeid(T)});
    return Outliner(out_.modules.back());
  }
  /// Elements of a list belong to the same module, with longer names.
  Outliner list(std::string_view name) const {
    return Outliner(out_, name.empty() ? list_ : list_ + std::string(name) + ".");
  }
  Outline& out_;
  std::string list_;
};

/// `fields`: the walk of the same model.
std::string to_string(const Outline& model, const Slots& fields);

}  // namespace detail

/// The text that fmt::print("{}", model) prints. Gives parameters their names, as any module walk.
template <detail::HasFields M>
std::string to_string(const M& model) {
  const detail::Slots fields = detail::walk(model);
  detail::Outline out{"", &typeid(M)};
  M::fields(model, detail::Outliner(out));
  return detail::to_string(out, fields);
}

}  // namespace tern::nn

template <tern::nn::detail::HasFields M>
struct fmt::formatter<M> {
  constexpr auto parse(fmt::format_parse_context& ctx) { return ctx.begin(); }
  auto format(const M& model, fmt::format_context& ctx) const {
    std::string s = tern::nn::to_string(model);
    return std::copy(s.begin(), s.end(), ctx.out());
  }
};

/// A Parameter or Buffer prints as its tensor.
template <std::derived_from<tern::nn::OwnedTensor> P>
struct fmt::formatter<P> : fmt::formatter<tern::Tensor> {
  auto format(const P& p, fmt::format_context& ctx) const {
    return fmt::formatter<tern::Tensor>::format(p.own(), ctx);
  }
};

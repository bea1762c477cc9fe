// Modules are plain structs. The only thing a module must say is which fields it has:
//
//   struct Mlp {
//     nn::Linear up, down;
//     Mlp(int64_t dim, int64_t hidden, Rng& rng) : up(dim, hidden, rng), down(hidden, dim, rng) {}
//     Tensor operator()(const Tensor& x) const { return down(gelu(up(x))); }
//     static void fields(auto& m, auto&& visit) { visit("up", m.up); visit("down", m.down); }
//   };
//
// A field is a Parameter, a Buffer, another module, or an optional, vector, array, tuple, variant
// or unique_ptr of these (elements of the three lists are named 0, 1, ...; what is empty is passed
// by); also a `bool` that says whether the module is in training, and an Rng that it draws from.
// Names are joined by dots: "up.weight". A field visited as "" gives its names without a prefix.
//
// A walk sees the fields of the type it is given. A unique_ptr<Base> that may own a Derived would
// lose those of Derived: it does not compile (a std::variant of the layers does), and a Derived
// that comes as a Base& is an Error. A Parameter that `fields` forgets is found by the first step()
// of an optimizer after a backward pass that reached it (optim/optimizer.h), and so is a copy that
// is trained in place of the original, as by `for (auto layer : layers) x = layer(x)`.
//
// A parameter that is used in two places is one Parameter; it may be visited under a second name
// ("generator.weight"): it is counted, trained and saved once, under the first, and loads from
// either.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <variant>
#include <vector>

#include "tern/core/io/state.h"
#include "tern/nn/parameter.h"

namespace tern {
class Rng;
}

namespace tern::nn {
namespace detail {

/// One thing the walk has found.
struct Slot {
  std::string name;
  std::variant<Parameter*, Buffer*, bool*, Rng*> field;
};
using Slots = std::vector<Slot>;

struct AnyVisitor {
  void operator()(std::string_view, auto&) {}
};

template <class M>
concept HasFields = requires(M& m, AnyVisitor visit) {
  M::fields(m, visit);
};

template <class T>
constexpr bool is_slot = std::is_same_v<T, Parameter> || std::is_same_v<T, Buffer> ||
                         std::is_same_v<T, bool> || std::is_same_v<T, Rng>;

template <class T, template <class...> class Template>
constexpr bool is_a = false;
template <template <class...> class Template, class... Args>
constexpr bool is_a<Template<Args...>, Template> = true;
template <class T>
constexpr bool is_array = false;
template <class T, std::size_t n>
constexpr bool is_array<std::array<T, n>> = true;

/// Whether T is a unique_ptr to a class that others may be derived from.
template <class T>
constexpr bool may_own_derived = false;
template <class T, class D>
constexpr bool may_own_derived<std::unique_ptr<T, D>> =
    std::is_polymorphic_v<T> && !std::is_final_v<T>;

[[noreturn]] void fail_derived(const std::string& name);

class Collector {
 public:
  Collector(Slots& out, std::string prefix) : out_(out), prefix_(std::move(prefix)) {}

  template <class Field>
  void operator()(std::string_view name, Field& field) {
    using T = std::remove_const_t<Field>;
    if constexpr (is_slot<T>) {
      out_.push_back({named(name), const_cast<T*>(&field)});
    } else if constexpr (HasFields<T>) {
      if constexpr (std::is_polymorphic_v<T>)
        if (typeid(field) != typeid(T)) fail_derived(named(name));
      Collector inner = nested(name);
      T::fields(field, inner);
    } else if constexpr (is_a<T, std::optional> || is_a<T, std::unique_ptr>) {
      static_assert(!may_own_derived<T>,
                    "the walk would miss the fields of classes derived from what this unique_ptr "
                    "points to; hold a std::variant of the layers, or make the class final");
      if (field) (*this)(name, *field);
    } else if constexpr (is_a<T, std::vector> || is_array<T>) {
      Collector inner = nested(name);
      for (size_t i = 0; i < field.size(); ++i) inner(std::to_string(i), field[i]);
    } else if constexpr (is_a<T, std::tuple>) {
      Collector inner = nested(name);
      std::apply([&, i = 0](auto&... each) mutable { (inner(std::to_string(i++), each), ...); },
                 field);
    } else if constexpr (is_a<T, std::variant>) {
      std::visit([&](auto& each) { (*this)(name, each); }, field);
    } else {
      // Function objects without state have nothing to visit.
      static_assert(std::is_empty_v<T>,
                    "this field is no Parameter, Buffer, module (it has no "
                    "`fields`), bool, Rng, or container of these");
    }
  }

 private:
  Collector nested(std::string_view name) const {
    return {out_, name.empty() ? prefix_ : named(name) + '.'};
  }
  std::string named(std::string_view name) const {
    std::string s = prefix_;
    s += name;  // not a sum: g++ 12 at -O3 warns of overlapping copies there
    return s;
  }
  Slots& out_;
  std::string prefix_;
};

/// An Error if two fields have one name. Parameters and buffers learn their names, for errors and
/// profiles (parameter_name() in core/tape/op.h).
void name_fields(const Slots& slots);
/// Notes on the parameters that a walk has found them.
void mark_known(const Slots& slots);

/// Everything in the module, in the order of its fields.
template <class M>
Slots slots(const M& m) {
  Slots out;
  Collector collect(out, "");
  collect("", m);
  name_fields(out);
  mark_known(out);
  return out;
}

NamedTensors named_parameters(const Slots& slots);
NamedTensors named_buffers(const Slots& slots);
NamedTensors state_dict(const Slots& slots);
NamedTensors generator_state(const Slots& slots);
std::vector<Rng*> generators(const Slots& slots);
LoadStateReport load_state_dict(const Slots& slots, const std::string& op,
                                const NamedTensors& state, const LoadStateOptions& options);
void load_generator_state(const Slots& slots, const NamedTensors& state);
void set_training(const Slots& slots, bool on);
void set_requires_grad(const Slots& slots, bool on);
void convert(const Slots& slots, DType dtype);
void save_weights(const Slots& slots, const std::string& path,
                  const std::map<std::string, std::string>& metadata);
LoadStateReport load_weights(const Slots& slots, const std::string& path,
                             const LoadStateOptions& options);

}  // namespace detail

/// The parameters with their names, each once, in the order of the fields.
template <class M>
NamedTensors named_parameters(const M& m) {
  return detail::named_parameters(detail::slots(m));
}

template <class M>
NamedTensors named_buffers(const M& m) {
  return detail::named_buffers(detail::slots(m));
}

template <class M>
std::vector<Tensor> parameters(const M& m) {
  std::vector<Tensor> out;
  for (auto& [name, t] : named_parameters(m)) out.push_back(std::move(t));
  return out;
}

/// Number of trained values, each counted once.
template <class M>
int64_t num_parameters(const M& m) {
  int64_t n = 0;
  for (const auto& [name, t] : named_parameters(m)) n += t.numel();
  return n;
}

/// Parameters and buffers without history. They share their elements with the model, as in
/// PyTorch: clone() what must outlive a training step.
template <class M>
NamedTensors state_dict(const M& m) {
  return detail::state_dict(detail::slots(m));
}

/// Writes `state` into the model; see tern::load_state for what is refused.
template <class M>
LoadStateReport load_state_dict(M& m, const NamedTensors& state,
                                const LoadStateOptions& options = {}) {
  return detail::load_state_dict(detail::slots(m), "load_state_dict", state, options);
}

/// The state of every generator in the model (dropout), an i64 tensor of two each. Beside
/// state_dict() it is what an exact continuation needs.
template <class M>
NamedTensors generator_state(const M& m) {
  return detail::generator_state(detail::slots(m));
}

template <class M>
void load_generator_state(M& m, const NamedTensors& state) {
  detail::load_generator_state(detail::slots(m), state);
}

/// The generators themselves: checkpoint(fn, inputs, {.rngs = nn::generators(module)}).
template <class M>
std::vector<Rng*> generators(const M& m) {
  return detail::generators(detail::slots(m));
}

/// Training (dropout drops, batch norm uses the batch) or evaluation. Models start in training.
/// EvalScope (nn/eval_scope.h) evaluates for a while and puts everything back.
template <class M>
void set_training(M& m, bool on = true) {
  detail::set_training(detail::slots(m), on);
}

/// Freezes all parameters (false) or lets them train again.
template <class M>
void set_requires_grad(M& m, bool on) {
  detail::set_requires_grad(detail::slots(m), on);
}

/// Converts floating parameters and buffers. They get new elements: make optimizers afterwards; the
/// step() of an older one is an Error.
template <class M>
void to(M& m, DType dtype) {
  detail::convert(detail::slots(m), dtype);
}

/// Clears all gradients.
template <class M>
void zero_grad(const M& m) {
  for (const auto& [name, t] : named_parameters(m)) t.zero_grad();
}

/// state_dict() as a safetensors file, with free text beside it.
template <class M>
void save_weights(const std::string& path, const M& m,
                  const std::map<std::string, std::string>& metadata = {}) {
  detail::save_weights(detail::slots(m), path, metadata);
}

/// Loads a safetensors file into the model, PyTorch's too. A file that does not fit is an IoError
/// that lists all differences; the model is then as before.
template <class M>
LoadStateReport load_weights(const std::string& path, M& m, const LoadStateOptions& options = {}) {
  return detail::load_weights(detail::slots(m), path, options);
}

}  // namespace tern::nn

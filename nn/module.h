// Modules are plain structs. A module only has to list its fields:
//
//   struct Mlp {
//     nn::Linear up, down;
//     Mlp(int64_t dim, int64_t hidden, Rng& rng) : up(dim, hidden, rng), down(hidden, dim, rng) {}
//     Tensor operator()(const Tensor& x) const { return down(gelu(up(x))); }
//     static void fields(auto& m, auto&& visit) { visit("up", m.up); visit("down", m.down); }
//   };
//
// A field is a Parameter, a Buffer, another module, or an optional, vector, array, tuple, variant
// or unique_ptr of these. It may also be a TrainingMode, which says whether the module is in
// training, or an Rng that the module draws from. Elements of vectors, arrays and tuples are named
// 0, 1, ...; empty fields are skipped. Names are joined by dots: "up.weight". A field visited as ""
// adds no prefix.
//
// A walk sees the fields of the static type. A unique_ptr<Base> that may own a Derived would lose
// Derived's fields, so it does not compile (use a std::variant of the layers); a Derived passed as
// Base& is an Error. If `fields` forgets a Parameter, the optimizer's first step() after a backward
// pass that reached it finds this (optim/optimizer.h). It also finds a copy that is trained instead
// of the original, as in `for (auto layer : layers) x = layer(x)`.
//
// A parameter used in two places is one Parameter. It may be visited under a second name
// ("generator.weight"). It is counted, trained and saved once, under the first name, and loads from
// either. Hold a part that several models share by a pointer, and visit it as *m.part.
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
#include "tern/nn/training_mode.h"

namespace tern {
class Rng;
}

namespace tern::nn {
namespace detail {

/// An item that the walk found.
struct Slot {
  std::string name;
  std::variant<Parameter*, Buffer*, TrainingMode*, Rng*> field;
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
                         std::is_same_v<T, TrainingMode> || std::is_same_v<T, Rng>;

template <class T, template <class...> class Template>
constexpr bool is_a = false;
template <template <class...> class Template, class... Args>
constexpr bool is_a<Template<Args...>, Template> = true;
template <class T>
constexpr bool is_array = false;
template <class T, std::size_t n>
constexpr bool is_array<std::array<T, n>> = true;

/// Whether T is a unique_ptr to a class that may have derived classes.
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
                    "the walk would miss the fields of classes derived from the class of this "
                    "unique_ptr; hold a std::variant of the layers, or make the class final");
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
      static_assert(
          !std::is_same_v<T, bool>,
          "hold the flag that says whether the module is in training as an nn::TrainingMode, which "
          "converts to bool and which nn::freeze can fix; do not visit other bools");
      static_assert(!is_a<T, std::shared_ptr> && !std::is_pointer_v<T>,
                    "visit a part that several models share as *m.part; copies of the model then "
                    "share it too");
      // Stateless function objects have nothing to visit.
      static_assert(std::is_empty_v<T>,
                    "this field is not a Parameter, Buffer, module (it has no "
                    "`fields`), TrainingMode, Rng, or container of these");
    }
  }

 private:
  Collector nested(std::string_view name) const {
    return {out_, name.empty() ? prefix_ : named(name) + '.'};
  }
  std::string named(std::string_view name) const {
    std::string s = prefix_;
    s += name;  // append: for a sum g++ 12 at -O3 warns of overlapping copies
    return s;
  }
  Slots& out_;
  std::string prefix_;
};

/// Error if two fields have the same name. Gives parameters and buffers their names, for errors and
/// profiles (parameter_name() in core/tape/op.h).
void name_fields(const Slots& walked);
/// Marks the parameters and modes as found by a walk.
void mark_known(const Slots& walked);

/// "body." for "body" and for "body."; "" for "".
std::string dotted(std::string_view prefix);

/// Everything in the module, in field order. The names begin with the prefix and a dot.
template <class M>
Slots walk(const M& m, std::string_view prefix = "") {
  Slots out;
  Collector collect(out, dotted(prefix));
  collect("", m);
  name_fields(out);
  mark_known(out);
  return out;
}

NamedTensors named_parameters(const Slots& walked);
NamedTensors named_buffers(const Slots& walked);
NamedTensors state_dict(const Slots& walked);
NamedTensors generator_state(const Slots& walked);
std::vector<Rng*> generators(const Slots& walked);
LoadStateReport load_state_dict(const Slots& walked, const std::string& op,
                                const NamedTensors& state, const LoadStateOptions& options);
void load_generator_state(const Slots& walked, const NamedTensors& state);
void set_training(const Slots& walked, bool on);
void set_requires_grad(const Slots& walked, bool on);
void set_frozen(const Slots& walked, bool frozen);
void convert(const Slots& walked, DType dtype);
void save_weights(const Slots& walked, const std::string& path,
                  const std::map<std::string, std::string>& metadata);
LoadStateReport load_weights(const Slots& walked, const std::string& path,
                             const LoadStateOptions& options);

}  // namespace detail

/// The parameters with their names, each once, in field order. With a prefix, a part gets the names
/// of the whole model: named_parameters(m.body, "body") has "body.weight". "body." is the same.
template <class M>
NamedTensors named_parameters(const M& m, std::string_view prefix = "") {
  return detail::named_parameters(detail::walk(m, prefix));
}

template <class M>
NamedTensors named_buffers(const M& m, std::string_view prefix = "") {
  return detail::named_buffers(detail::walk(m, prefix));
}

template <class M>
[[nodiscard]] std::vector<Tensor> parameters(const M& m) {
  std::vector<Tensor> out;
  for (auto& [name, t] : named_parameters(m)) out.push_back(std::move(t));
  return out;
}

/// The number of trained values, each counted once.
template <class M>
int64_t num_parameters(const M& m) {
  int64_t n = 0;
  for (const auto& [name, t] : named_parameters(m)) n += t.numel();
  return n;
}

/// Parameters and buffers without history. They share elements with the model, as in PyTorch:
/// clone() those that must outlive a training step.
template <class M>
NamedTensors state_dict(const M& m, std::string_view prefix = "") {
  return detail::state_dict(detail::walk(m, prefix));
}

/// Whether this is the name of a batch norm's count of batches. Files that PyTorch before 0.4.1
/// wrote have none.
inline bool is_batch_count(std::string_view name) { return name.ends_with("num_batches_tracked"); }

/// Writes `state` into the model. Errors: see tern::load_state. A count of batches may be missing,
/// as in PyTorch: the model keeps its own.
template <class M>
LoadStateReport load_state_dict(M& m, const NamedTensors& state,
                                const LoadStateOptions& options = {}) {
  return detail::load_state_dict(detail::walk(m), "load_state_dict", state, options);
}

/// The state of every generator in the model (dropout), as i64 tensors of two elements. Together
/// with state_dict() it allows exact resuming.
template <class M>
NamedTensors generator_state(const M& m, std::string_view prefix = "") {
  return detail::generator_state(detail::walk(m, prefix));
}

template <class M>
void load_generator_state(M& m, const NamedTensors& state) {
  detail::load_generator_state(detail::walk(m), state);
}

/// The generators themselves: checkpoint(fn, inputs, {.rngs = nn::generators(module)}).
template <class M>
std::vector<Rng*> generators(const M& m) {
  return detail::generators(detail::walk(m));
}

/// Sets training (dropout is active, batch norm uses the batch) or evaluation. Models start in
/// training. A frozen part stays in evaluation. EvalScope (nn/eval_scope.h) evaluates temporarily
/// and restores everything.
template <class M>
void set_training(M& m, bool on = true) {
  detail::set_training(detail::walk(m), on);
}

/// Says whether the parameters require a gradient. Dropout and running statistics stay active even
/// without one: freeze() stops them too.
template <class M>
void set_requires_grad(M& m, bool on) {
  detail::set_requires_grad(detail::walk(m), on);
}

/// Stops all changes of a module or part: its parameters require no gradient, and it stays in
/// evaluation (running statistics do not move, dropout does nothing) even if the whole model is set
/// to training, as training::Loop does. Copies are frozen too; assigning to a frozen module writes
/// its weights and leaves it frozen.
template <class M>
void freeze(M& m) {
  detail::set_frozen(detail::walk(m), true);
}
/// Undoes freeze(): all parameters require a gradient, and the mode is the one that set_training()
/// set last.
template <class M>
void unfreeze(M& m) {
  detail::set_frozen(detail::walk(m), false);
}

/// Converts floating parameters and buffers. They get new elements: create optimizers afterwards.
/// The step() of an older optimizer is an Error.
template <class M>
void to(M& m, DType dtype) {
  detail::convert(detail::walk(m), dtype);
}

/// Clears all gradients.
template <class M>
void zero_grad(const M& m) {
  for (const auto& [name, t] : named_parameters(m)) t.zero_grad();
}

/// Writes state_dict() to a safetensors file, with optional metadata.
template <class M>
void save_weights(const std::string& path, const M& m,
                  const std::map<std::string, std::string>& metadata = {}) {
  detail::save_weights(detail::walk(m), path, metadata);
}

/// Loads a file of weights into the model: safetensors, or a state dict of PyTorch (load_tensors).
/// If it does not fit, an IoError lists all differences and the model does not change.
template <class M>
LoadStateReport load_weights(const std::string& path, M& m, const LoadStateOptions& options = {}) {
  return detail::load_weights(detail::walk(m), path, options);
}

}  // namespace tern::nn

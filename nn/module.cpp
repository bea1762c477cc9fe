// Operations on the fields that a module walk lists: parameters and buffers, state_dict, files,
// training mode, freezing, conversion of types.
#include "tern/nn/module.h"

#include <algorithm>
#include <unordered_set>

#include "tern/core/base/rng.h"
#include "tern/core/io/safetensors.h"
#include "tern/core/io/tensor_file.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/core/tape/op.h"
#include "tern/core/tape/record.h"

namespace tern::nn::detail {
namespace {

// The tensors of Parameters and Buffers (or of one kind), each once, or under all names.
template <class... Kinds>
NamedTensors tensors(const Slots& walked, bool all_names = false) {
  NamedTensors out;
  std::unordered_set<const void*> seen;
  auto add = [&](const Slot& slot, const OwnedTensor* t) {
    if (t && (all_names ? t->defined() : t->own().defined() && seen.insert(t).second))
      out.emplace_back(slot.name, t->own());
  };
  for (const Slot& slot : walked) {
    auto get = [&]<class Kind>(Kind*) {
      if (auto* const* field = std::get_if<Kind*>(&slot.field)) add(slot, *field);
    };
    (get(static_cast<Kinds*>(nullptr)), ...);
  }
  return out;
}

template <class Kind, class Fn>
void for_each(const Slots& walked, Fn fn) {
  for (const Slot& slot : walked)
    if (auto* const* field = std::get_if<Kind*>(&slot.field)) fn(slot.name, **field);
}

}  // namespace

std::string dotted(std::string_view prefix) {
  std::string s(prefix);
  if (!s.empty() && s.back() != '.') s += '.';
  return s;
}

void name_fields(const Slots& walked) {
  std::unordered_set<std::string_view> seen;
  for (const Slot& slot : walked)
    check(seen.insert(slot.name).second, "module: two fields are called '{}'", slot.name);
  for (const auto& [name, t] : tensors<Parameter, Buffer>(walked)) set_parameter_name(t, name);
}

void fail_derived(const std::string& name) {
  fail(fmt::format(
      "module: '{}' has a class derived from the one that is walked, and the walk would miss its "
      "fields; walk the derived class itself, or hold a std::variant of the layers",
      name));
}

void mark_known(const Slots& walked) {
  for_each<Parameter>(walked, [](const std::string&, const Parameter& p) {
    if (!p.defined()) return;
    const auto& node = p.own().ref()->node_or_frozen();
    auto* leaf = static_cast<tern::detail::LeafNode*>(node.get());
    if (leaf && !leaf->known) leaf->known = true;  // later walks of other threads only read
  });
  for_each<TrainingMode>(walked, [](const std::string&, TrainingMode& mode) { mode.mark_known(); });
}

NamedTensors named_parameters(const Slots& walked) { return tensors<Parameter>(walked); }

NamedTensors named_buffers(const Slots& walked) { return tensors<Buffer>(walked); }

NamedTensors state_dict(const Slots& walked) {
  NamedTensors out = tensors<Parameter, Buffer>(walked);
  for (auto& [name, t] : out) t = t.detach();
  return out;
}

namespace {

// torch.nn.utils.weight_norm calls a weight's parts weight_g and weight_v. Its successor, whose
// names tern has, reads such files too.
std::string parametrized_name(const std::string& name) {
  for (const std::string old : {"weight_g", "weight_v"})
    if (name == old || name.ends_with("." + old))
      return name.substr(0, name.size() - old.size()) + "parametrizations.weight.original" +
             (old == "weight_g" ? "0" : "1");
  return name;
}

}  // namespace

LoadStateReport load_state_dict(const Slots& walked, const std::string& op,
                                const NamedTensors& state, const LoadStateOptions& options) {
  for (const auto& [name, t] : state)
    check(!grad_enabled() || !t.defined() || !t.requires_grad() || t.is_leaf(),
          "{}: '{}' is a result that requires a gradient, and a parameter would silently drop its "
          "history; give its detach(), put a NoGradGuard around the call, or run the module with "
          "it through nn::WeightsInstead",
          op, name);
  // Second names of tied parameters too: a file may use any of them.
  NamedTensors wanted = tensors<Parameter, Buffer>(walked, /*all_names=*/true);
  std::erase_if(wanted, [&](const auto& target) {
    return is_batch_count(target.first) &&
           std::none_of(state.begin(), state.end(),
                        [&](const auto& given) { return given.first == target.first; });
  });
  NamedTensors renamed;  // handles of its own only where needed: load_state takes over sole ones
  for (size_t i = 0; i < state.size(); ++i) {
    const std::string now = parametrized_name(state[i].first);
    if (now == state[i].first ||
        std::ranges::none_of(wanted, [&](const auto& target) { return target.first == now; }))
      continue;
    if (renamed.empty()) renamed = state;
    renamed[i].first = now;
  }
  return load_state(op, wanted, renamed.empty() ? state : renamed, options);
}

NamedTensors generator_state(const Slots& walked) {
  NamedTensors out;
  for_each<Rng>(walked, [&](const std::string& name, const Rng& rng) {
    auto [key, position] = rng.state();
    std::vector<int64_t> words = {static_cast<int64_t>(key), static_cast<int64_t>(position)};
    out.emplace_back(name, tensor(words, {2}));
  });
  return out;
}

std::vector<Rng*> generators(const Slots& walked) {
  std::vector<Rng*> out;
  for_each<Rng>(walked, [&](const std::string&, Rng& rng) { out.push_back(&rng); });
  return out;
}

void load_generator_state(const Slots& walked, const NamedTensors& state) {
  NamedTensors words = generator_state(walked);
  load_state("load_generator_state", words, state);
  size_t i = 0;
  for_each<Rng>(walked, [&](const std::string&, Rng& rng) {
    const int64_t* w = words[i++].second.data<int64_t>();
    rng = Rng(Rng::State{static_cast<uint64_t>(w[0]), static_cast<uint64_t>(w[1])});
  });
}

void set_training(const Slots& walked, bool on) {
  for_each<TrainingMode>(walked, [&](const std::string&, TrainingMode& mode) { mode = on; });
}

void set_requires_grad(const Slots& walked, bool on) {
  for (const auto& [name, t] : named_parameters(walked)) t.set_requires_grad(on);
}

void set_frozen(const Slots& walked, bool frozen) {
  set_requires_grad(walked, !frozen);
  for_each<TrainingMode>(walked,
                         [&](const std::string&, TrainingMode& mode) { mode.hold(frozen); });
}

void convert(const Slots& walked, DType dtype) {
  check(is_float(dtype), "to: parameters are f32 or f64, not {}", dtype);
  auto change = [&](const std::string&, OwnedTensor& t) {
    if (t.defined() && is_float(t.dtype())) t.convert(dtype);
  };
  for_each<Parameter>(walked, change);
  for_each<Buffer>(walked, change);
}

void save_weights(const Slots& walked, const std::string& path,
                  const std::map<std::string, std::string>& metadata) {
  save_safetensors(path, {state_dict(walked), metadata});
}

LoadStateReport load_weights(const Slots& walked, const std::string& path,
                             const LoadStateOptions& options) {
  SafeTensors file = load_tensors(path);
  LoadStateOptions taking = options;
  taking.take = true;
  try {
    return load_state_dict(walked, "load_weights: " + path, file.tensors, taking);
  } catch (const Error& e) {
    throw IoError(e.what());
  }
}

}  // namespace tern::nn::detail

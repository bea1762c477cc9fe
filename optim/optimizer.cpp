#include "tern/optim/optimizer.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "tern/core/base/threads.h"
#include "tern/core/kernels/optim.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/optim/pieces.h"

namespace tern::optim {

ParameterGroups decay_groups(const NamedTensors& parameters, double weight_decay) {
  ParameterGroup decayed{{}, {}, weight_decay}, free{{}, {}, 0.0};
  for (const auto& p : parameters) (p.second.ndim() > 1 ? decayed : free).parameters.push_back(p);
  return std::vector<ParameterGroup>{std::move(decayed), std::move(free)};
}

Optimizer::Optimizer(const char* name, const ParameterGroups& groups, double lr,
                     double weight_decay, std::vector<const char*> state_names)
    : name_(name), state_names_(std::move(state_names)) {
  for (const ParameterGroup& g : groups.list) {
    Settings s{g.lr.value_or(lr), g.weight_decay.value_or(weight_decay)};
    check(s.lr >= 0 && s.weight_decay >= 0,
          "{}: lr and weight decay must not be negative, they are {} and {}", name, s.lr,
          s.weight_decay);
    groups_.push_back(s);
    for (const auto& [parameter, t] : g.parameters) add(parameter, t, groups_.size() - 1);
  }
  std::unordered_map<std::string, const void*> names;
  std::unordered_map<const void*, std::string> tensors;
  for (const Entry& e : entries_) {
    const void* storage = e.parameter.ref().get();
    check(names.emplace(e.name, storage).second, "{}: two parameters are called '{}'", name,
          e.name);
    auto [other, fresh] = tensors.emplace(storage, e.name);
    check(fresh, "{}: '{}' and '{}' are the same parameter", name, other->second, e.name);
  }
}

void Optimizer::add(const std::string& name, const Tensor& p, size_t group) {
  check(p.defined() && p.is_leaf() && is_float(p.dtype()),
        "{}: '{}' is no leaf of floating type; optimizers take parameters, not results", name_,
        name);
  check(p.is_contiguous(), "{}: '{}' is not contiguous; make the parameter from a clone()", name_,
        name);
  entries_.push_back({name, p, group});
}

double Optimizer::lr(size_t group) const { return groups_.at(group).lr * lr_factor_; }

NamedTensors Optimizer::parameters() const {
  NamedTensors out;
  for (const Entry& e : entries_) out.emplace_back(e.name, e.parameter);
  return out;
}

void Optimizer::zero_grad() {
  for (const Entry& e : entries_)
    if (e.parameter.requires_grad()) e.parameter.set_grad({});
}

std::vector<Tensor> Optimizer::fresh_state(const Tensor& parameter) const {
  std::vector<Tensor> state;
  for (size_t i = 0; i < state_names_.size(); ++i)
    state.push_back(zeros(parameter.shape(), parameter.dtype()));
  return state;
}

namespace {

// A parameter with its gradient and state, ready to be cut: addresses and settings.
struct Update {
  DType dtype;
  Tensor gradient;
  void* parameter;
  const void* values;
  std::array<void*, 3> state;
  double lr, weight_decay;
  int64_t step;
};

template <class T>
kernels::ParameterPiece<T> part(const Update& u, const Piece& piece) {
  kernels::ParameterPiece<T> out{static_cast<T*>(u.parameter) + piece.begin,
                                 static_cast<const T*>(u.values) + piece.begin,
                                 {},
                                 piece.count,
                                 u.lr,
                                 u.weight_decay,
                                 u.step};
  for (size_t i = 0; i < u.state.size(); ++i)
    if (u.state[i]) out.state[i] = static_cast<T*>(u.state[i]) + piece.begin;
  return out;
}

}  // namespace

void Optimizer::step() {
  NoGradGuard no_grad;
  std::vector<Update> updates;
  std::vector<Piece> pieces;
  for (Entry& e : entries_) {
    Tensor gradient = e.parameter.grad();
    if (!gradient.defined()) continue;
    if (e.steps++ == 0) e.state = fresh_state(e.parameter);
    dispatch_float(e.parameter.dtype(), name_, [&]<class T>() {
      gradient = gradient.contiguous();
      Update u{e.parameter.dtype(),   gradient, e.parameter.mutable_data<T>(),
               gradient.data<T>(),    {},       lr(e.group),
               weight_decay(e.group), e.steps};
      for (size_t i = 0; i < e.state.size(); ++i) u.state[i] = e.state[i].mutable_data<T>();
      cut(pieces, updates.size(), e.parameter.numel());
      updates.push_back(std::move(u));
    });
  }
  parallel_blocks(static_cast<int64_t>(pieces.size()), work(pieces), [&](int64_t i) {
    const Piece& piece = pieces[static_cast<size_t>(i)];
    const Update& u = updates[piece.item];
    if (u.dtype == DType::f32)
      update(part<float>(u, piece));
    else
      update(part<double>(u, piece));
  });
}

NamedTensors Optimizer::state_dict() const {
  NamedTensors out;
  for (const Entry& e : entries_) {
    if (e.steps == 0) continue;
    out.emplace_back(e.name + ".step", full({}, e.steps, DType::i64));
    for (size_t i = 0; i < e.state.size(); ++i)
      out.emplace_back(e.name + "." + state_names_[i], e.state[i]);
  }
  return out;
}

void Optimizer::load_state_dict(const NamedTensors& state) {
  std::unordered_set<std::string> given;
  for (const auto& [name, t] : state) given.insert(name);
  // A parameter that has never been stepped has no state, here and in the file.
  std::vector<Entry> loaded = entries_;
  NamedTensors targets;
  std::vector<Tensor> steps(loaded.size());
  for (size_t i = 0; i < loaded.size(); ++i) {
    Entry& e = loaded[i];
    e.steps = 0;
    e.state.clear();
    if (!given.contains(e.name + ".step")) continue;
    e.state = fresh_state(e.parameter);
    steps[i] = zeros({}, DType::i64);
    targets.emplace_back(e.name + ".step", steps[i]);
    for (size_t k = 0; k < e.state.size(); ++k)
      targets.emplace_back(e.name + "." + state_names_[k], e.state[k]);
  }
  load_state(std::string(name_) + ": load_state_dict", targets, state);
  for (size_t i = 0; i < loaded.size(); ++i)
    if (steps[i].defined()) loaded[i].steps = steps[i].item<int64_t>();
  for (const Entry& e : loaded)
    check(e.steps >= 0, "{}: load_state_dict: '{}.step' is negative: {}", name_, e.name, e.steps);
  entries_ = std::move(loaded);
}

}  // namespace tern::optim

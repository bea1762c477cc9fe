// Parameter groups, steps and saved states of all optimizers. A step first checks and allocates for
// every parameter (prepare) and then updates them in one parallel region (apply).
#include "tern/optim/optimizer.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "tern/core/base/ceil_div.h"
#include "tern/core/base/threads.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/core/tape/substitution.h"
#include "tern/optim/cuts.h"
#include "tern/optim/leaf.h"
#include "tern/optim/quantized.h"

namespace tern::optim {

ParameterGroups::ParameterGroups(const std::vector<Tensor>& parameters) {
  NamedTensors named;
  for (const Tensor& p : parameters) named.emplace_back(std::to_string(named.size()), p);
  list.push_back({std::move(named)});
}

ParameterGroups decay_groups(const NamedTensors& parameters, double weight_decay) {
  ParameterGroup decayed{{}, {}, weight_decay}, free{{}, {}, 0.0};
  for (const auto& p : parameters) (p.second.ndim() > 1 ? decayed : free).parameters.push_back(p);
  std::vector<ParameterGroup> groups;
  for (ParameterGroup* g : {&decayed, &free})
    if (!g->parameters.empty()) groups.push_back(std::move(*g));
  return groups;
}

ParameterGroups scale_norm_biases(const ParameterGroups& groups, double factor, double lr,
                                  double weight_decay) {
  check(factor > 0, "scale_norm_biases: the factor must be positive, it is {}", factor);
  std::unordered_map<std::string, int> axes;  // of weights, by name
  for (const ParameterGroup& g : groups.list)
    for (const auto& [name, p] : g.parameters)
      if (name.ends_with("weight")) axes.emplace(name, p.ndim());
  const auto is_norms = [&](const std::string& name) {
    const std::string module = name.substr(0, name.rfind('.') + 1);
    if (name != module + "bias") return false;
    if (const auto weight = axes.find(module + "weight"); weight != axes.end())
      return weight->second == 1;
    return module.find("norm") != module.npos || module.find("bn") != module.npos;
  };
  std::vector<ParameterGroup> out;
  for (const ParameterGroup& g : groups.list) {
    ParameterGroup others{{}, g.lr, g.weight_decay},
        biases{{}, factor * g.lr.value_or(lr), g.weight_decay.value_or(weight_decay) / factor};
    for (const auto& p : g.parameters)
      (is_norms(p.first) ? biases : others).parameters.push_back(p);
    for (ParameterGroup* part : {&others, &biases})
      if (!part->parameters.empty()) out.push_back(std::move(*part));
  }
  return out;
}

Optimizer::Optimizer(Traits traits, std::vector<Settings> groups)
    : traits_(traits), groups_(std::move(groups)) {
  for (const Settings& s : groups_) check_rates(s);
}

void Optimizer::check_rates(const Settings& s) const {
  check(s.lr >= 0 && s.weight_decay >= 0,
        "{}: lr and weight decay must not be negative, they are {} and {}", traits_.name, s.lr,
        s.weight_decay);
}

void Optimizer::add_parameters() {
  const bool any = std::any_of(groups_.begin(), groups_.end(),
                               [](const Settings& s) { return !s.parameters.empty(); });
  check(any, "{}: there are no parameters to optimize", traits_.name);
  for (size_t group = 0; group < groups_.size(); ++group) {
    check(!groups_[group].parameters.empty(),
          "{}: group {} of {} has no parameters, so its settings have no effect; check how you "
          "choose its parameters, or leave the group out",
          traits_.name, group, groups_.size());
    for (const auto& [parameter, t] : groups_[group].parameters) add(parameter, t, group);
    groups_[group].parameters.clear();
  }
  check_distinct();
}

void Optimizer::add(const std::string& name, const Tensor& p, size_t group) {
  check(p.defined() && p.is_leaf() && is_float(p.dtype()),
        "{}: '{}' is not a leaf of floating type; optimizers take parameters, not results",
        traits_.name, name);
  check(static_cast<bool>(p.ref()->node_or_frozen()),
        "{}: '{}' of shape {} has never required a gradient and would stay as it is; call "
        "set_requires_grad() on it first, or leave it out",
        traits_.name, name, p.shape());
  check(p.is_contiguous(), "{}: '{}' is not contiguous; make the parameter from a clone()",
        traits_.name, name);
  const std::string reason = refuses(group, p.shape());
  check(reason.empty(), "{}: '{}' of shape {}: {}", traits_.name, name, p.shape(), reason);
  Entry e{name, p, group, states(group, p.shape())};
  check(e.kept.size() <= kMaxStates, "{}: the rule has {} state names; at most {} are allowed",
        traits_.name, e.kept.size(), kMaxStates);
  for (const StateTensor& s : e.kept) {
    check(s.bits == 32 || s.bits == 8, "{}: state_bits must be 32 or 8, it is {}", traits_.name,
          s.bits);
    e.quantized = e.quantized || (s.bits == 8 && p.numel() >= kLeastQuantized);
  }
  static_cast<LeafNode*>(p.ref()->node_or_frozen().get())->known = true;
  entry_of_.emplace(p.ref().get(), entries_.size());
  entries_.push_back(std::move(e));
}

// No two entries may have the same name or share elements: the order of their steps would matter.
void Optimizer::check_distinct() const {
  struct Span {
    const char *first, *last;
    const Entry* entry;
  };
  std::unordered_set<std::string> names;
  std::vector<Span> spans;
  for (const Entry& e : entries_) {
    check(names.insert(e.name).second,
          "{}: two parameters are called '{}'; for the parts of a program give each a prefix: "
          "nn::named_parameters(part, \"part\")",
          traits_.name, e.name);
    if (e.parameter.numel() == 0) continue;
    auto* first = static_cast<const char*>(e.parameter.ref()->storage->data()) +
                  e.parameter.layout().offset * item_size(e.parameter.dtype());
    spans.push_back({first, first + e.parameter.numel() * item_size(e.parameter.dtype()), &e});
  }
  std::stable_sort(spans.begin(), spans.end(),
                   [](const Span& a, const Span& b) { return a.first < b.first; });
  for (size_t i = 1; i < spans.size(); ++i) {
    const Span &a = spans[i - 1], &b = spans[i];
    bool same = a.first == b.first && a.last == b.last;
    check(a.last <= b.first, "{}: '{}' and '{}' {}", traits_.name, a.entry->name, b.entry->name,
          same ? "are the same parameter" : "share elements; give the optimizer one of them");
  }
}

void Optimizer::set_lr_factor(double factor) {
  check(factor >= 0 && std::isfinite(factor), "{}: the factor of the rate is {}", rule_name(),
        factor);
  lr_factor_ = factor;
}

const Optimizer::Settings& Optimizer::group_at(size_t group) const {
  check(group < groups_.size(), "{}: there is no group {}; there are {}, counted from 0",
        traits_.name, group, groups_.size());
  return groups_[group];
}

double Optimizer::lr(size_t group) const { return group_at(group).lr * lr_factor_; }

NamedNumbers Optimizer::settings(size_t group) const {
  const Settings& s = group_at(group);
  NamedNumbers all = {{"lr", s.lr}, {"weight_decay", s.weight_decay}};
  for (auto& setting : rule_settings(group)) all.push_back(std::move(setting));
  return all;
}

void Optimizer::set_settings(const NamedNumbers& values, size_t group) {
  Settings changed = group_at(group);
  const NamedNumbers known = settings(group);
  for (const auto& value : values) {
    const std::string& name = value.first;
    const auto same = [&name](const auto& setting) { return setting.first == name; };
    check(std::any_of(known.begin(), known.end(), same), "{}: there is no setting '{}'",
          rule_name(group), name);
    if (name == "lr") changed.lr = value.second;
    if (name == "weight_decay") changed.weight_decay = value.second;
  }
  check_rates(changed);
  const NamedNumbers before = rule_settings(group);
  set_rule_settings(group, values);
  if (!fits_states(group)) {
    set_rule_settings(group, before);
    fail(fmt::format("{}: these settings need another state; make a new optimizer",
                     rule_name(group)));
  }
  groups_[group] = std::move(changed);
}

// Whether the rule still keeps the same state as when the parameters were added.
bool Optimizer::fits_states(size_t group) const {
  const auto same = [](const StateTensor& a, const StateTensor& b) {
    return std::string_view(a.name) == b.name && a.shape == b.shape;
  };
  return std::ranges::all_of(entries_, [&](const Entry& e) {
    return e.group != group || std::ranges::equal(e.kept, states(group, e.parameter.shape()), same);
  });
}

std::vector<std::string> Optimizer::names_in(size_t group) const {
  group_at(group);
  std::vector<std::string> names;
  for (const Entry& e : entries_)
    if (e.group == group) names.push_back(e.name);
  return names;
}

NamedTensors Optimizer::parameters() const {
  NamedTensors out;
  for (const Entry& e : entries_) out.emplace_back(e.name, e.parameter);
  return out;
}

void Optimizer::zero_grad() {
  for (const Entry& e : entries_)
    if (e.parameter.requires_grad()) e.parameter.set_grad({});
  end_step();
}

// The name of tensor i of Entry::state. An 8-bit state is two tensors: codes and scales.
std::string Optimizer::state_name(const Entry& e, size_t i) {
  if (!e.quantized) return e.name + "." + e.kept[i].name;
  return e.name + "." + e.kept[i / 2].name + (i % 2 ? ".scale" : "");
}

std::vector<Tensor> Optimizer::fresh_state(const Entry& e) {
  std::vector<Tensor> state;
  const int64_t numel = e.parameter.numel();
  for (const StateTensor& s : e.kept) {
    if (!e.quantized) {
      state.push_back(zeros(s.shape, e.parameter.dtype()));
      continue;
    }
    state.push_back(full(s.shape, zero_code(s.non_negative), DType::u8));
    state.push_back(zeros({ceil_div(numel, kQuantizedBlock)}));
  }
  return state;
}

void Optimizer::allocate_state() {
  std::vector<std::vector<Tensor>> fresh;
  for (const Entry& e : entries_) {
    const bool missing = e.state.empty() && e.parameter.requires_grad() && e.own;
    fresh.push_back(missing ? fresh_state(e) : e.state);
  }
  for (size_t i = 0; i < entries_.size(); ++i) entries_[i].state = std::move(fresh[i]);
}

/// A step of one parameter, with everything done that may fail.
struct Optimizer::Update {
  Entry* entry;
  Tensor gradient;            // contiguous
  std::vector<Tensor> state;  // for the first step
  Tensor direction;           // contiguous; undefined if the rule has none
};

namespace {

[[noreturn]] void fail_unknown(const char* optimizer, const std::string& beside,
                               const LeafNode& leaf) {
  const std::string copy = leaf.copy_of
                               ? fmt::format(
                                     " (it is a copy of '{}', made by auto layer for auto& layer "
                                     "or by [=] for [&]: call the original instead)",
                                     leaf.copy_of->text)
                               : "";
  fail(
      fmt::format("{}: the backward pass that gave '{}' its gradient also reached a parameter of "
                  "shape {} that belongs to no module and no optimizer: it would neither be "
                  "trained nor saved. Name it in the `fields` of its module{}, give it to an "
                  "optimizer, or freeze it with set_requires_grad(false)",
                  optimizer, beside, leaf.shape, copy));
}

}  // namespace

Optimizer::Update Optimizer::prepare(size_t i) {
  Entry& e = entries_[i];
  check(!e.parameter.ref()->storage->retired(),
        "{}: the model no longer uses the elements of '{}': it was converted (nn::to), or a tensor "
        "of another shape was assigned; make the optimizer after that",
        traits_.name, e.name);
  check(!e.parameter.ref()->storage->lent(),
        "{}: '{}' holds averaged weights at the moment, and a step would change the averages; step "
        "after the EmaScope has ended (or after Ema::swap)",
        traits_.name, e.name);
  Update u{&e, e.parameter.grad(), {}, {}};
  if (!e.parameter.requires_grad()) return u;
  e.parameter.check_writable(traits_.name);
  const LeafNode& leaf = leaf_of(e.parameter);
  if (!u.gradient.defined() && !leaf.stepped_by) return u;
  check(!leaf.stepped_by || !u.gradient.defined(),
        "{}: '{}' was stepped inside backward and has received another gradient since; a step "
        "inside backward cannot add the gradients of several passes: call step() or zero_grad() "
        "after each pass, or use .on_ready only in the last one",
        traits_.name, e.name);
  if (const LeafNode* unknown = unknown_beside(leaf)) fail_unknown(traits_.name, e.name, *unknown);
  if (!u.gradient.defined()) return u;  // already stepped, before the pass reached any unknown
  const LeafNode::Step last = leaf.step, now = step_by(this, traits_.name, leaf);
  check(!last.optimizer || last.optimizer == this || last.gradient != now.gradient ||
            last.version != now.version || last.run != now.run,
        "{}: another optimizer ({}) has already stepped '{}' with this gradient, which would count "
        "twice; give a parameter that two models share to one optimizer, or call zero_grad() "
        "between two backward passes (for two steps on purpose: set_grad() of a clone)",
        traits_.name, last.name, e.name);
  if (!e.own) return u;
  u.gradient = u.gradient.contiguous();
  if (e.state.empty()) u.state = fresh_state(e);
  u.direction = direction(e.group, u.gradient, e.state.empty() ? u.state : e.state);
  if (!u.direction.defined()) return u;
  check(u.direction.shape() == e.parameter.shape() && u.direction.dtype() == e.parameter.dtype(),
        "{}: the direction of '{}' is {} {}, the parameter {} {}", traits_.name, e.name,
        u.direction.dtype(), u.direction.shape(), e.parameter.dtype(), e.parameter.shape());
  u.direction = u.direction.contiguous();
  return u;
}

namespace {

template <class T>
T* elements(const Tensor& t) {
  return const_cast<T*>(t.data<T>());
}

}  // namespace

template <class T>
Piece<T> Optimizer::piece_of(const Update& u, int64_t begin, int64_t count) const {
  const Entry& e = *u.entry;
  Piece<T> piece{elements<T>(e.parameter) + begin,
                 u.gradient.data<T>() + begin,
                 {},
                 count,
                 lr(e.group),
                 weight_decay(e.group),
                 e.steps,
                 u.direction.defined() ? u.direction.data<T>() + begin : nullptr,
                 &e.parameter.shape()};
  for (size_t k = 0; k < e.state.size() && !e.quantized; ++k)
    piece.state[k] =
        elements<T>(e.state[k]) + (e.state[k].numel() == e.parameter.numel() ? begin : 0);
  return piece;
}

// Takes the whole step or nothing: whatever may fail comes before the first change.
void Optimizer::apply(std::vector<Update> updates) {
  std::vector<Cut> cuts;
  for (size_t i = 0; i < updates.size(); ++i) {
    const Entry& e = *updates[i].entry;
    if (!e.own) continue;
    int64_t numel = e.parameter.numel();
    cut(cuts, i, numel, traits_.whole_parameters ? numel : e.quantized ? kUnpacked : kCutSize);
  }
  for (Update& u : updates) {
    Entry& e = *u.entry;
    ++e.steps;
    LeafNode& leaf = leaf_of(e.parameter);
    leaf.step = step_by(this, traits_.name, leaf);
    if (!e.own) continue;
    if (e.state.empty()) e.state = std::move(u.state);
    e.parameter.begin_write(traits_.name);
    for (const Tensor& t : e.state) t.begin_write(traits_.name);
    dispatch_float(e.parameter.dtype(), traits_.name,
                   [&]<class T>() { begin(e.group, piece_of<T>(u, 0, e.parameter.numel())); });
  }
  parallel_blocks(static_cast<int64_t>(cuts.size()), work(cuts), [&](int64_t i) {
    const Cut& cut = cuts[static_cast<size_t>(i)];
    const Update& u = updates[cut.item];
    dispatch_float(u.entry->parameter.dtype(), traits_.name,
                   [&]<class T>() { update_piece<T>(u, cut.begin, cut.count); });
  });
}

template <class T>
void Optimizer::update_piece(const Update& u, int64_t begin, int64_t count) const {
  const Entry& e = *u.entry;
  Piece<T> piece = piece_of<T>(u, begin, count);
  if (!e.quantized) return update(e.group, piece);
  // 16 or 32 KiB per state tensor: on the heap, since the stack of a thread may be small.
  const auto unpacked = std::make_unique_for_overwrite<T[]>(e.kept.size() * kUnpacked);
  for (size_t k = 0; k < e.kept.size(); ++k) {
    piece.state[k] = unpacked.get() + k * kUnpacked;
    dequantize(e.kept[k].non_negative, elements<uint8_t>(e.state[2 * k]) + begin,
               elements<float>(e.state[2 * k + 1]) + begin / kQuantizedBlock, piece.state[k],
               count);
  }
  update(e.group, piece);
  for (size_t k = 0; k < e.kept.size(); ++k)
    quantize(e.kept[k].non_negative, piece.state[k], count,
             elements<uint8_t>(e.state[2 * k]) + begin,
             elements<float>(e.state[2 * k + 1]) + begin / kQuantizedBlock);
}

void Optimizer::step(const StepOptions& options) {
  NoGradGuard no_grad;
  std::vector<Update> updates;
  bool stepped = false;  // inside backward
  for (size_t i = 0; i < entries_.size(); ++i) {
    Update u = prepare(i);
    const Tensor& p = entries_[i].parameter;
    stepped = stepped || (p.requires_grad() && leaf_of(p).stepped_by);
    if (u.gradient.defined()) updates.push_back(std::move(u));
  }
  const auto replaced = [](const Entry& e) {
    return tern::detail::substituting &&
           tern::detail::substituting->look_up(e.parameter.ref().get());
  };
  const bool gives = options.allow_no_gradients || stepped || !updates.empty();
  check(gives || std::none_of(entries_.begin(), entries_.end(), replaced),
        "{}: none of the {} parameters has a gradient, and a WeightsInstead is active: gradients "
        "go to its tensors, not to the parameters. Optimize these tensors, or step after the scope",
        traits_.name, entries_.size());
  check(gives,
        "{}: none of the {} parameters has a gradient: no backward pass has reached them since the "
        "last zero_grad(). Was a copy of the model trained (auto, [=], a std::function made of the "
        "model)? Hold it by reference; or ask for .allow_no_gradients",
        traits_.name, entries_.size());
  apply(std::move(updates));
  end_step();
}

std::function<void(const Tensor&)> Optimizer::step_in_backward() {
  return [this](const Tensor& leaf) { step_leaf(leaf); };
}

void Optimizer::step_leaf(const Tensor& leaf) {
  auto found = entry_of_.find(leaf.ref().get());
  if (found == entry_of_.end()) return;  // another optimizer's, or an input
  NoGradGuard no_grad;
  std::vector<Update> updates(1);
  updates[0] = prepare(found->second);
  if (!updates[0].gradient.defined()) return;
  apply(std::move(updates));
  leaf.set_grad({});
  leaf_of(leaf).stepped_by = traits_.name;
}

void Optimizer::end_step() {
  for (const Entry& e : entries_)
    if (e.parameter.requires_grad()) leaf_of(e.parameter).stepped_by = nullptr;
}

NamedTensors Optimizer::state_of(const Entry& e, const std::vector<Tensor>& state) {
  NamedTensors out = {{e.name + ".step", full({}, e.steps, DType::i64)}};
  for (size_t i = 0; i < state.size(); ++i) out.emplace_back(state_name(e, i), state[i]);
  return out;
}

NamedTensors Optimizer::state_dict() const {
  NamedTensors out;
  for (const Entry& e : entries_)
    if (e.steps > 0 && e.own)
      for (auto& tensor : state_of(e, e.state)) out.push_back(std::move(tensor));
  return out;
}

const Optimizer::Entry& Optimizer::entry_at(size_t parameter) const {
  check(parameter < entries_.size(), "{}: there is no parameter {}; there are {}, counted from 0",
        traits_.name, parameter, entries_.size());
  return entries_[parameter];
}

NamedTensors Optimizer::state_dict(size_t parameter) const {
  const Entry& e = entry_at(parameter);
  return state_of(e, e.state.empty() ? fresh_state(e) : e.state);
}

void Optimizer::keep_shard(const std::vector<bool>& own) {
  check(own.size() == entries_.size(), "{}: keep_shard: got {} values for {} parameters",
        traits_.name, own.size(), entries_.size());
  for (size_t i = 0; i < own.size(); ++i)
    check(!own[i] || entries_[i].own || entries_[i].steps == 0,
          "{}: keep_shard: '{}' was stepped {} times by another process, which has its state",
          traits_.name, entries_[i].name, entries_[i].steps);
  for (size_t i = 0; i < own.size(); ++i) {
    entries_[i].own = own[i];
    if (!own[i]) entries_[i].state.clear();
  }
}

int64_t Optimizer::state_bytes(size_t parameter) const {
  const Entry& e = entry_at(parameter);
  const int64_t item = item_size(e.parameter.dtype());
  const int64_t scales = ceil_div(e.parameter.numel(), kQuantizedBlock) * item_size(DType::f32);
  int64_t bytes = 0;
  for (const StateTensor& s : e.kept)
    bytes += e.quantized ? numel(s.shape) + scales : numel(s.shape) * item;
  return bytes;
}

int64_t Optimizer::state_bytes() const {
  int64_t bytes = 0;
  for (const Entry& e : entries_)
    for (const Tensor& t : e.state) bytes += t.numel() * item_size(t.dtype());
  return bytes;
}

void Optimizer::load_state_dict(const NamedTensors& state) {
  std::unordered_map<std::string, Tensor> given(state.begin(), state.end());
  // A parameter that has never been stepped has no state in the file.
  NamedTensors targets;
  std::vector<Tensor> steps(entries_.size());
  std::vector<std::vector<Tensor>> states;
  std::unordered_set<std::string> elsewhere;  // names in the file that other processes need
  for (size_t i = 0; i < entries_.size(); ++i) {
    const Entry& e = entries_[i];
    states.push_back(e.state);
    const auto step = given.find(e.name + ".step");
    if (step == given.end()) continue;
    const Tensor& count = step->second;
    check(!count.defined() || count.numel() != 1 || count.item() >= 0,
          "{}: load_state_dict: '{}.step' is negative: {}", traits_.name, e.name,
          count.defined() ? count.item<int64_t>() : 0);
    for (size_t k = 0; !e.own && k < e.kept.size() * (e.quantized ? 2 : 1); ++k)
      elsewhere.insert(state_name(e, k));
    if (e.own && e.state.empty()) states.back() = fresh_state(e);
    steps[i] = zeros({}, DType::i64);
    targets.emplace_back(e.name + ".step", steps[i]);
    for (size_t k = 0; k < states.back().size(); ++k)
      targets.emplace_back(state_name(e, k), states.back()[k]);
  }
  NamedTensors own = state;
  std::erase_if(own, [&](const auto& named) { return elsewhere.contains(named.first); });
  load_state(std::string(traits_.name) + ": load_state_dict", targets, own);
  for (size_t i = 0; i < entries_.size(); ++i) {
    Entry& e = entries_[i];
    e.steps = steps[i].defined() ? steps[i].item<int64_t>() : 0;
    e.state = std::move(states[i]);
    if (!steps[i].defined() && !e.state.empty()) e.state = fresh_state(e);
  }
}

}  // namespace tern::optim

// The backward pass and the step of a Learner, with the checks for infinite and NaN values before
// anything changes; and its parts of a checkpoint.
#include "tern/train/learner.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/dist/owned_tensors.h"
#include "tern/optim/clip.h"
#include "tern/optim/shards.h"
#include "tern/optim/training_graph.h"
#include "tern/train/checkpoint.h"
#include "tern/train/detail/run_settings.h"
#include "tern/train/detail/tensor_names.h"

namespace tern::training {
namespace {

bool is_finite(const Tensor& t) { return !is_float(t.dtype()) || all(isfinite(t)).item<bool>(); }

// Returns the tensors, or throws Diverged if one is not finite: "the weights down.bias are no
// longer finite after step 7".
NamedTensors finite(const char* what, NamedTensors tensors, int64_t steps) {
  for (const auto& [name, t] : tensors) {
    if (is_finite(t)) continue;
    const std::string when = steps ? fmt::format("no longer finite after step {}", steps)
                                   : "not finite before the first step";
    throw Diverged(fmt::format("the {} {} are {}", what, name, when));
  }
  return tensors;
}

// A copy of a layer has a copy of its generator, so its dropout zeroes the same elements. Call it
// after a forward pass, when generators that are in use have moved.
void check_generators(const nn::ModuleRef& model) {
  const NamedTensors states = nn::generator_state(model);
  const std::vector<Rng*> generators = nn::generators(model);
  std::map<uint64_t, size_t> first;  // the place of a generator, by its key
  for (size_t i = 0; i < generators.size(); ++i) {
    const auto [key, position] = generators[i]->state();
    if (position == 0) continue;
    const size_t found = first.emplace(key, i).first->second;
    check(
        generators[found] == generators[i],
        "Learner: '{}' is a copy of '{}' and draws the same random numbers. Give each generator of "
        "the model its own: for (Rng* g : nn::generators(model)) *g = rng.split(); or leave this "
        "check out (LearnerOptions::check_graph)",
        states[i].first, states[found].first);
  }
}

constexpr const char* kWeights = "weights";
constexpr const char* kAverages = "averaged weights";
constexpr const char* kOptimizer = "optimizer's values";

}  // namespace

Learner::Learner(nn::ModuleRef model, optim::Optimizer& optimizer, LearnerOptions options)
    : model_(std::move(model)),
      optimizer_(optimizer),
      options_(std::move(options)),
      parameters_(optimizer.parameters()),
      generators_(nn::generators(model_)) {
  check(options_.clip >= 0, "Learner: the bound of the gradients must not be negative, it is {}",
        options_.clip);
  check(!options_.step_in_backward || options_.clip == 0,
        "Learner: step_in_backward takes each step when one gradient is there, and a bound on the "
        "norm of all gradients ({}) needs them all; leave one of the two out",
        options_.clip);
  if (options_.plateau) plateau_.emplace(*options_.plateau);
  if (options_.allocate_state) optimizer_.allocate_state();
  if (options_.step_in_backward) steps_leaf_ = optimizer_.step_in_backward();
  if (options_.ema != 0)
    ema_.emplace(nn::state_dict(model_), optim::EmaOptions{.decay = options_.ema, .warmup = true});
  if (options_.lookahead) lookahead_.emplace(nn::state_dict(model_), *options_.lookahead);
}

void Learner::check_loss(const Tensor& loss) {
  check(loss.numel() == 1, "Learner: the loss must be one number, its shape is {}", loss.shape());
  const auto value = loss.item();
  if (!std::isfinite(value))
    throw Diverged(fmt::format("the loss{} is {} in step {}", of_, value, steps_ + 1));
  if (!graph_checked_) check_mode();
  if (options_.check_graph && !graph_checked_) {
    check_generators(model_);
    optim::check_training_graph(loss, nn::named_parameters(model_), optimizer_, others_);
  }
  graph_checked_ = true;
}

void Learner::train_beside(const std::string& name, NamedTensors others) {
  of_ = " of " + name;
  others_ = std::move(others);
  std::erase_if(others_, [this](const auto& other) {  // shared parameters are this learner's, too
    return std::ranges::any_of(
        parameters_, [&](const auto& own) { return own.second.ref() == other.second.ref(); });
  });
}

void Learner::check_mode() const {
  check(options_.allow_evaluation_mode || !wholly_in_evaluation(model_),
        "Learner: the whole model is in evaluation mode: dropout and batch norm would do nothing. "
        "Call nn::set_training(model) before training (nn::EvalScope restores the mode by itself "
        "after an evaluation), or ask for LearnerOptions::allow_evaluation_mode");
}

void Learner::check_optimized() const {
  if (options_.check_graph && graph_checked_)
    optim::check_optimized(nn::named_parameters(model_), optimizer_);
}

double Learner::backward(const Tensor& loss, double share) {
  check(!stepped_,
        "Learner: with step_in_backward a pass is a step: call step() before the next one, or "
        "accumulate batches without it");
  check(loss.numel() == 1, "Learner: the loss must be one number, its shape is {}", loss.shape());
  const Tensor part = share == 1 ? loss : loss * share;
  check_loss(part);
  std::vector<Tensor> gradients;  // the others', restored after the pass
  for (const auto& [name, p] : others_) {
    gradients.push_back(p.grad());
    p.zero_grad();
  }
  const auto put_back = [&] {
    for (size_t i = 0; i < others_.size(); ++i)
      if (others_[i].second.requires_grad()) others_[i].second.set_grad(gradients[i]);
  };
  try {
    const double value = run_backward(part);
    put_back();
    return value;
  } catch (...) {
    put_back();
    throw;
  }
}

double Learner::run_backward(const Tensor& part) {
  const auto value = part.item();
  if (!steps_leaf_) {
    part.backward();
    return value;
  }
  begin_step();
  stepped_ = part.requires_grad();  // if false, backward throws
  squares_.assign(parameters_.size(), 0);
  tern::backward(part, {.on_ready = [this](const Tensor& leaf) { step_parameter(leaf); }});
  return value;
}

// Checks the gradient first: one that is not finite would spoil the weights for good.
void Learner::step_parameter(const Tensor& leaf) {
  const auto p = std::find_if(parameters_.begin(), parameters_.end(),
                              [&](const auto& named) { return named.second.ref() == leaf.ref(); });
  if (p != parameters_.end()) {
    squares_[static_cast<size_t>(p - parameters_.begin())] = squares_of({*p}).front();
    show_gradients({*p});
  }
  steps_leaf_(leaf);
}

// The sums of squares also show gradients that are not finite. (A sum of finite f64 may overflow,
// so check_finite() decides.)
std::vector<double> Learner::squares_of(const NamedTensors& parameters) const {
  std::vector<double> squares = optim::grad_squares(parameters);
  const auto finite = [](double v) { return std::isfinite(v); };
  if (!std::all_of(squares.begin(), squares.end(), finite)) check_finite(parameters);
  return squares;
}

void Learner::show_gradients(const NamedTensors& parameters) const {
  if (!on_gradient_) return;
  for (const auto& [name, p] : parameters)
    if (const Tensor gradient = p.grad(); gradient.defined()) on_gradient_(name, gradient);
}

void Learner::check_finite(const NamedTensors& parameters) const {
  if (const auto found = optim::find_non_finite_gradient(parameters))
    throw Diverged(fmt::format("the gradient of '{}'{} is {} (element {}) in step {}",
                               found->parameter, of_, std::abs(found->value), found->element,
                               steps_ + 1));
}

void Learner::check_gradients() {
  if (options_.clip == 0 || on_gradient_) {
    squares_ = squares_of(parameters_);
    show_gradients(parameters_);
    if (options_.clip == 0) return;  // step() computes the norm from them
  }
  try {
    grad_norm_ = optim::clip_grad_norm(parameters_, options_.clip);
  } catch (const Error&) {  // nothing is scaled yet
    if (!optim::find_non_finite_gradient(parameters_)) throw;
    check_finite(parameters_);
  }
}

void Learner::set_rate(int64_t step) {
  if (!options_.schedule && !plateau_) return;
  const double planned = options_.schedule ? options_.schedule(step) : 1;
  optimizer_.set_lr_factor(plateau_ ? planned * plateau_->factor() : planned);
}

// Weights may have been loaded since the learner was made: then averages start at those of the
// first step. Buffers do not tell, since the first forward pass has changed them.
void Learner::begin_step() {
  set_rate(steps_);
  if (steps_ > 0) return;
  const NamedTensors parameters = nn::named_parameters(model_);
  const auto differ = [&](const NamedTensors& averages) {
    for (const auto& [name, t] : averages)
      for (const auto& [other, p] : parameters)
        if (name == other && sum(ne(t, p.detach())).item<int64_t>() > 0) return true;
    return false;
  };
  NoGradGuard no_grad;
  if (ema_ && differ(ema_->averages())) ema_->restart();
  if (lookahead_ && differ(lookahead_->state_dict())) lookahead_->restart();
}

void Learner::report(double metric) {
  if (plateau_) plateau_->update(metric);
}

void Learner::step() {
  if (!stepped_) {
    check_gradients();
    begin_step();
  }
  if (options_.clip == 0)
    grad_norm_ = std::sqrt(std::accumulate(squares_.begin(), squares_.end(), 0.0));
  stepped_ = false;
  std::vector<dist::OwnedTensor> updated;
  if (world_)
    for (size_t i = 0; i < parameters_.size(); ++i)
      if (const Tensor& p = parameters_[i].second; p.grad().defined())
        updated.push_back({owners_[i], p.detach()});
  optimizer_.step();
  optimizer_.zero_grad();
  if (world_) dist::send_to_all(*world_, "the weights of a step", updated);
  ++steps_;
  if (lookahead_) lookahead_->after(steps_);
  if (ema_) ema_->update();
}

void Learner::shard_optimizer(dist::World& world) {
  check(!options_.step_in_backward,
        "Learner: the ranks of a sharded optimizer step together after the backward pass; leave "
        "out step_in_backward");
  if (world.size() == 1) return;
  owners_ = optim::shard_owners(optimizer_, world.size());
  optim::keep_shard(optimizer_, world.rank(), world.size());
  optimizer_.allocate_state();
  world_ = &world;
}

// On rank 0 the whole state, on the other ranks their own shards.
NamedTensors Learner::optimizer_state() const {
  if (!world_) return optimizer_.state_dict();
  NamedTensors all;
  std::vector<dist::OwnedTensor> sent;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (!world_->first() && owners_[i] != world_->rank()) continue;
    const NamedTensors one = optimizer_.state_dict(i);  // the number of steps comes first
    if (one[0].second.item<int64_t>() == 0) continue;
    for (size_t k = 1; k < one.size(); ++k) sent.push_back({owners_[i], one[k].second});
    all.insert(all.end(), one.begin(), one.end());
  }
  dist::send_to_first(*world_, "the optimizer's state", sent);
  return all;
}

void Learner::skip_step() {
  clear_gradients();
  begin_step();
  ++steps_;
}

NamedTensors Learner::own_state() const {
  NamedTensors all;
  const auto add = [&](const char* part, const NamedTensors& tensors) {
    for (auto& named : with_prefix(part, tensors)) all.push_back(std::move(named));
  };
  add("model.", nn::state_dict(model_));
  for (size_t i = 0; i < parameters_.size(); ++i) add("optimizer.", optimizer_.state_dict(i));
  if (ema_) add("ema.", ema_->state_dict());
  if (lookahead_) add("lookahead.", lookahead_->state_dict());
  return all;
}

void Learner::load_own_state(const NamedTensors& state) {
  nn::load_state_dict(model_, below("model.", state));
  optimizer_.load_state_dict(below("optimizer.", state));
  if (ema_) ema_->load_state_dict(below("ema.", state));
  if (lookahead_) lookahead_->load_state_dict(below("lookahead.", state));
}

NamedTensors Learner::weights() const {
  return ema_ && steps_ > 0 ? ema_->averages() : nn::state_dict(model_);
}

void Learner::check_finite_state() const {
  finite(kWeights, nn::state_dict(model_), steps_);
  finite(kOptimizer, optimizer_.state_dict(), steps_);
  if (ema_) finite(kAverages, ema_->averages(), steps_);
}

void Learner::save_weights(const std::string& path,
                           const std::map<std::string, std::string>& metadata) const {
  save_safetensors(path, {finite(ema_ ? kAverages : kWeights, weights(), steps_), metadata});
}

Learner::Evaluation::Evaluation(Learner& learner) : mode_(learner.model_) {
  if (learner.ema_ && learner.steps_ > 0) averaged_.emplace(*learner.ema_);
}

// The settings that come from the program. Loading a checkpoint makes a note for each difference.
optim::NamedNumbers Learner::recipe() const {
  optim::NamedNumbers all = {{"clip", options_.clip}, {"ema", options_.ema}};
  if (const auto& l = options_.lookahead)
    all.insert(all.end(), {{"lookahead.every", static_cast<double>(l->every)},
                           {"lookahead.decay", l->decay},
                           {"lookahead.total", static_cast<double>(l->total)}});
  if (const auto& p = options_.plateau)
    all.insert(all.end(), {{"plateau.factor", p->factor},
                           {"plateau.patience", static_cast<double>(p->patience)},
                           {"plateau.threshold", p->threshold},
                           {"plateau.absolute", p->absolute},
                           {"plateau.cooldown", static_cast<double>(p->cooldown)},
                           {"plateau.smallest", p->smallest}});
  return all;
}

void Learner::add_settings_to(Checkpoint& checkpoint, const std::string& prefix) {
  checkpoint.add_settings(
      prefix + "optimizer_settings",
      [this] { return settings_to_json(optimizer_, options_.schedule || plateau_); },
      [this](const std::string& text) { return load_settings(optimizer_, text); });
  checkpoint.add_settings(
      prefix + "modes", [this] { return modes_to_json(model_); },
      [this](const std::string& text) { return load_modes(model_, text); });
  checkpoint.add_settings(
      prefix + "recipe", [this] { return recipe_to_json(recipe(), options_.schedule, steps_); },
      [this](const std::string& text) {
        return compare_recipe(text, recipe(), options_.schedule);
      });
}

void Learner::add_to(Checkpoint& checkpoint, const std::string& prefix) {
  add_settings_to(checkpoint, prefix);
  checkpoint.add(
      prefix + "model",
      [this] {  // not the averages, which an evaluation swaps in
        const bool averaged = ema_ && ema_->swapped();
        return finite(kWeights, averaged ? ema_->weights() : nn::state_dict(model_), steps_);
      },
      [this](const NamedTensors& state) { nn::load_state_dict(model_, state); });
  checkpoint.add(
      prefix + "generators", [this] { return nn::generator_state(model_); },
      [this](const NamedTensors& state) { nn::load_generator_state(model_, state); });
  checkpoint.add(
      prefix + "optimizer", [this] { return finite(kOptimizer, optimizer_state(), steps_); },
      [this](const NamedTensors& state) { optimizer_.load_state_dict(state); });
  if (ema_)
    checkpoint.add(
        prefix + "ema", [this] { return finite(kAverages, ema_->state_dict(), steps_); },
        [this](const NamedTensors& state) { ema_->load_state_dict(state); });
  if (lookahead_) checkpoint.add(prefix + "lookahead", *lookahead_);
  if (plateau_) checkpoint.add(prefix + "plateau", *plateau_);
  checkpoint.add(
      prefix + "steps",
      [this] {
        return NamedTensors{{"", scalar(steps_, DType::i64)}};
      },
      [this](const NamedTensors& state) {
        NamedTensors steps = {{"", scalar(0, DType::i64)}};
        load_state("steps", steps, state);
        steps_ = steps[0].second.item<int64_t>();
        if (steps_ > 0) set_rate(steps_ - 1);
      });
}

void Learner::save_generators(std::vector<Rng>& to) const {
  to.clear();
  for (const Rng* rng : generators_) to.push_back(*rng);
}

void Learner::load_generators(const std::vector<Rng>& from) const {
  check(from.size() == generators_.size(), "Learner: {} generators for a model that has {}",
        from.size(), generators_.size());
  for (size_t i = 0; i < from.size(); ++i) *generators_[i] = from[i];
}

}  // namespace tern::training

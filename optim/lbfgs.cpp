// The direction comes from the two-loop recursion (Nocedal and Wright, Numerical Optimization,
// algorithm 7.4), the line search from algorithms 3.5 and 3.6 with cubic interpolation. Bounds and
// tolerances are those of torch.optim.LBFGS, so the points are the same up to rounding.
#include "tern/optim/lbfgs.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"

namespace tern::optim {
namespace {

// A direction must not meet a flatter bend of the loss than this.
constexpr double kLeastCurvature = 1e-10;
// The strong Wolfe conditions: the loss falls by this part of what the slope promises, and the
// slope to this part of itself.
constexpr double kLeastFall = 1e-4, kLeastFlattening = 0.9;

double number(const Tensor& x) { return x.to(DType::f64).item<double>(); }
double dot(const Tensor& a, const Tensor& b) { return number(sum(a * b)); }
double largest(const Tensor& x) { return x.numel() ? number(max(abs(x))) : 0; }

// Where the cubic through both losses and slopes is smallest, within [least, most]; their middle if
// there is no such place. Points have t, loss and slope.
double lowest_of_cubic(const auto& a, const auto& b, double least, double most) {
  const auto &left = a.t <= b.t ? a : b, &right = a.t <= b.t ? b : a;
  const double width = right.t - left.t;
  const double d1 = left.slope + right.slope + 3 * (left.loss - right.loss) / width;
  const double d2 = std::sqrt(d1 * d1 - left.slope * right.slope);
  const double t = right.t - width * (right.slope + d2 - d1) / (right.slope - left.slope + 2 * d2);
  return std::isfinite(t) ? std::clamp(t, least, most) : (least + most) / 2;
}

void check_same_type(const NamedTensors& parameters) {
  for (const auto& [name, p] : parameters)
    check(p.dtype() == parameters[0].second.dtype(),
          "Lbfgs: '{}' is {} and '{}' {}: all parameters must have one type", parameters[0].first,
          parameters[0].second.dtype(), name, p.dtype());
}

}  // namespace

void LbfgsOptions::validate() const {
  check(lr > 0 && std::isfinite(lr), "Lbfgs: lr must be positive, it is {}", lr);
  check(max_iter > 0 && max_eval >= 0 && history_size > 0,
        "Lbfgs: needs max_iter > 0, max_eval >= 0 and history_size > 0; they are {}, {} and {}",
        max_iter, max_eval, history_size);
  check(tolerance_grad >= 0 && tolerance_change >= 0,
        "Lbfgs: the tolerances must not be negative, they are {} and {}", tolerance_grad,
        tolerance_change);
}

Lbfgs::Lbfgs(const NamedTensors& parameters, const LbfgsOptions& o)
    : options(o), moves_(parameters, {.lr = 1}) {
  options.validate();
  check_same_type(parameters);
}

Lbfgs::Lbfgs(const std::vector<Tensor>& parameters, const LbfgsOptions& o)
    : Lbfgs(ParameterGroups(parameters).list[0].parameters, o) {}

Tensor Lbfgs::weights() const {
  std::vector<Tensor> parts;
  for (const auto& [name, p] : parameters()) parts.push_back(reshape(p, {-1}));
  return cat(parts);
}

Tensor Lbfgs::gradient() const {
  std::vector<Tensor> parts;
  for (const auto& [name, p] : parameters()) {
    const Tensor g = p.grad();
    parts.push_back(g.defined() ? reshape(g, {-1}) : zeros({p.numel()}, p.dtype()));
  }
  return cat(parts);
}

// Adds t times the direction to the parameters: a step of gradient descent at the rate 1.
void Lbfgs::move(double t) {
  int64_t begin = 0;
  for (const auto& [name, p] : parameters()) {
    const Tensor part = narrow(direction_, 0, begin, p.numel());
    if (p.requires_grad()) p.set_grad(reshape(part * -t, p.shape()));
    begin += p.numel();
  }
  moves_.step();
}

Lbfgs::Point Lbfgs::evaluate(const std::function<Tensor()>& loss, double t) {
  zero_grad();
  Tensor value;
  {
    EnableGradGuard records;
    value = loss();
  }
  check(value.defined() && value.numel() == 1,
        "Lbfgs: the function must return the loss, a tensor of one element");
  ++evaluations_;
  const NamedTensors all = parameters();
  check(std::ranges::any_of(all, [](const auto& p) { return p.second.grad().defined(); }),
        "Lbfgs: none of the {} parameters has a gradient; the function must call backward() on the "
        "loss of the parameters that the optimizer has",
        all.size());
  Point point{t, number(value), gradient(), 0};
  if (direction_.defined()) point.slope = dot(point.gradient, direction_);
  return point;
}

void Lbfgs::set_weights(const Tensor& weights) {
  int64_t begin = 0;
  for (const auto& [name, p] : parameters()) {
    if (p.requires_grad()) copy_(p, reshape(narrow(weights, 0, begin, p.numel()), p.shape()));
    begin += p.numel();
  }
}

// The next direction from the gradient: the two-loop recursion over the kept pairs.
void Lbfgs::turn(const Tensor& gradient) {
  if (iterations_++ > 0) {
    const Tensor change = gradient - last_gradient_, moved = direction_ * length_;
    const double curvature = dot(change, moved);
    if (curvature > kLeastCurvature) {
      while (std::ssize(gradient_changes_) >= options.history_size) {
        gradient_changes_.erase(gradient_changes_.begin());
        weight_changes_.erase(weight_changes_.begin());
      }
      gradient_changes_.push_back(change);
      weight_changes_.push_back(moved);
      scale_ = curvature / dot(change, change);
    }
  }
  last_gradient_ = gradient;
  direction_ = -gradient;
  const size_t pairs = gradient_changes_.size();
  std::vector<double> inverse(pairs), share(pairs);
  for (size_t i = pairs; i-- > 0;) {
    inverse[i] = 1 / dot(gradient_changes_[i], weight_changes_[i]);
    share[i] = dot(weight_changes_[i], direction_) * inverse[i];
    add_(direction_, gradient_changes_[i], -share[i]);
  }
  direction_ = direction_ * scale_;
  for (size_t i = 0; i < pairs; ++i) {
    const double other = dot(gradient_changes_[i], direction_) * inverse[i];
    add_(direction_, weight_changes_[i], share[i] - other);
  }
}

// Without a line search every loss must be finite.
void Lbfgs::check_finite(const Point& at) const {
  const double element = largest(at.gradient);
  check(std::isfinite(at.loss) && std::isfinite(element),
        "Lbfgs: after {} evaluations the loss is {} and the largest element of its gradient {}; "
        "check the data and the first weights{}",
        evaluations_, at.loss, element,
        options.strong_wolfe ? "" : ", set .strong_wolfe, or a smaller lr");
}

struct Lbfgs::Search {
  Lbfgs& optimizer;
  const std::function<Tensor()>& loss;
  const Point begin;
  const int64_t most;  // trials after the first
  int64_t trials = 0;
  const Tensor weights = optimizer.weights();         // at the beginning
  const double size = largest(optimizer.direction_);  // how far t = 1 moves a weight

  Point at(double t) {
    optimizer.set_weights(weights);
    optimizer.move(t);
    Point p = optimizer.evaluate(loss, t);
    if (!std::isfinite(p.loss + p.slope)) p.loss = std::numeric_limits<double>::infinity();
    return p;
  }
  bool falls(const Point& p) const { return p.loss <= begin.loss + kLeastFall * p.t * begin.slope; }
  bool flat(const Point& p) const { return std::abs(p.slope) <= -kLeastFlattening * begin.slope; }
  Point run(double t);
  Point zoom(Point low, Point high);
};

// Goes further until a minimum lies behind.
Lbfgs::Point Lbfgs::Search::run(double t) {
  Point last = begin, p = at(t);
  for (; trials < most; ++trials) {
    if (!falls(p) || (trials > 1 && p.loss >= last.loss)) break;
    if (flat(p)) return p;
    if (p.slope >= 0) break;
    const double next = lowest_of_cubic(last, p, p.t + 0.01 * (p.t - last.t), 10 * p.t);
    last = std::exchange(p, at(next));
  }
  if (trials == most) last = begin;
  return p.loss < last.loss ? zoom(p, last) : zoom(last, p);
}

// Narrows the interval in which a minimum lies. REQUIRES: the loss of `high` is not smaller.
Lbfgs::Point Lbfgs::Search::zoom(Point low, Point high) {
  bool slow = false;  // the last trial was near an end of the interval
  while (trials < most) {
    const auto [left, right] = std::minmax({low.t, high.t});
    if ((right - left) * size < optimizer.options.tolerance_change) break;
    double t = lowest_of_cubic(low, high, left, right);
    const double margin = 0.1 * (right - left), rest = std::min(right - t, t - left);
    const bool near = rest < margin, moves = near && (slow || rest <= 0);
    if (moves) t = right - t < t - left ? right - margin : left + margin;
    slow = near && !moves;
    Point p = at(t);
    ++trials;
    if (!falls(p) || p.loss >= low.loss) {
      high = p;
      if (high.loss < low.loss) std::swap(low, high);
      continue;
    }
    const bool done = flat(p);
    if (p.slope * (high.t - low.t) >= 0) high = low;
    low = p;
    if (done) break;
  }
  optimizer.set_weights(weights);
  optimizer.move(low.t);
  return low;
}

double Lbfgs::step(const std::function<Tensor()>& loss) {
  options.validate();
  NoGradGuard no_grad;
  const int64_t most = options.max_eval ? options.max_eval : options.max_iter * 5 / 4;
  const int64_t before = evaluations_;
  Point at = evaluate(loss, 0);
  check_finite(at);
  const double first = at.loss;
  for (int64_t i = 1; largest(at.gradient) > options.tolerance_grad; ++i) {
    turn(at.gradient);
    const double sum_of_gradient = number(sum(abs(at.gradient)));
    const double length = options.lr * (iterations_ == 1 ? std::min(1., 1 / sum_of_gradient) : 1);
    length_ = 0;  // if the function throws, turn() makes no pair of this move
    at.slope = dot(at.gradient, direction_);
    check(
        std::isfinite(at.slope),
        "Lbfgs: the squares of the gradient, whose largest element is {}, overflow; scale the loss",
        largest(at.gradient));
    if (at.slope > -options.tolerance_change) break;
    const double last_loss = at.loss;
    at.t = 0;
    if (options.strong_wolfe) {
      at = Search{*this, loss, at, before + most - evaluations_}.run(length);
    } else {
      move(length);
      at.t = length;
      if (i < options.max_iter) {  // nothing needs the loss after the last move
        at = evaluate(loss, length);
        check_finite(at);
      }
    }
    length_ = at.t;
    if (i == options.max_iter || evaluations_ - before >= most ||
        length_ * largest(direction_) <= options.tolerance_change ||
        std::abs(at.loss - last_loss) < options.tolerance_change)
      break;
  }
  zero_grad();
  return first;
}

NamedTensors Lbfgs::state_dict() const {
  NoGradGuard no_grad;
  const Tensor none = zeros_like(weights());
  const auto rows = [&](const std::vector<Tensor>& pairs) {
    return pairs.empty() ? zeros({0, none.numel()}, none.dtype()) : stack(pairs);
  };
  return {{"n_iter", full({}, iterations_, DType::i64)},
          {"func_evals", full({}, evaluations_, DType::i64)},
          {"t", full({}, length_, DType::f64)},
          {"H_diag", full({}, scale_, DType::f64)},
          {"d", iterations_ ? direction_ : none},
          {"prev_flat_grad", iterations_ ? last_gradient_ : none},
          {"old_dirs", rows(gradient_changes_)},
          {"old_stps", rows(weight_changes_)}};
}

void Lbfgs::load_state_dict(const NamedTensors& state) {
  NoGradGuard no_grad;
  const auto given = std::ranges::find(state, "old_dirs", &NamedTensors::value_type::first);
  const int64_t pairs = given != state.end() && given->second.ndim() ? given->second.size(0) : 0;
  NamedTensors loaded;
  for (const auto& [name, t] : state_dict()) {
    const bool history = name == "old_dirs" || name == "old_stps";
    loaded.emplace_back(name, history ? zeros({pairs, t.size(1)}, t.dtype()) : zeros_like(t));
  }
  load_state("Lbfgs", loaded, state);
  iterations_ = loaded[0].second.item<int64_t>();
  evaluations_ = loaded[1].second.item<int64_t>();
  length_ = loaded[2].second.item<double>();
  scale_ = loaded[3].second.item<double>();
  direction_ = loaded[4].second;
  last_gradient_ = loaded[5].second;
  gradient_changes_.clear();
  weight_changes_.clear();
  for (int64_t i = 0; i < pairs; ++i) {
    gradient_changes_.push_back(select(loaded[6].second, 0, i));
    weight_changes_.push_back(select(loaded[7].second, 0, i));
  }
}

}  // namespace tern::optim

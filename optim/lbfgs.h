// L-BFGS (Liu and Nocedal 1989), as torch.optim.LBFGS. A step evaluates the loss many times, so it
// suits losses without noise that are cheap to compute: networks that solve differential equations,
// fits of curves, style transfer. For losses of random batches take AdamW.
//
//   optim::Lbfgs optimizer(nn::named_parameters(model), {.strong_wolfe = true});
//   for (int64_t step = 0; step < 20; ++step) {
//     double loss = optimizer.step([&] {
//       Tensor loss = mse_loss(model(x), y);
//       loss.backward();
//       return loss;
//     });
//   }
//
// One thread or many give the same results.
#pragma once

#include <functional>
#include <vector>

#include "tern/optim/sgd.h"

namespace tern::optim {

struct LbfgsOptions {
  double lr = 1;          ///< the length of a step; with strong_wolfe that of the first trial
  int64_t max_iter = 20;  ///< directions per step()
  int64_t max_eval = 0;   ///< evaluations of the loss per step(); 0: 5/4 max_iter
  double tolerance_grad = 1e-7;    ///< stops if no element of the gradient is larger
  double tolerance_change = 1e-9;  ///< stops if loss, or every weight, changes by less
  int64_t history_size = 100;      ///< pairs of vectors kept, each as large as all parameters
  /// Searches along each direction for a point that meets the strong Wolfe conditions. Without it
  /// every step has the length lr, and the loss may grow.
  bool strong_wolfe = false;
  void validate() const;
};

class Lbfgs {
 public:
  /// Error if the parameters are not all f32 or all f64, or if another optimizer would refuse them.
  explicit Lbfgs(const NamedTensors& parameters, const LbfgsOptions& options = {});
  explicit Lbfgs(const std::vector<Tensor>& parameters, const LbfgsOptions& options = {});

  /// Calls `evaluate` several times, and moves the parameters in between. It must compute the loss,
  /// one element, from the current parameters, call backward() and return the loss. step() clears
  /// the gradients before each call and at its end. Every call must take the same data and the same
  /// random numbers (dropout), or the gradients do not belong together. Returns the loss before the
  /// step.
  ///
  /// Error if no parameter has a gradient, or if that loss or its gradient is not finite; without
  /// strong_wolfe also if any later loss is not finite. If `evaluate` throws, the parameters may be
  /// those of a trial.
  double step(const std::function<Tensor()>& evaluate);
  /// Clears the gradients.
  void zero_grad() { moves_.zero_grad(); }

  int64_t iterations() const { return iterations_; }    ///< directions so far
  int64_t evaluations() const { return evaluations_; }  ///< of the loss so far
  NamedTensors parameters() const { return moves_.parameters(); }

  /// What the next step needs, under torch's names (old_dirs and old_stps as matrices).
  NamedTensors state_dict() const;
  /// Loads the result of state_dict(). If it does not fit, an Error lists why and nothing changes.
  void load_state_dict(const NamedTensors& state);

  LbfgsOptions options;  ///< may be changed between steps

 private:
  // A point at the distance t along the direction. Vectors hold all parameters one after another.
  struct Point {
    double t, loss;
    Tensor gradient;
    double slope;  // of the loss along the direction
  };
  struct Search;  // along the direction
  Tensor weights() const;
  void set_weights(const Tensor& weights);
  Tensor gradient() const;
  void move(double t);
  Point evaluate(const std::function<Tensor()>& loss, double t);
  void check_finite(const Point& at) const;
  void turn(const Tensor& gradient);

  Sgd moves_;  // adds to the parameters, and checks them as every optimizer does
  Tensor direction_, last_gradient_;
  std::vector<Tensor> gradient_changes_, weight_changes_;  // of the last history_size iterations
  double length_ = 0;  // of the last move, in units of direction_
  double scale_ = 1;   // of the first guess at the inverse Hessian
  int64_t iterations_ = 0, evaluations_ = 0;
};

}  // namespace tern::optim

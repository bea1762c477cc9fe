// Learning-rate schedules: pure functions from the number of steps taken so far (0 before the
// first) to a factor of the learning rate. A resume needs only that number.
//
//   optim::Schedule schedule = optim::cosine({.warmup = 500, .total = 10000});
//   optimizer.set_lr_factor(schedule(step));
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "tern/core/io/state.h"

namespace tern::optim {

using Schedule = std::function<double(int64_t step)>;

/// 1 after a linear warm-up, in which step k has (k+1) / warmup.
Schedule constant(int64_t warmup = 0);

/// factor^(step / every), with the exponent rounded down.
Schedule step_decay(int64_t every, double factor = 0.1);

struct WarmupOptions {
  int64_t warmup = 0;  ///< steps of linear warm-up
  int64_t total = 0;   ///< steps until `last` is reached, warm-up included; needed
  double last = 0;     ///< the factor at `total` and after it
};
/// Half a cosine from 1 down to `last` (Loshchilov & Hutter 2017).
Schedule cosine(const WarmupOptions& options);
/// A straight line from 1 down to `last`.
Schedule linear_decay(const WarmupOptions& options);

struct PolynomialOptions {
  int64_t warmup = 0, total = 0;  ///< as in WarmupOptions
  double last = 0;
  double power = 1;  ///< 1 is linear_decay
};
/// last + (1 - last) (1 - progress)^power (PolynomialLR).
Schedule polynomial(const PolynomialOptions& options);

enum class Anneal { cos, linear };
struct OneCycleOptions {
  int64_t total = 0;       ///< steps of the cycle; needed
  double pct_start = 0.3;  ///< share of the steps in which the rate rises
  Anneal anneal = Anneal::cos;
  double div_factor = 25;         ///< begins at 1 / div_factor
  double final_div_factor = 1e4;  ///< ends at 1 / (div_factor final_div_factor)
  bool three_phase = false;       ///< falls to the first rate as long as it rose, then to the last
};
/// Up to 1 and down again, once (Smith & Topin 2018): torch.optim's OneCycleLR without the cycle of
/// the momentum. The optimizer's lr is max_lr.
Schedule one_cycle(const OneCycleOptions& options);

enum class Cycle { triangular, triangular2, exp_range };
struct CyclicOptions {
  double base = 0.1;               ///< the lowest factor (base_lr / max_lr)
  int64_t up = 2000;               ///< steps from base to 1
  int64_t down = 0;                ///< steps from 1 back to base; 0: the same number
  Cycle mode = Cycle::triangular;  ///< triangular2: half as high in each cycle
  double gamma = 1;                ///< exp_range: the height is gamma^step
};
/// Up and down, repeated (Smith 2017): torch.optim's CyclicLR. The optimizer's lr is max_lr.
Schedule cyclic(const CyclicOptions& options = {});

/// Follows schedules[i] from step milestones[i - 1] on, which is its step 0 (SequentialLR). There
/// is one milestone fewer than schedules, and they rise.
Schedule sequential(std::vector<Schedule> schedules, std::vector<int64_t> milestones);
/// The product of all schedules (ChainedScheduler).
Schedule chained(std::vector<Schedule> schedules);

/// Vaswani et al. 2017, equation 3: dim^-0.5 * min(t^-0.5, t * warmup^-1.5) with t = step + 1. This
/// is the learning rate itself: use it with an optimizer whose lr is 1 (or a factor of your own).
Schedule noam(int64_t dim, int64_t warmup = 4000);

/// Rises linearly to 1 in `warmup` steps, then falls as sqrt(warmup / t) with t = step + 1.
Schedule inverse_sqrt(int64_t warmup);

struct PlateauOptions {
  double factor = 0.1;
  int64_t patience = 10;    ///< calls in a row without improvement before the one that reduces
  double threshold = 1e-4;  ///< an improvement is better by this share of the best
  bool absolute = false;    ///< an improvement is better by `threshold` itself
  int64_t cooldown = 0;     ///< calls after a reduction that do not count
  double smallest = 0;      ///< lower bound of the factor
  bool maximize = false;    ///< the metric is an accuracy, not a loss
};
/// Multiplies the factor by `factor` when a metric stops improving, like torch.optim's
/// ReduceLROnPlateau. Negative metrics differ on purpose: `threshold` is a share of the absolute
/// value of the best, so a loss of -1 improves below -1.0001. PyTorch multiplies the best by
/// 1 - threshold; then -1 again, or -0.99995, improves on -1, and the rate is never reduced.
class Plateau {
 public:
  explicit Plateau(const PlateauOptions& options = {});
  /// Takes the metric of an epoch and returns the factor for the next.
  double update(double metric);
  double factor() const { return factor_; }
  NamedTensors state_dict() const;
  void load_state_dict(const NamedTensors& state);

 private:
  PlateauOptions options_;
  double factor_ = 1, best_;
  int64_t bad_ = 0, cooling_ = 0;
};

}  // namespace tern::optim

// Learning-rate schedules: pure functions from the number of steps taken so far (0 before the
// first) to a factor of the learning rate. Nothing but that number needs to be saved.
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

/// Always 1, after a linear warm-up: step k of it has (k+1) / warmup.
Schedule constant(int64_t warmup = 0);

/// factor^(step / every), rounded down.
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
  double pct_start = 0.3;  ///< the share of them in which the rate rises
  Anneal anneal = Anneal::cos;
  double div_factor = 25;         ///< begins at 1 / div_factor
  double final_div_factor = 1e4;  ///< ends at 1 / (div_factor final_div_factor)
  bool three_phase = false;       ///< falls as long as it rose, then goes on to the end
};
/// Up to 1 and down again, once (Smith & Topin 2018): torch.optim's OneCycleLR, the optimizer's lr
/// being max_lr, without its cycle of the momentum.
Schedule one_cycle(const OneCycleOptions& options);

enum class Cycle { triangular, triangular2, exp_range };
struct CyclicOptions {
  double base = 0.1;               ///< the lowest factor (base_lr / max_lr)
  int64_t up = 2000;               ///< steps from base to 1
  int64_t down = 0;                ///< steps back; 0: as many
  Cycle mode = Cycle::triangular;  ///< triangular2: half as high in each cycle
  double gamma = 1;                ///< exp_range: the height is gamma^step
};
/// Up and down again and again (Smith 2017): torch.optim's CyclicLR, the optimizer's lr being
/// max_lr.
Schedule cyclic(const CyclicOptions& options = {});

/// schedules[i] from milestones[i - 1] on, where it begins at its own step 0 (SequentialLR): one
/// milestone fewer than schedules, rising.
Schedule sequential(std::vector<Schedule> schedules, std::vector<int64_t> milestones);
/// The product of all (ChainedScheduler).
Schedule chained(std::vector<Schedule> schedules);

/// Vaswani et al. 2017, equation 3: dim^-0.5 * min(t^-0.5, t * warmup^-1.5) with t = step + 1. The
/// learning rate itself: use it with an optimizer of lr 1 (or a factor of your own).
Schedule noam(int64_t dim, int64_t warmup = 4000);

/// 1 at the end of the warm-up, then sqrt(warmup / t).
Schedule inverse_sqrt(int64_t warmup);

struct PlateauOptions {
  double factor = 0.1;
  int64_t patience = 10;    ///< calls without improvement that are let pass
  double threshold = 1e-4;  ///< an improvement is better by this share of the best
  bool absolute = false;    ///< an improvement is better by `threshold` itself
  int64_t cooldown = 0;     ///< calls after a reduction that do not count
  double smallest = 0;      ///< the factor is never less
  bool maximize = false;    ///< the metric is an accuracy, not a loss
};
/// Multiplies the factor by `factor` when a metric stops improving, as torch.optim's
/// ReduceLROnPlateau. Negative metrics differ on purpose: a share of the best is a share of its
/// size, so that a loss of -1 improves below -1.0001. PyTorch multiplies by 1 - threshold, for
/// which the same -1 again, or -0.99995, is an improvement over -1, and the rate is never reduced.
class Plateau {
 public:
  explicit Plateau(const PlateauOptions& options = {});
  /// Takes the metric of an epoch and gives the factor for the next.
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

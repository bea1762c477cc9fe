// Counts NaN and infinities in the inputs and results of every op, to tell an op that made one from
// an op that got one.
#include "tern/core/tools/anomaly.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"

namespace tern {
namespace {

struct Census {
  int64_t nan = 0, infinite = 0;
  double low = std::numeric_limits<double>::infinity(), high = -low;  // of the finite elements
};

Census count(const Tensor& t) {
  Census c;
  if (!t.defined() || !is_float(t.dtype())) return c;
  Tensor x = t.detach().contiguous();
  dispatch_float(x.dtype(), "anomaly", [&]<class T>() {
    const T* p = x.numel() ? x.data<T>() : nullptr;
    for (int64_t i = 0; i < x.numel(); ++i) {
      const auto v = static_cast<double>(p[i]);
      c.nan += std::isnan(v);
      c.infinite += std::isinf(v);
      if (!std::isfinite(v)) continue;
      c.low = std::min(c.low, v);
      c.high = std::max(c.high, v);
    }
  });
  return c;
}

std::string describe(const Tensor& t) {
  std::string text = fmt::format("{} {}", t.dtype(), t.shape());
  if (!is_float(t.dtype())) return text;
  Census c = count(t);
  if (c.low <= c.high) text += fmt::format(" in [{:.4g}, {:.4g}]", c.low, c.high);
  if (c.nan) text += fmt::format(", {} NaN", c.nan);
  if (c.infinite) text += fmt::format(", {} infinite", c.infinite);
  return text;
}

std::string describe_inputs(const OpScope& op) {
  std::string text;
  for (int i = 0; i < op.num_inputs(); ++i)
    if (op.input(i).defined()) text += (text.empty() ? "" : "; ") + describe(op.input(i));
  return text.empty() ? "none" : text;
}

// Whether the op only moves or copies given values, or returns memory that is not written yet.
bool writes_given_values(const OpScope& op) {
  constexpr std::array kNames = {
      "full",  "tensor",  "empty",         "fill_",           "copy_",   "cat",
      "stack", "pad",     "where",         "scalar",          "cast",    "clone",
      "flip",  "roll",    "pixel_shuffle", "pixel_unshuffle", "eye",     "sort",
      "topk",  "scatter", "diag_embed",    "median",          "kthvalue"};
  // These ops may read an element several times, so their VJPs add.
  constexpr std::array kReaders = {"gather", "take_along_axis", "index_select", "unfold"};
  const auto among = [&](const auto& names) {
    return std::find(names.begin(), names.end(), std::string_view(op.name())) != names.end();
  };
  return among(kNames) || (!op.is_vjp() && among(kReaders));
}

// The index of the first input that the op reads. fill_ and copy_ overwrite their target, which may
// contain anything, including the NaN of uninitialised memory.
int first_read(const OpScope& op) {
  const std::string_view name = op.name();
  return name == "fill_" || name == "copy_" ? 1 : 0;
}

bool is_view_of_input(const OpScope& op, const Tensor& result) {
  for (int i = 0; i < op.num_inputs() && !op.is_vjp(); ++i)
    if (op.input(i).defined() && op.input(i).ref()->storage == result.ref()->storage) return true;
  return false;
}

std::string in_module(const OpScope& op, const std::string& text) {
  std::string where = op.module();
  return where.empty() ? text : where + ": " + text;
}

}  // namespace

AnomalyDetector::AnomalyDetector(const AnomalyOptions& options)
    : options_(options), watching_(*this) {}

void AnomalyDetector::begin(const OpScope& op) {
  Open open{&op, false, false, {}, {}, {}, {}};
  for (int i = first_read(op); i < op.num_inputs(); ++i) {
    Census c = count(op.input(i));
    open.nan_came_in |= c.nan > 0;
    open.infinity_came_in |= c.infinite > 0;
  }
  if (op.is_vjp() || (op.in_place() && first_read(op) == 0)) open.overwritten = describe_inputs(op);
  if (open.nan_came_in && std::string_view(op.name()) != "checkpoint")  // it runs modules
    open.given =
        in_module(op, fmt::format("{} was given NaN; inputs: {}", op.name(), describe_inputs(op)));
  for (int i = 0; i < op.num_gathered(); ++i) {
    Census c = count(op.gathered(i));
    open.nan_gathered.push_back(c.nan > 0);
    open.infinity_gathered.push_back(c.infinite > 0);
    if (c.nan > 0 && open.given.empty())
      open.given =
          in_module(op, fmt::format("the gradient gathered for input {} of {} already had NaN: {}",
                                    i, op.name(), describe(op.gathered(i))));
  }
  open_.push_back(std::move(open));
}

void AnomalyDetector::made(const OpScope& op, const Tensor& result, int index) {
  if (open_.empty() || open_.back().scope != &op) return;
  Open& open = open_.back();
  if (!op.in_place() && is_view_of_input(op, result))
    open.given.clear();  // the memory may be overwritten later
  if (writes_given_values(op)) return;
  const bool vjp = op.is_vjp();
  const auto i = static_cast<size_t>(index);
  const bool nan_before = open.nan_came_in || (vjp && open.nan_gathered[i]);
  const bool infinity_before = open.infinity_came_in || (vjp && open.infinity_gathered[i]);
  Census c = count(result);
  // A gathered gradient with NaN stays NaN, whatever is added.
  const bool nan_now = c.nan > 0 || (vjp && open.nan_gathered[i]);
  // Ops write in place within others, such as the running statistics of batch_norm.
  if (nan_now && !op.in_place() && (!nan_before || !open.given.empty()))
    if (const std::string given = outermost_given(); !given.empty()) throw Error(given);
  if (c.nan ? nan_before : c.infinite == 0 || infinity_before || nan_before) return;
  std::string what = vjp ? fmt::format("the gradient of input {}", index) : "the result";
  std::string text =
      in_module(op, fmt::format("{} first seen in {}, {}: {} of {} elements of {} {}; {}: {}",
                                c.nan ? "NaN" : "infinity", op.name(),
                                op.pass() == Pass::backward ? "backward" : "forward",
                                c.nan ? c.nan : c.infinite, result.numel(), what, result.shape(),
                                vjp ? "incoming gradient" : "inputs",
                                open.overwritten.empty() ? describe_inputs(op) : open.overwritten));
  if (c.nan == 0 && first_infinity_.empty()) first_infinity_ = text;
  if (c.nan > 0 || options_.infinities) {
    if (c.nan > 0 && !first_infinity_.empty()) text += "; before that, " + first_infinity_;
    throw Error(text);
  }
}

void AnomalyDetector::end(const OpScope& op) noexcept {
  if (open_.empty() || open_.back().scope != &op) return;
  if (first_given_.empty() && !open_.back().given.empty()) first_given_ = outermost_given();
  open_.pop_back();
}

// The text of the outermost open op that got a NaN; empty if none did.
std::string AnomalyDetector::outermost_given() const {
  const auto open =
      std::find_if(open_.begin(), open_.end(), [](const Open& o) { return !o.given.empty(); });
  return open == open_.end() ? "" : open->given;
}

}  // namespace tern

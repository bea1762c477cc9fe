// cost_growth [--model NAME] [--axis NAME] [--limit-mb 8192] [--threads 2]: measures how time and
// memory of a training step grow with batch, width, depth and sequence length. It doubles one of
// them, with the others at their base values, until a step would exceed the memory limit (predicted
// by core/tools/step_cost.h) or takes more than --seconds. Prints a table per axis with log-log
// slopes: 1 is linear, 2 quadratic.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>

#include "tern/apps/common/command_line/command_line.h"
#include "tern/apps/common/training/training_options.h"
#include "tern/bench/cases.h"
#include "tern/core/base/allocator.h"
#include "tern/core/base/cpu.h"
#include "tern/core/base/rng.h"
#include "tern/core/base/shape_only.h"
#include "tern/core/base/threads.h"
#include "tern/core/ops/attention/attention.h"
#include "tern/core/tape/autograd.h"
#include "tern/core/tools/step_cost.h"
#include "tern/models/gmlp_text.h"
#include "tern/models/gpt.h"
#include "tern/models/transformer.h"
#include "tern/optim/optim.h"

namespace tern::bench {
namespace {

constexpr int64_t kVocab = 4096, kHeadSize = 64;
constexpr size_t kSlopePoints = 4;  ///< only the largest sizes: constant costs dominate small ones

struct Sizes {
  int64_t batch = 8, width = 256, depth = 2, tokens = 64;
};

struct Axis {
  const char* name;
  int64_t Sizes::*size;
  int64_t start;
};

constexpr Axis kAxes[] = {{"batch", &Sizes::batch, 1},
                          {"width", &Sizes::width, 64},
                          {"depth", &Sizes::depth, 1},
                          {"tokens", &Sizes::tokens, 16}};

struct Flags {
  std::string model = "gpt", axis = "all", precision = "f32";
  double limit_mb = 8192, seconds = 60;
  int threads = 2, reps = 3;
  apps::MemoryOptions memory_use;
};

int64_t heads_of(const Sizes& s) { return std::max<int64_t>(1, s.width / kHeadSize); }

Tensor tokens_of(const Sizes& s, Rng& rng) { return randint(0, kVocab, {s.batch, s.tokens}, rng); }

Workload gpt(const Sizes& s, nn::Recompute recompute) {
  Rng rng(0);
  auto model = std::make_shared<models::Gpt>(models::GptOptions{.vocab = kVocab,
                                                                .context = s.tokens,
                                                                .dim = s.width,
                                                                .layers = s.depth,
                                                                .heads = heads_of(s),
                                                                .recompute = recompute},
                                             rng);
  const Tensor x = tokens_of(s, rng);
  return {nn::named_parameters(*model), [=] { return model->loss(x, x); }};
}

Workload gmlp(const Sizes& s, nn::Recompute recompute) {
  Rng rng(0);
  auto model =
      std::make_shared<models::GmlpLanguageModel>(models::GmlpTextOptions{.vocab = kVocab,
                                                                          .context = s.tokens,
                                                                          .dim = s.width,
                                                                          .layers = s.depth,
                                                                          .recompute = recompute},
                                                  rng);
  const Tensor x = tokens_of(s, rng);
  return {nn::named_parameters(*model), [=] { return model->loss(x, x); }};
}

Workload transformer(const Sizes& s, nn::Recompute recompute) {
  Rng rng(0);
  models::TransformerOptions o;
  o.source_vocab = o.target_vocab = kVocab;
  o.encoder_layers = o.decoder_layers = s.depth;
  o.layer = {.dim = s.width, .heads = heads_of(s), .ffn = 4 * s.width, .recompute = recompute};
  auto model = std::make_shared<models::Transformer>(o, rng);
  const Tensor x = tokens_of(s, rng);
  return {nn::named_parameters(*model), [=] { return model->loss(x, {}, x, x); }};
}

// Only the attention op, `depth` times.
Workload attention(const Sizes& s, nn::Recompute) {
  Rng rng(0);
  const Tensor qkv = randn({s.batch, s.tokens, 3 * s.width}, rng).set_requires_grad();
  return {{{"qkv", qkv}}, [=] {
            Tensor y = zeros({});
            for (int64_t i = 0; i < s.depth; ++i)
              y = y + sum(self_attention(qkv, {.heads = heads_of(s)},
                                         {.mask = nn::Mask::causal().parts()}));
            return y;
          }};
}

struct Subject {
  const char* name;
  Workload (*make)(const Sizes&, nn::Recompute);
};

constexpr Subject kSubjects[] = {
    {"gpt", gpt}, {"gmlp", gmlp}, {"transformer", transformer}, {"attention", attention}};

/// A model with its optimizer, and the parts of its step.
struct Training {
  Workload work;
  std::unique_ptr<optim::AdamW> optimizer;
  bool in_backward;
  int bits;

  Training(const Subject& subject, const Sizes& s, const apps::MemoryOptions& m)
      : work(subject.make(s, nn::recompute_named(m.recompute))),
        in_backward(m.step_in_backward),
        bits(static_cast<int>(m.optimizer_bits)) {}
  void setup() {
    optimizer =
        std::make_unique<optim::AdamW>(work.parameters, optim::AdamWOptions{.state_bits = bits});
    optimizer->allocate_state();
  }
  void backward(const Tensor& loss) const {
    if (in_backward)
      tern::backward(loss, {.on_ready = optimizer->step_in_backward()});
    else
      tern::backward(loss);
  }
  void update() const {
    optimizer->step();
    optimizer->zero_grad();
  }
};

int64_t predicted_peak(const Subject& subject, const Sizes& s, const apps::MemoryOptions& m) {
  ShapeOnlyScope nothing;
  Training t(subject, s, m);
  return step_cost({.setup = [&] { t.setup(); },
                    .loss = t.work.loss,
                    .backward = [&](const Tensor& loss) { t.backward(loss); },
                    .update = [&] { t.update(); }},
                   t.work.parameters)
      .peak();
}

struct Point {
  int64_t size;
  double ms, mb;
};

// The shortest time of some steps, and the allocator's peak above the memory in use before.
Point measure(const Subject& subject, const Sizes& s, int64_t size, const Flags& flags) {
  trim_memory();
  const int64_t before = memory_stats().live;
  reset_peak_memory();
  Training t(subject, s, flags.memory_use);
  t.setup();
  double best = 1e9;
  for (int i = 0; i < flags.reps + 1; ++i) {
    const auto start = std::chrono::steady_clock::now();
    t.backward(t.work.loss());
    t.update();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    if (i > 0 || took.count() > flags.seconds) best = std::min(best, took.count());
    if (took.count() > flags.seconds) break;
  }
  const auto peak = static_cast<double>(memory_stats().peak - before);
  return {size, best * 1e3, peak / (1 << 20)};
}

/// The slope of a least-squares line through the logarithms of the last points.
double slope(const std::vector<Point>& points, double Point::*value) {
  const size_t n = std::min(points.size(), kSlopePoints);
  if (n < 2) return std::nan("");
  double sx = 0, sy = 0, sxx = 0, sxy = 0;
  for (size_t i = points.size() - n; i < points.size(); ++i) {
    const double x = std::log2(static_cast<double>(points[i].size));
    const double y = std::log2(points[i].*value);
    sx += x, sy += y, sxx += x * x, sxy += x * y;
  }
  const auto count = static_cast<double>(n);
  return (count * sxy - sx * sy) / (count * sxx - sx * sx);
}

void sweep(const Subject& subject, const Axis& axis, const Flags& flags) {
  fmt::print("\n| {} | ms per step | peak MB |\n|---|---|---|\n", axis.name);
  std::vector<Point> points;
  const char* end = "";
  for (int64_t size = axis.start; size < int64_t{1} << 24; size *= 2) {
    Sizes s;
    s.*axis.size = size;
    const double said = static_cast<double>(predicted_peak(subject, s, flags.memory_use));
    end = "the memory limit";
    if (said > flags.limit_mb * (1 << 20)) break;
    points.push_back(measure(subject, s, size, flags));
    fmt::print("| {} | {:.1f} | {:.1f} |\n", size, points.back().ms, points.back().mb);
    std::fflush(stdout);
    end = "the time limit";
    if (points.back().ms > 1e3 * flags.seconds) break;
  }
  fmt::print("| slope | {:.2f} | {:.2f} |\nended at {}\n", slope(points, &Point::ms),
             slope(points, &Point::mb), end);
}

void add_settings(apps::Settings& s, Flags& flags) {
  std::vector<std::string> names, axes = {"all"};
  for (const Subject& subject : kSubjects) names.emplace_back(subject.name);
  for (const Axis& a : kAxes) axes.emplace_back(a.name);
  s.word("model", flags.model, names, "what is trained");
  s.word("axis", flags.axis, axes, "what is doubled");
  s.number("limit_mb", flags.limit_mb, apps::kCount, "memory of a step");
  s.number("seconds", flags.seconds, apps::kAboveZero, "the longest step of an axis");
  apps::add_threads(s, flags.threads);
  s.number("reps", flags.reps, {1, 1e6}, "steps timed, after one that is not");
  apps::add_precision(s, flags.precision);
  apps::add_memory_settings(s, flags.memory_use);
}

int run(const Flags& flags) {
  const Sizes base;
  fmt::print(
      "{}: batch {}, width {}, depth {}, {} tokens, except for the size that varies; {} threads, "
      "{}, {}{}\n",
      flags.model, base.batch, base.width, base.depth, base.tokens, num_threads(),
      build_details().cpu, flags.precision, apps::describe_memory(flags.memory_use));
  for (const Subject& subject : kSubjects)
    if (flags.model == subject.name)
      for (const Axis& axis : kAxes)
        if (flags.axis == "all" || flags.axis == axis.name) sweep(subject, axis, flags);
  return 0;
}

apps::Program program(Flags& flags, int, char**) {
  const apps::Command command{.settings = [&](apps::Settings& s) { add_settings(s, flags); },
                              .run = [&] { return run(flags); }};
  return {"cost_growth", "How a training step's cost grows.", {command}};
}

}  // namespace
}  // namespace tern::bench

int main(int argc, char** argv) {
  return tern::apps::run_program("cost_growth", tern::bench::program, argc, argv);
}

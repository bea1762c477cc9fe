// Runs a model on one sequence and records outputs, errors, head weightings and memory for
// pictures.
#include <fmt/format.h>

#include "tern/apps/common/pages/attention.h"
#include "tern/apps/ntm/report.h"
#include "tern/core/base/error.h"
#include "tern/core/base/rng.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"

namespace tern::apps::ntm {
namespace {

constexpr int64_t kMemories = 4;  // pictures of the memory

Strip strip(const std::string& title, const Tensor& x) {  // (T, rows)
  return {title, x.size(0), x.size(1), x.to_vector<float>()};
}

/// The weightings (1, T, H, N) of a trace as (H, T, N).
Tensor by_head(const Tensor& weights) { return transpose(select(weights, 0, 0), 0, 1); }

void add_weights(Episode& e, const models::NtmTrace& trace) {
  for (const auto& [kind, weights] : {std::pair{"write", by_head(trace.write_weights)},
                                      std::pair{"read", by_head(trace.read_weights)}})
    for (int64_t h = 0; h < weights.size(0); ++h)
      e.weights.push_back(strip(weights.size(0) == 1
                                    ? fmt::format("{} weightings", kind)
                                    : fmt::format("{} weightings, head {}", kind, h + 1),
                                select(weights, 0, h)));
  const Tensor memory = select(trace.memory, 0, 0);
  const int64_t steps = memory.size(0);
  for (int64_t i = 1; i <= kMemories; ++i) {
    const int64_t step = steps * i / kMemories;
    if (step == 0) continue;
    const Tensor x = select(memory, 0, step - 1);
    e.memory.push_back({step, x.size(0), x.size(1), x.to_vector<float>()});
  }
}

datasets::SequenceBatch draw_one(const datasets::SequenceTask& task, int64_t length,
                                 uint64_t seed) {
  Rng rng = Rng(seed).stream(static_cast<uint64_t>(length));
  return task.draw_length(1, length, rng);
}

}  // namespace

Episode observe(const SequenceModel& model, const datasets::SequenceTask& task, int64_t length,
                uint64_t seed) {
  NoGradGuard no_grad;
  const datasets::SequenceBatch b = draw_one(task, length, seed);
  Episode e;
  e.length = length;
  Tensor logits;
  if (const models::Ntm* machine = model.machine()) {
    models::NtmRun run = machine->run(b.input, {.trace = true});
    logits = run.output;
    add_weights(e, run.trace);
  } else {
    logits = model(b.input);
  }
  const Tensor asked = unsqueeze(select(b.mask, 0, 0), 1);
  const Tensor target = select(b.target, 0, 0), output = select(sigmoid(logits), 0, 0) * asked;
  e.bits = datasets::cost_in_bits(logits, b);
  e.wrong = static_cast<int64_t>(datasets::wrong_bits(logits, b).item());
  e.input = strip("input", select(b.input, 0, 0));
  e.target = strip("target", target);
  e.output = strip("output", output);
  e.error = strip("output minus target", (output - target) * asked);
  return e;
}

AttentionSentence observe_weights(const SequenceModel& model, const datasets::SequenceTask& task,
                                  int64_t length, uint64_t seed) {
  NoGradGuard no_grad;
  const models::Ntm* machine = model.machine();
  check(machine != nullptr, "--attention: an LSTM has no weightings");
  const datasets::SequenceBatch b = draw_one(task, length, seed);
  const models::NtmRun run = machine->run(b.input, {.trace = true});
  std::vector<std::string> steps, slots;
  for (int64_t t = 1; t <= b.input.size(1); ++t) steps.push_back(fmt::format("step {}", t));
  for (int64_t n = 1; n <= machine->options.locations; ++n) slots.push_back(fmt::format("{}", n));
  AttentionSentence s{fmt::format("{}, {} {}", task.name, length, task.unit),
                      fmt::format("{:.4f} bits", datasets::cost_in_bits(run.output, b)),
                      "",
                      {}};
  record_attention(s, "Write weightings", 1, by_head(run.trace.write_weights), steps, slots);
  record_attention(s, "Read weightings", 1, by_head(run.trace.read_weights), steps, slots);
  return s;
}

}  // namespace tern::apps::ntm

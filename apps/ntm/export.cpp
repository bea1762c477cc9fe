// The command export of ntm: one step of the model as an ONNX file.
#include <fmt/format.h>

#include "tern/apps/common/training/folder.h"
#include "tern/apps/common/training/weights_fit.h"
#include "tern/apps/ntm/program.h"
#include "tern/core/base/error.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/models/state_tensors.h"
#include "tern/onnx/onnx_step.h"
#include "tern/train/progress.h"

namespace tern::apps::ntm {
namespace {

using models::LstmBaseline, models::Ntm;

models::NtmState start_of(const Ntm& m, int64_t batch) { return m.start(batch); }
nn::RnnState start_of(const LstmBaseline& m, int64_t batch) { return m.lstm.zeros(batch); }

std::pair<Tensor, models::NtmState> run(const Ntm& m, const Tensor& x,
                                        const models::NtmState& state) {
  models::NtmRun y = m.run(x, {.state = state});
  return {y.output, y.state};
}
std::pair<Tensor, nn::RnnState> run(const LstmBaseline& m, const Tensor& x,
                                    const nn::RnnState& state) {
  nn::RnnOutput y = m.lstm(x, {.state = state});
  return {m.output(y.output), y.state};
}

/// `state`, but the initial state in rows where `begin` is not 0.
template <class State>
State begun(const State& state, const State& start, const Tensor& begin) {
  std::vector<Tensor> first;
  map_tensors(start, [&](const std::string&, const Tensor& t) {
    first.push_back(t);
    return t;
  });
  auto next = first.begin();
  return map_tensors(state, [&](const std::string&, const Tensor& t) {
    return where(unsqueeze(begin, 1), *next++, t);
  });
}

template <class M>
std::string export_network(const NtmFlags& f, const M& m, int64_t inputs) {
  using State = decltype(start_of(m, 1));
  NoGradGuard no_grad;
  Rng rng(0);
  auto example = [&](int64_t n) {
    const Tensor x = randn({n, 1, inputs}, rng);
    return OnnxStepExample<State>{{squeeze(x, 1), remainder(arange(0, n), 2).to(DType::u8)},
                                  run(m, x, start_of(m, n)).second};
  };
  auto step = [&](const OnnxTensors& in, const State& state) {
    auto y = run(m, unsqueeze(in[0], 1), begun(state, start_of(m, in[0].size(0)), in[1]));
    return std::pair(OnnxTensors{squeeze(y.first, 1)}, y.second);
  };
  return export_onnx_step(f.out, m, step, std::vector{example(2), example(5)},
                          {.inputs = {"x", "begin"}, .outputs = {"logits"}, .opset = f.opset});
}

}  // namespace

int export_model(const NtmFlags& f) {
  const training::RunFolder folder{f.model};
  check_first_epoch_over(folder.best_weights());
  const NtmConfig c = load_config(folder);
  const SequenceModel model = load_best_model(folder, c);
  const int64_t inputs = datasets::sequence_task(c.task).inputs;
  const std::string what = std::visit(
      [&](const auto& network) { return export_network(f, network, inputs); }, model.network);
  training::say(fmt::format("a step of {} as {}: {}", f.model, f.out, what), stderr);
  return 0;
}

}  // namespace tern::apps::ntm

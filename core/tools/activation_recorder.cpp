// Observes ops to record the outputs of layers and their gradients.
#include "tern/core/tools/activation_recorder.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/core/tape/node.h"

namespace tern {
namespace {

bool same_elements(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && a.to_vector<double>() == b.to_vector<double>();
}

std::string entry(const char* kind, size_t number, const std::string& name) {
  return fmt::format("{}/{:06}/{}", kind, number, name);
}

}  // namespace

ActivationRecorder::ActivationRecorder() { watching_.emplace(static_cast<Observer&>(*this)); }

void ActivationRecorder::begin(const OpScope& op) {
  finish_call();
  if (op.is_vjp()) return take_gradient(op);
  if (at_work_ || op.pass() == Pass::backward || op.in_place()) return;
  const std::optional<std::string> layer = layer_of(op);
  if (!layer) return;
  at_work_ = &op;
  told_ = false;
  call_ = {*layer, {}, false, {}};
}

// The module whose parameter, or view of one, is among the operands.
std::optional<std::string> ActivationRecorder::layer_of(const OpScope& op) const {
  for (int i = 0; i < op.num_inputs(); ++i) {
    const Tensor& t = op.input(i);
    if (!t.defined()) continue;
    if (!parameter_name(t).empty()) return op.module();
    const auto view = views_.find(t.ref()->storage.get());
    if (view != views_.end()) return view->second.module;
  }
  return {};
}

// A view of a parameter is an input of a later op, not the output of a layer.
bool ActivationRecorder::is_view(const Tensor& result) const {
  for (int i = 0; i < at_work_->num_inputs(); ++i) {
    const Tensor& t = at_work_->input(i);
    if (t.defined() && t.ref()->storage == result.ref()->storage &&
        (!parameter_name(t).empty() || views_.contains(t.ref()->storage.get())))
      return true;
  }
  return false;
}

// Takes the newest result of the outermost op or of an op inside it: if an op consists of others,
// these make its result. Of a sum and its norm, the layer is the norm.
void ActivationRecorder::made(const OpScope& op, const Tensor& result, int index) {
  finish_call();
  const bool of_layer = index == 0 || std::string_view(op.name()).starts_with("sum_and_");
  if (at_work_ && !told_ && of_layer && op.pass() == Pass::forward && !op.in_place() &&
      result.defined())
    take_result(op, result);
}

// Takes the first result that the outermost op names, if others made it: recurrent layers cut
// their last states off it.
void ActivationRecorder::noted(const OpScope& op, const char* name, const Note& value) {
  const Tensor* const* result = std::get_if<const Tensor*>(&value);
  if (at_work_ != &op || told_ || !result || std::string_view(name) != "result") return;
  if (!(*result)->defined()) return;
  take_result(op, **result);
  told_ = true;
}

void ActivationRecorder::take_result(const OpScope& op, const Tensor& result) {
  const bool view = is_view(result), counts = is_float(result.dtype()) && !view;
  if (view) views_[result.ref()->storage.get()] = {result.detach(), call_.module};
  call_.output = counts ? result.detach() : Tensor();
  call_.node = result.node();
  call_.fused = false;
  if (!counts || &op != at_work_ || std::string_view(op.name()) != "linear") return;
  NoGradGuard no_grad;
  const Tensor plain = linear(op.input(0), op.input(1), op.input(2));
  call_.fused = !same_elements(plain, result);
  call_.output = plain;
}

void ActivationRecorder::end(const OpScope& op) noexcept {
  if (at_work_ == &op) at_work_ = nullptr;  // the next op does the rest, which may throw
}

void ActivationRecorder::finish_call() {
  if (at_work_ || !call_.output.defined()) return;
  Call call = std::exchange(call_, {});
  call.output = call.output.clone();
  if (call.node) waiting_[call.node.get()] = calls_.size();
  calls_.push_back(std::move(call));
}

void ActivationRecorder::take_gradient(const OpScope& vjp) {
  const auto found = waiting_.find(vjp.node());
  if (found == waiting_.end()) return;
  const Call& call = calls_[found->second];
  waiting_.erase(found);
  // Gradients are counted from the last call: behind one left out, the numbers would differ.
  if (call.fused) left_out_.insert(call.module);
  if (!left_out_.contains(call.module))
    gradients_.push_back({call.module, vjp.input(0).detach().clone()});
}

// Whether no submodule has calls of its own. In a module with submodules, the op that takes the
// module's own parameters does not make its output.
bool ActivationRecorder::is_layer(const std::string& module) const {
  const std::string above = module.empty() ? "" : module + ".";
  return std::none_of(calls_.begin(), calls_.end(), [&](const Call& c) {
    return c.module != module && c.module.starts_with(above);
  });
}

SafeTensors ActivationRecorder::recording(const NamedTensors& parameters) {
  finish_call();
  SafeTensors out;
  std::map<std::string, size_t> last;  // 1 + the index of each module's last call
  for (size_t i = 0; i < calls_.size(); ++i) {
    last[calls_[i].module] = i + 1;
    if (is_layer(calls_[i].module))
      out.tensors.emplace_back(entry("output", i, calls_[i].module), calls_[i].output);
  }
  for (size_t i = 0; i < gradients_.size(); ++i)
    if (is_layer(gradients_[i].module))
      out.tensors.emplace_back(entry("gradient", i, gradients_[i].module), gradients_[i].value);
  NamedTensors backwards;
  for (auto p = parameters.rbegin(); p != parameters.rend(); ++p)
    if (p->second.grad().defined()) backwards.push_back(*p);
  auto position = [&](const std::string& name) {
    auto at = last.find(name.substr(0, std::min(name.rfind('.'), name.size())));
    return at == last.end() ? 0 : at->second;
  };
  std::stable_sort(backwards.begin(), backwards.end(), [&](const auto& a, const auto& b) {
    return position(a.first) > position(b.first);
  });
  for (size_t i = 0; i < backwards.size(); ++i)
    out.tensors.emplace_back(entry("weight", i, backwards[i].first),
                             backwards[i].second.grad().clone());
  return out;
}

void ActivationRecorder::save(const std::string& path, const NamedTensors& parameters) {
  save_safetensors(path, recording(parameters));
}

}  // namespace tern

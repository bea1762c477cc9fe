// Records the inputs and outputs of every layer in a file, to find where two implementations of a
// model diverge. bench/record_torch.py writes the same for a PyTorch model. first_divergence
// (recordings.h) compares two recordings.
//
//   nn::EvalScope evaluating(model);                    // no random numbers
//   const NamedTensors parameters = nn::named_parameters(model);
//   ActivationRecorder recorder;
//   backward(cross_entropy(model(x), y));
//   recorder.save("tern.safetensors", parameters);      // with the gradients of the parameters
//
// A layer is a module with parameters whose submodules have none: linear layers, norms,
// convolutions, tables. For each call the recorder writes:
// - output/NUMBER/MODULE: the result of the op that took the layer's parameters, or views of them;
//   NUMBER counts in forward order. For a linear layer this is x W^T + b, even if an activation and
//   a residual are fused into it.
// - gradient/NUMBER/MODULE: the gradient of that output, in backward order; left out if a fused op
//   does not compute it, and then for earlier calls of the same layer too. Layers in a checkpoint()
//   have none: their gradients are computed in its second run.
// - weight/NUMBER/NAME: the gradient of parameter NAME, beginning with the last layer.
// Modules have the names that a module walk gave them. All tensors are copied, so the recording
// takes as much memory as all outputs together, and keeps what was saved for a backward pass until
// that has run.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "tern/core/io/safetensors.h"
#include "tern/core/io/state.h"
#include "tern/core/tape/node.h"
#include "tern/core/tape/op.h"

namespace tern {

/// Records the ops of this thread from its construction to its destruction or stop().
class ActivationRecorder final : private Observer {
 public:
  [[nodiscard]] ActivationRecorder();
  ActivationRecorder(const ActivationRecorder&) = delete;
  ActivationRecorder& operator=(const ActivationRecorder&) = delete;
  ~ActivationRecorder() override = default;

  void stop() { watching_.reset(); }

  /// The recording so far, with the current gradients of `parameters`.
  SafeTensors recording(const NamedTensors& parameters = {});
  /// Writes recording() to a file. IoError if that fails.
  void save(const std::string& path, const NamedTensors& parameters = {});

 private:
  struct Call {
    std::string module;
    Tensor output;
    bool fused = false;              // the node's gradient is not that of this output
    detail::Ref<detail::Node> node;  // null without a gradient
  };
  struct View {
    Tensor of;  // keeps the elements, so that no other tensor gets their address
    std::string module;
  };
  struct Gradient {
    std::string module;
    Tensor value;
  };

  void begin(const OpScope& op) override;
  void made(const OpScope& op, const Tensor& result, int index) override;
  void noted(const OpScope& op, const char* name, const Note& value) override;
  void end(const OpScope& op) noexcept override;
  void take_result(const OpScope& op, const Tensor& result);
  void take_gradient(const OpScope& vjp);
  void finish_call();
  bool is_layer(const std::string& module) const;
  std::optional<std::string> layer_of(const OpScope& op) const;
  bool is_view(const Tensor& result) const;

  const OpScope* at_work_ = nullptr;  // outermost op that takes parameters
  bool told_ = false;                 // it has named its result
  Call call_;                         // its newest result; complete when the op has ended
  std::vector<Call> calls_;           // in forward order
  std::unordered_map<const detail::Node*, size_t> waiting_;  // for gradients; indices of calls_
  std::vector<Gradient> gradients_;                          // in backward order
  std::unordered_map<const detail::Storage*, View> views_;   // of parameters
  std::set<std::string> left_out_;  // modules whose earlier calls get no gradients
  std::optional<ObserverScope> watching_;
};

}  // namespace tern

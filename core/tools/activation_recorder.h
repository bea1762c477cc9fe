// What every layer of a model gives and gets, in a file: to find where two implementations of one
// model part. bench/record_torch.py writes the same of a PyTorch model; first_divergence
// (recordings.h) compares them.
//
//   nn::EvalScope evaluating(model);                    // no random numbers
//   const NamedTensors parameters = nn::named_parameters(model);
//   ActivationRecorder recorder;
//   backward(cross_entropy(model(x), y));
//   recorder.save("tern.safetensors", parameters);      // with the gradients of the parameters
//
// A layer is a module that has parameters, and none with parameters below it: linear layers, norms,
// convolutions, tables. Recorded are, call by call,
// - output/NUMBER/MODULE: the result of the op that its parameters went into, NUMBER in the order
//   of the forward pass. Of a linear layer that is x W^T + b, also where activation and residual
//   are fused into it;
// - gradient/NUMBER/MODULE: of that output, in the order of the backward pass; left out where a
//   fused op has none for it;
// - weight/NUMBER/NAME: of parameter NAME, the last layer's first.
// Modules are known by the names that a module walk has told. Everything is copied: it takes the
// memory of all outputs once more.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tern/core/io/safetensors.h"
#include "tern/core/io/state.h"
#include "tern/core/tape/op.h"

namespace tern {

/// Records the ops of this thread while it lives, or until stop().
class ActivationRecorder final : private Observer {
 public:
  ActivationRecorder();
  ActivationRecorder(const ActivationRecorder&) = delete;
  ActivationRecorder& operator=(const ActivationRecorder&) = delete;
  ~ActivationRecorder() override = default;

  void stop() { watching_.reset(); }

  /// What there is so far; with the gradients that `parameters` have now.
  SafeTensors recording(const NamedTensors& parameters = {});
  /// As a file; IoError if it cannot be written.
  void save(const std::string& path, const NamedTensors& parameters = {});

 private:
  struct Call {
    std::string module, op;
    Tensor output;
    bool fused = false;     // the gradient of the op is not that of this output
    bool recorded = false;  // the op has one
  };
  struct Gradient {
    std::string module;
    Tensor value;
  };

  void begin(const OpScope& op) override;
  void made(const OpScope& op, const Tensor& result, int index) override;
  void end(const OpScope& op) noexcept override;
  void take_result(const OpScope& op, const Tensor& result);
  void take_gradient(const OpScope& vjp);
  void finish_call();
  bool is_layer(const std::string& module) const;

  const OpScope* at_work_ = nullptr;  // the outermost op that takes parameters
  Call call_;                         // its newest result; done when it has ended
  std::vector<Call> calls_;           // in the order of the forward pass
  std::vector<Gradient> gradients_;   // in the order of the backward pass
  // Calls whose gradients are still to come, by module and op: the newest comes first.
  std::map<std::pair<std::string, std::string>, std::vector<size_t>> waiting_;
  std::optional<ObserverScope> watching_;
};

}  // namespace tern

// What check_module (nn/check_module.h) does its checks with: copies of the module at work, and
// comparisons in words. Inside of nn only.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tern/core/base/rng.h"
#include "tern/nn/check_module.h"

namespace tern::nn::detail {

bool same_bits(const Tensor& a, const Tensor& b);

/// "output 1 of shape (3, 2), element 4: 0.5 instead of 0.25"; empty if they are the same: to the
/// bit, or `close` as results of other kernels are.
std::string difference(const std::string& what, const Tensor& got, const Tensor& want, bool close);
std::string difference(const Tensors& got, const Tensors& want, bool close = false);

inline std::string output_name(size_t i) { return fmt::format("output {}", i); }

/// A copy of the module, its own.
class Subject {
 public:
  explicit Subject(const AnyModule& module) : module_(module.copy()), fields_(module_.fields()) {}

  const Slots& fields() const { return fields_; }
  NamedTensors parameters() const { return named_parameters(fields_); }
  void set_training(bool on) { detail::set_training(fields_, on); }
  void to(DType dtype) { convert(fields_, dtype); }
  bool is_random() const { return !generators(fields_).empty(); }
  /// Whether training may be anything else than evaluation.
  bool has_modes() const;

  Tensors record(const Tensors& inputs) const { return module_.call(inputs); }
  /// Without gradients.
  Tensors run(const Tensors& inputs) const;

  /// Notes what a forward pass may change, generators and buffers; and puts it back.
  void remember();
  void rewind() const;

 private:
  AnyModule module_;
  Slots fields_;
  std::vector<Rng> rngs_;
  std::vector<std::pair<Tensor, Tensor>> buffers_;
};

/// Floating inputs as f64 leaves of their own; the others as they are.
Tensors to_f64(const Tensors& inputs, bool requires_grad);

/// All outputs that have a gradient as one tensor; undefined if there are none.
Tensor joined(const Tensors& outputs);

/// Outputs, and the gradients of all floating inputs and parameters, with their names.
NamedTensors outputs_and_gradients(Subject& subject, const Tensors& inputs);

NamedTensors clones(const NamedTensors& state);

}  // namespace tern::nn::detail

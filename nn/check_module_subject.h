// Helpers of check_module (nn/check_module.h): copies of the module, and comparisons as text.
// Inside of nn only.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tern/core/base/rng.h"
#include "tern/nn/check_module.h"

namespace tern::nn::detail {

bool same_bits(const Tensor& a, const Tensor& b);

/// "output 1 of shape (3, 2), element 4: 0.5 instead of 0.25". Empty if they are equal: to the bit,
/// or with `close` up to the differences between kernels.
std::string difference(const std::string& what, const Tensor& got, const Tensor& want, bool close);
std::string difference(const Tensors& got, const Tensors& want, bool close = false);

inline std::string output_name(size_t i) { return fmt::format("output {}", i); }

/// Holds its own copy of the module.
class Subject {
 public:
  explicit Subject(const AnyModule& module) : module_(module.copy()), fields_(module_.fields()) {}

  const Slots& fields() const { return fields_; }
  NamedTensors parameters() const { return named_parameters(fields_); }
  void set_training(bool on) { detail::set_training(fields_, on); }
  void to(DType dtype) { convert(fields_, dtype); }
  bool is_random() const { return !generators(fields_).empty(); }
  /// Whether training may differ from evaluation.
  bool has_modes() const;

  Tensors record(const Tensors& inputs) const { return module_.call(inputs); }
  /// Without gradients.
  Tensors run(const Tensors& inputs) const;

  /// Saves what a forward pass may change (generators and buffers); rewind() restores it.
  void remember();
  void rewind() const;

 private:
  AnyModule module_;
  Slots fields_;
  std::vector<Rng> rngs_;
  std::vector<std::pair<Tensor, Tensor>> buffers_;
};

/// Floating inputs as separate f64 leaves; the others unchanged.
Tensors to_f64(const Tensors& inputs, bool requires_grad);

/// All outputs that have a gradient, as one tensor; undefined if there are none.
Tensor joined(const Tensors& outputs);

/// Outputs, and the gradients of all floating inputs and parameters, by name.
NamedTensors outputs_and_gradients(Subject& subject, const Tensors& inputs);

NamedTensors clones(const NamedTensors& state);

}  // namespace tern::nn::detail

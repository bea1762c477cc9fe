// Composed definitions: each fused op has a second definition in public differentiable ops. It has
// the same name in tern::composed and stands in the fused op's file. Uses:
// - Second derivatives: if a backward pass is itself recorded, a fused op takes the gradient of its
//   composed definition (composed_gradients). Four ops have second derivatives of their own.
//   Convolutions, dropout and linear scans are linear in each argument, so their gradients are the
//   same ops again. Softmax (with its logarithm) has a gradient in terms of its result, so that the
//   input need not be kept. Only tests use their composed definitions.
// - Observers that need each step, such as the export to ONNX: ComposedScope (composed_scope.h).
// - Tests: tests/core/ops/test_subjects.cpp compares the two, for each row of subjects.cpp.
#pragma once

#include <vector>

#include "tern/core/ops/attention/attention.h"
#include "tern/core/ops/composed_scope.h"
#include "tern/core/ops/convolution/conv.h"
#include "tern/core/ops/normalisation/residual.h"
#include "tern/core/ops/ops.h"
#include "tern/core/ops/recurrent/ntm.h"
#include "tern/core/ops/recurrent/rnn.h"
#include "tern/core/ops/scans/linear_scan.h"
#include "tern/core/tape/autograd.h"
#include "tern/core/tape/record.h"
#include "tern/core/tape/segment.h"

namespace tern {
namespace composed {

Tensor linear(const Tensor& x, const Tensor& w, const Tensor& b = {},
              const LinearOptions& options = {});
Tensor softmax(const Tensor& x, int64_t axis, const Tensor& mask = {});
Tensor log_softmax(const Tensor& x, int64_t axis, const Tensor& mask = {});
Tensor layer_norm(const Tensor& x, const Shape& shape, const Tensor& weight = {},
                  const Tensor& bias = {}, double eps = 1e-5);
Tensor rms_norm(const Tensor& x, const Shape& shape, const Tensor& weight = {},
                double eps = 0x1p-23);
Tensor group_norm(const Tensor& x, int64_t groups, const Tensor& weight = {},
                  const Tensor& bias = {}, double eps = 1e-5);
/// Normalises by the batch's statistics, as in training.
Tensor batch_norm(const Tensor& x, const Tensor& weight = {}, const Tensor& bias = {},
                  double eps = 1e-5);
Tensor dropout(const Tensor& x, double p, Rng& rng);
Tensor dropout_add(const Tensor& x, const Tensor& residual, double p, Rng& rng);
Tensor add_layer_norm(const Tensor& x, const Tensor& residual, const Shape& shape,
                      const Tensor& weight = {}, const Tensor& bias = {},
                      const AddNormOptions& options = {});
Tensor add_rms_norm(const Tensor& x, const Tensor& residual, const Shape& shape,
                    const Tensor& weight = {}, const AddNormOptions& options = {});
Tensor cross_entropy(const Tensor& logits, const Tensor& target,
                     const CrossEntropyOptions& options = {});
Tensor linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& bias,
                            const Tensor& target, const CrossEntropyOptions& options = {});
Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v,
                 const AttentionOptions& options = {});
Tensor self_attention(const Tensor& qkv, const HeadCounts& counts,
                      const AttentionOptions& options = {});
Tensor cross_attention(const Tensor& q, const Tensor& kv, const HeadCounts& counts,
                       const AttentionOptions& options = {});
Tensor additive_scores(const Tensor& q, const Tensor& k, const Tensor& w);
Tensor lstm_cell(const Tensor& gates, const Tensor& c);
Tensor gru_cell(const Tensor& of_x, const Tensor& of_h, const Tensor& h);
Tensor linear_scan(const Tensor& a, const Tensor& b, int64_t axis,
                   const LinearScanOptions& options = {});
Tensor ntm_step(const Tensor& heads, const Tensor& state, const NtmMemory& memory);
Tensor rnn_layer(RnnKind kind, const Tensor& x, const RnnWeights& weights,
                 const RnnLayerOptions& options = {});
Tensor conv2d(const Tensor& x, const Tensor& w, const Tensor& b = {},
              const Conv2dOptions& options = {});

}  // namespace composed

namespace detail {

/// The gradients of fn with respect to `inputs`; in grad mode recorded, so that they can be
/// differentiated again. fn gets a view of each input, so that one input may be computed from
/// another.
template <class Fn>
Gradients composed_gradients(const Fn& fn, const std::vector<Tensor>& inputs, const Tensor& dy) {
  const bool recorded = grad_enabled();
  const EnableGradGuard on;
  std::vector<Tensor> args, wanted;
  const uint64_t since = tape_position();  // the search stops at the inputs
  for (const Tensor& t : inputs) {
    const bool differentiable = t.defined() && t.requires_grad();
    args.push_back(differentiable ? expand(t, t.shape()) : t);
    if (differentiable) wanted.push_back(args.back());
  }
  Gradients out(inputs.size());
  if (wanted.empty()) return out;
  const GradOptions options{.create_graph = recorded, .allow_unused = true, .gradients = {dy}};
  const Tensor y = fn(args);
  if (!y.requires_grad()) return out;  // a result without elements need not use the inputs
  std::vector<Tensor> found = grad_since(since, {y}, wanted, options);
  size_t next = 0;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].defined() && inputs[i].requires_grad()) out[i] = found[next++];
  return out;
}

}  // namespace detail

using detail::composed_gradients;

}  // namespace tern

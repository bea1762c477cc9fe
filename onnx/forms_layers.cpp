// Forms of softmax, norms, attention and recurrent layers.
#include <limits>

#include "tern/core/ops/ops.h"
#include "tern/onnx/forms.h"

namespace tern::onnx {
namespace {

/// The weight of a norm over the last axes, or ones.
std::string norm_weight(Emitter& e) {
  const std::vector<Size>& shape = e.input(0).shape;
  if (e.has(1)) return e.in(1);
  return e.node("Expand", {e.number(1), e.shape({shape.end() - e.number("axes"), shape.end()})});
}

}  // namespace

/// The mask hides elements: softmax of -inf there, and then 0 (-inf for the logarithm), since a row
/// without an element would give NaN.
void softmax(Emitter& e) {
  const bool masked = e.has_tensor("mask"), logarithm = std::string_view(e.onnx()) == "LogSoftmax";
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const std::string mask = masked ? e.bool_tensor("mask") : "";
  std::string x = e.in(0);
  if (masked) x = e.node("Where", {mask, x, e.number(-kInf)});
  x = e.node(e.onnx(), {x}, {{"axis", e.number("axis")}});
  if (masked) x = e.node("Where", {mask, x, e.number(logarithm ? -kInf : 0)});
  e.give(x);
}

void layer_norm(Emitter& e) {
  Names in = {e.in(0), norm_weight(e)};
  if (e.has(2)) in.push_back(e.in(2));
  e.give(
      e.node("LayerNormalization", in, {{"axis", -e.number("axes")}, {"epsilon", e.real("eps")}}));
}

void rms_norm(Emitter& e) {
  e.give(e.node("RMSNormalization", {e.in(0), norm_weight(e)},
                {{"axis", -e.number("axes")}, {"epsilon", e.real("eps")}}));
}

void instance_norm(Emitter& e) {
  const Size& channels = e.input(0).shape[1];
  auto or_all = [&](int i, double value) {
    return e.has(i) ? e.in(i) : e.node("Expand", {e.number(value), e.size(channels)});
  };
  e.give(e.node("InstanceNormalization", {e.in(0), or_all(1, 1), or_all(2, 0)},
                {{"epsilon", e.real("eps")}}));
}

// ---- Attention and recurrent layers ------------------------------------------------------------

/// A query that sees no key gives zeros in tern, and in ONNX NaN or a mean.
void attention(Emitter& e) {
  Names in = {e.in(0), e.in(1), e.in(2)};
  const bool masked = e.has_tensor("mask");
  const std::string mask = masked ? e.bool_tensor("mask") : "";
  // onnxruntime does not broadcast the mask's last two axes.
  if (masked)
    in.push_back(e.node("Expand", {mask, e.shape({e.input(0).shape[2], e.input(1).shape[2]})}));
  std::string y = e.node("Attention", in, {{"scale", e.real("scale")}});
  if (masked) {
    const std::string seen = e.cast(mask, type_number(DType::u8));
    const std::string any = e.node("ReduceMax", {seen, e.ints({-1})}, {{"keepdims", int64_t{1}}});
    y = e.node("Where", {e.cast(any, kBool), y, e.number(0)});
  }
  e.give(y);
}

/// A layer in one direction. In ONNX there is an axis of directions, and the gates are in another
/// order.
void rnn(Emitter& e) {
  struct Kind {
    const char* op;
    Ints gates;
    std::vector<Attribute> attributes;
  };
  const Kind kinds[] = {{"RNN", {0}, {}},
                        {"RNN", {0}, {{"activations", Names{"Relu"}}}},
                        {"GRU", {1, 0, 2}, {{"linear_before_reset", int64_t{1}}}},
                        {"LSTM", {0, 3, 1, 2}, {}}};
  const Kind& kind = kinds[e.number("kind")];
  const int64_t units = e.input(2).shape[1][0];
  auto weight = [&](int i) {  // (1, gates * units, ...)
    const std::string parts =
        e.node("Reshape", {e.in(i), e.ints({std::ssize(kind.gates), units, -1})});
    const std::string sorted =
        e.node("Gather", {parts, e.ints(kind.gates)}, {{"axis", int64_t{0}}});
    const bool matrix = e.input(i).shape.size() == 2;
    return e.node("Reshape", {sorted, matrix ? e.ints({1, std::ssize(kind.gates) * units, -1})
                                             : e.ints({1, -1})});
  };
  auto state = [&](int i) {
    return e.has(i) ? e.node("Unsqueeze", {e.in(i), e.ints({0})}) : std::string();
  };
  std::string bias, lengths;
  auto or_zeros = [&](int i) {
    const Shape shape = {1, std::ssize(kind.gates) * units};
    return e.has(i) ? weight(i) : e.constant(zeros(shape, e.result().dtype));
  };
  if (e.has(3) || e.has(4))
    bias = e.node("Concat", {or_zeros(3), or_zeros(4)}, {{"axis", int64_t{1}}});
  if (e.has_tensor("lengths")) lengths = e.cast(e.tensor("lengths"), kInt32);
  Names in = {e.in(0), weight(1), weight(2), bias, lengths, state(5)};
  const bool lstm = kind.op == std::string_view("LSTM");
  if (lstm) in.push_back(state(6));
  std::vector<Attribute> attributes = {
      {"hidden_size", units},
      {"direction", std::string(e.number("reverse") ? "reverse" : "forward")}};
  attributes.insert(attributes.end(), kind.attributes.begin(), kind.attributes.end());
  const Names y = e.nodes(kind.op, in, attributes, lstm ? 3 : 2);
  e.give(e.node("Squeeze", {y[0], e.ints({1})}));
  for (int i = 1; i < (lstm ? 3 : 2); ++i)
    e.give(e.node("Squeeze", {y[static_cast<size_t>(i)], e.ints({0})}), i);
}

}  // namespace tern::onnx

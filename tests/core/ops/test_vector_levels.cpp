// Values and gradients in f32 have the same bits with AVX2 and with AVX-512, on any number of
// threads, and from foreign read-only memory beside forbidden pages. Rows are longer than registers
// and of odd lengths; sums of products are longer than a block of k. op_table.cpp checks every op
// at small sizes.
#include <doctest/doctest.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tern/core/base/cpu.h"
#include "tern/core/base/rng.h"
#include "tern/core/ops/attention/additive.h"
#include "tern/core/ops/attention/attention.h"
#include "tern/core/ops/convolution/conv.h"
#include "tern/core/ops/einsum/einsum.h"
#include "tern/core/ops/linalg/linalg.h"
#include "tern/core/ops/losses/losses.h"
#include "tern/core/ops/ops.h"
#include "tern/core/ops/recurrent/rnn.h"
#include "tern/core/tape/autograd.h"
#include "tern/tests/support/foreign_memory.h"
#include "tern/tests/support/same_bits.h"
#include "tern/tests/support/threads.h"

namespace tern::test_vector_levels {
namespace {

using Inputs = std::vector<Tensor>;

struct Example {
  const char* name;
  std::vector<Shape> shapes;
  std::function<Tensor(const Inputs&)> fn;
};

// Ops that sum over rows, and elementwise ops.
std::vector<Example> rows() {
  const auto row = [](auto fn) { return [fn](const Inputs& x) { return fn(x[0]); }; };
  return {
      {"gelu", {{7, 131}}, row([](const Tensor& x) { return gelu(x); })},
      {"tanh", {{7, 131}}, row([](const Tensor& x) { return tanh(x); })},
      {"softplus", {{7, 131}}, row([](const Tensor& x) { return softplus(x); })},
      {"erf", {{7, 131}}, row([](const Tensor& x) { return erf(x); })},
      {"sin", {{7, 131}}, row([](const Tensor& x) { return sin(1000 * x); })},
      {"log1p", {{7, 131}}, row([](const Tensor& x) { return log1p(square(x)); })},
      {"sum", {{70, 1031}}, row([](const Tensor& x) { return sum(x); })},
      {"var", {{5, 1031}}, row([](const Tensor& x) { return var(x, {1}); })},
      {"softmax", {{5, 1031}}, row([](const Tensor& x) { return softmax(x, 1); })},
      {"log_softmax", {{5, 1031}}, row([](const Tensor& x) { return log_softmax(x, 1); })},
      {"layer_norm",
       {{37, 263}, {263}, {263}},
       [](const Inputs& x) { return layer_norm(x[0], {263}, x[1], x[2]); }},
      {"rms_norm", {{37, 263}, {263}}, [](const Inputs& x) { return rms_norm(x[0], {263}, x[1]); }},
      {"cross_entropy",
       {{9, 1031}},
       [](const Inputs& x) {
         return cross_entropy(x[0], tensor<int64_t>({0, 1, 2, 1030, 4, 5, 600, 7, 8}, {9}),
                              {.label_smoothing = 0.1});
       }},
      {"cdist", {{9, 67}, {11, 67}}, [](const Inputs& x) { return cdist(x[0], x[1]); }},
      {"randn",
       {{1}},
       [](const Inputs& x) {
         Rng rng(11);
         return x[0] * randn({6400}, rng);
       }},
  };
}

std::vector<Example> products() {
  return {
      {"matmul", {{71, 1300}, {1300, 93}}, [](const Inputs& x) { return matmul(x[0], x[1]); }},
      {"a large matmul",
       {{300, 700}, {700, 260}},
       [](const Inputs& x) { return matmul(x[0], x[1]); }},
      {"batched matmul",
       {{3, 20, 33}, {3, 33, 7}},
       [](const Inputs& x) { return matmul(x[0], x[1]); }},
      {"matmul of a transposed matrix",
       {{1300, 35}, {1300, 19}},
       [](const Inputs& x) { return matmul(transpose(x[0], 0, 1), x[1]); }},
      {"matmul with a vector",
       {{71, 1300}, {1300}},
       [](const Inputs& x) { return matmul(x[0], x[1]); }},
      {"a vector by a matrix",
       {{1300}, {1300, 71}},
       [](const Inputs& x) { return matmul(x[0], x[1]); }},
      {"linear",
       {{40, 133}, {67, 133}, {67}},
       [](const Inputs& x) { return linear(x[0], x[1], x[2], {.activation = Activation::gelu}); }},
      {"einsum",
       {{4, 5, 33}, {4, 7, 33}},
       [](const Inputs& x) { return einsum("bij,bkj->ik", x); }},
      {"conv2d",
       {{2, 19, 9, 9}, {21, 19, 3, 3}},
       [](const Inputs& x) { return conv2d(x[0], x[1]); }},
      {"conv2d by Winograd's filtering",
       {{2, 35, 11, 13}, {37, 35, 3, 3}},
       [](const Inputs& x) { return conv2d(x[0], x[1], {}, {.padding = 1}); }},
      {"conv2d with strides",
       {{2, 35, 11, 13}, {37, 35, 3, 3}},
       [](const Inputs& x) { return conv2d(x[0], x[1], {}, {.stride = 2, .padding = 1}); }},
      {"conv2d of points",
       {{2, 600, 4, 7}, {37, 600, 1, 1}},
       [](const Inputs& x) { return conv2d(x[0], x[1]); }},
      {"conv2d in groups",
       {{2, 12, 9, 9}, {20, 3, 3, 3}},
       [](const Inputs& x) { return conv2d(x[0], x[1], {}, {.groups = 4}); }},
      {"depthwise conv2d",
       {{2, 5, 9, 37}, {5, 1, 3, 3}},
       [](const Inputs& x) { return conv2d(x[0], x[1], {}, {.groups = 5}); }},
      {"lstm",
       {{5, 3, 17}, {76, 17}, {76, 19}, {76}, {76}},
       [](const Inputs& x) {
         return rnn_layer(RnnKind::lstm, x[0], {x[1], x[2], x[3], x[4]});
       }},
      {"additive scores",
       {{2, 5, 67}, {2, 9, 67}, {67}},
       [](const Inputs& x) { return additive_scores(x[0], x[1], x[2]); }},
      {"attention",
       {{2, 2, 67, 16}, {2, 2, 67, 16}, {2, 2, 67, 16}},
       [](const Inputs& x) { return attention(x[0], x[1], x[2], {.mask = {.causal = 0}}); }},
  };
}

std::vector<Example> examples() {
  std::vector<Example> all = rows();
  for (const Example& e : products()) all.push_back(e);
  return all;
}

/// The value and the gradients of an example, with its inputs in foreign memory if `edge` is given.
std::vector<Tensor> run(const Example& e, std::optional<test::Edge> edge = {}) {
  Rng rng(7);
  std::vector<Tensor> x;
  for (const Shape& s : e.shapes) {
    const Tensor values = randn(s, rng);
    x.push_back(edge ? test::in_foreign_memory(values, *edge) : values);
    x.back().set_requires_grad(true);
  }
  std::vector<Tensor> all{e.fn(x)};
  backward(sum(square(all[0])));
  for (const Tensor& t : x) all.push_back(t.grad());
  return all;
}

}  // namespace

TEST_CASE("vector levels: same bits of f32 values and gradients on any number of threads") {
  for (const Example& e : examples()) {
    CAPTURE(std::string(e.name));
    const std::vector<Tensor> first = run(e);
    for (VectorLevel level : {VectorLevel::kAvx2, VectorLevel::kAvx512})
      for (int threads : {1, 3}) {
        CAPTURE(to_string(level));
        CAPTURE(threads);
        const VectorLevelScope scope(level);
        const test::Threads several(threads);
        for (const std::optional<test::Edge> edge :
             {std::optional<test::Edge>(), std::optional(test::Edge::begin),
              std::optional(test::Edge::end)}) {
          CAPTURE(edge.has_value());
          const std::vector<Tensor> again = run(e, edge);
          for (size_t i = 0; i < first.size(); ++i) CHECK(test::same_bits(first[i], again[i]));
        }
      }
  }
}

}  // namespace tern::test_vector_levels

// Recurrent cells, recurrent layers and the scores of additive attention, against plain loops.
#include <doctest/doctest.h>

#include <cmath>

#include "tern/core/base/rng.h"
#include "tern/core/ops/attention/additive.h"
#include "tern/core/ops/recurrent/rnn.h"
#include "tern/core/tape/autograd.h"
#include "tern/tests/core/ops/op_table.h"
#include "tern/tests/support/tensors.h"
#include "tern/tests/support/threads.h"

namespace tern::ops_rnn {
namespace {

using test::op, test::Array, test::for_each_index, test::OpRow, test::run_rows;

double logistic(double x) { return 1 / (1 + std::exp(-x)); }

struct State {
  std::vector<double> h, c;
};

// One step of one row. x and s are the products of the input and of the state with their weights.
State naive_step(RnnKind kind, const std::vector<double>& x, const std::vector<double>& s,
                 const State& old) {
  const size_t n = old.h.size();
  State next = old;
  for (size_t j = 0; j < n; ++j) {
    auto gate = [&](size_t part) { return x[part * n + j] + s[part * n + j]; };
    if (kind == RnnKind::tanh) {
      next.h[j] = std::tanh(gate(0));
    } else if (kind == RnnKind::relu) {
      next.h[j] = std::max(gate(0), 0.0);
    } else if (kind == RnnKind::gru) {
      double r = logistic(gate(0)), z = logistic(gate(1));
      double candidate = std::tanh(x[2 * n + j] + r * s[2 * n + j]);
      next.h[j] = (1 - z) * candidate + z * old.h[j];
    } else {
      next.c[j] = logistic(gate(1)) * old.c[j] + logistic(gate(0)) * std::tanh(gate(2));
      next.h[j] = logistic(gate(3)) * std::tanh(next.c[j]);
    }
  }
  return next;
}

std::vector<double> row_of(const Array& a, int64_t row) {
  const int64_t n = a.shape.back();
  return {a.v.begin() + row * n, a.v.begin() + (row + 1) * n};
}

std::vector<double> product(const Array& w, const std::vector<double>& x, const Array& b) {
  std::vector<double> y;
  for (int64_t i = 0; i < w.shape[0]; ++i) {
    double sum = b[i];
    for (int64_t j = 0; j < w.shape[1]; ++j) sum += w.at({i, j}) * x[static_cast<size_t>(j)];
    y.push_back(sum);
  }
  return y;
}

struct LayerCase {
  RnnKind kind;
  bool reverse;
  std::vector<int64_t> lengths;  // if empty, all steps count
};

// `in` holds x (T,B,C), w_ih, w_hh, b_ih, b_hh, h0 and, for an LSTM, c0.
Array naive_layer(const LayerCase& c, const std::vector<Array>& in) {
  const int64_t steps = in[0].shape[0], batch = in[0].shape[1], n = in[2].shape[1];
  const bool lstm = c.kind == RnnKind::lstm;
  Array y(lstm ? Shape{2, steps, batch, n} : Shape{steps, batch, n});
  for (int64_t b = 0; b < batch; ++b) {
    State s{row_of(in[5], b), lstm ? row_of(in[6], b) : std::vector<double>()};
    for (int64_t step = 0; step < steps; ++step) {
      const int64_t t = c.reverse ? steps - 1 - step : step;
      if (c.lengths.empty() || t < c.lengths[static_cast<size_t>(b)])
        s = naive_step(c.kind, product(in[1], row_of(in[0], t * batch + b), in[3]),
                       product(in[2], s.h, in[4]), s);
      for (int64_t j = 0; j < n; ++j) {
        y[(t * batch + b) * n + j] = s.h[static_cast<size_t>(j)];
        if (lstm) y[((steps + t) * batch + b) * n + j] = s.c[static_cast<size_t>(j)];
      }
    }
  }
  return y;
}

OpRow layer_row(const std::string& name, const LayerCase& c) {
  const int64_t steps = 3, batch = 3, in = 2, n = 2, rows = gate_parts(c.kind) * n;
  auto shapes = [&](int64_t b) {
    std::vector<Shape> s = {{steps, b, in}, {rows, in}, {rows, n}, rows, rows, {b, n}};
    if (c.kind == RnnKind::lstm) s.push_back({b, n});
    return s;
  };
  auto fn = [c](const std::vector<Tensor>& x) {
    RnnLayerOptions o{.h0 = x[5], .c0 = x.size() > 6 ? x[6] : Tensor(), .reverse = c.reverse};
    if (!c.lengths.empty()) o.lengths = narrow(tensor(c.lengths, 3), 0, 0, x[0].size(1));
    return rnn_layer(c.kind, x[0], {x[1], x[2], x[3], x[4]}, o);
  };
  OpRow row{name, shapes(batch),
            fn,   [c](const std::vector<Array>& x) { return naive_layer(c, x); },
            -1,   1};
  row.empty_shapes = shapes(0);
  return row;
}

Array naive_cell(RnnKind kind, const Array& x, const Array& s, const Array& h, const Array& c) {
  Array y(kind == RnnKind::lstm ? Shape{2, h.shape[0], h.shape[1]} : h.shape);
  for (int64_t b = 0; b < h.shape[0]; ++b) {
    State next = naive_step(kind, row_of(x, b), row_of(s, b), {row_of(h, b), row_of(c, b)});
    for (int64_t j = 0; j < h.shape[1]; ++j) {
      y[b * h.shape[1] + j] = next.h[static_cast<size_t>(j)];
      if (kind == RnnKind::lstm) y[h.numel() + b * h.shape[1] + j] = next.c[static_cast<size_t>(j)];
    }
  }
  return y;
}

Array naive_scores(const Array& q, const Array& k, const Array& w) {
  Array y({q.shape[0], q.shape[1], k.shape[1]});
  for_each_index(y.shape, [&](const Dims& i) {
    for (int64_t h = 0; h < w.shape[0]; ++h)
      y.at(i) += w[h] * std::tanh(q.at({i[0], i[1], h}) + k.at({i[0], i[2], h}));
  });
  return y;
}

}  // namespace

TEST_CASE("op table: recurrent cells") {
  op("lstm_cell", {{3, 20}, {3, 5}}, [](const std::vector<Tensor>& x) {
    return lstm_cell(x[0], x[1]);
  }).equals([](const std::vector<Array>& x) {
    return naive_cell(RnnKind::lstm, x[0], Array(x[0].shape), x[1], x[1]);
  });
  op("gru_cell", {{3, 15}, {3, 15}, {3, 5}}, [](const std::vector<Tensor>& x) {
    return gru_cell(x[0], x[1], x[2]);
  }).equals([](const std::vector<Array>& x) {
    return naive_cell(RnnKind::gru, x[0], x[1], x[2], x[2]);
  });
}

TEST_CASE("op table: recurrent layers") {
  const std::vector<int64_t> lengths = {2, 3, 0};
  std::vector<OpRow> rows;
  for (auto [name, kind] : {std::pair{"tanh", RnnKind::tanh},
                            {"relu", RnnKind::relu},
                            {"gru", RnnKind::gru},
                            {"lstm", RnnKind::lstm}}) {
    rows.push_back(layer_row(std::string(name) + " layer", {kind, false, {}}));
    rows.push_back(layer_row(std::string(name) + " layer, reverse", {kind, true, {}}));
    rows.push_back(layer_row(std::string(name) + " layer, lengths", {kind, false, lengths}));
    rows.push_back(
        layer_row(std::string(name) + " layer, reverse, lengths", {kind, true, lengths}));
  }
  run_rows(rows);
}

TEST_CASE("op table: additive scores") {
  OpRow row{"additive_scores",
            {{2, 3, 5}, {2, 4, 5}, {5}},
            [](const std::vector<Tensor>& x) { return additive_scores(x[0], x[1], x[2]); },
            [](const std::vector<Array>& x) { return naive_scores(x[0], x[1], x[2]); }};
  OpRow no_keys = row;
  no_keys.name = "additive_scores, no keys";
  no_keys.empty_shapes = {{2, 3, 5}, {2, 0, 5}, {5}};
  run_rows({row, no_keys});
}

TEST_CASE("additive_scores: gradients of keys add up over several queries") {
  Rng rng(1);
  Tensor q1 = randn({2, 1, 9}, rng, DType::f64), q2 = randn({2, 1, 9}, rng, DType::f64);
  Tensor k = randn({2, 3, 9}, rng, DType::f64), w = randn({9}, rng, DType::f64);
  Tensor apart = k.clone(), together = k.clone();
  apart.set_requires_grad();
  together.set_requires_grad();
  // `shared` is not a leaf, so its gradient is summed during backward.
  Tensor shared = apart * 1;
  sum(additive_scores(q1, shared, w) + additive_scores(q2, shared, w) * 2).backward();
  Tensor both = additive_scores(cat({q1, q2}, 1), together, w);
  sum(both * tensor({1, 2}, {1, 2, 1}, DType::f64)).backward();
  CHECK(all_close(apart.grad(), together.grad(), 1e-12, 1e-12));
}

TEST_CASE("rnn_layer: no biases, no state, no steps") {
  Rng rng(2);
  Tensor x = randn({4, 2, 3}, rng), w_ih = randn({8, 3}, rng), w_hh = randn({8, 2}, rng);
  Tensor none = zeros({8}), state = zeros({2, 2});
  Tensor plain = rnn_layer(RnnKind::lstm, x, {w_ih, w_hh, {}, {}});
  Tensor zero = rnn_layer(RnnKind::lstm, x, {w_ih, w_hh, none, none}, {.h0 = state, .c0 = state});
  CHECK(plain.to_vector<float>() == zero.to_vector<float>());
  w_ih.set_requires_grad();
  Tensor nothing = rnn_layer(RnnKind::lstm, narrow(x, 0, 0, 0), {w_ih, w_hh, {}, {}});
  CHECK(nothing.shape() == Shape{2, 0, 2, 2});
  sum(nothing).backward();
  CHECK(sum(abs(w_ih.grad())).item() == 0);
  // No step reads W_hh, and the recorded gradient is 0 too.
  const Tensor w = w_hh.clone().set_requires_grad();
  nothing = rnn_layer(RnnKind::lstm, narrow(x, 0, 0, 0), {w_ih.detach(), w, {}, {}});
  const Tensor by_w = grad({sum(nothing)}, {w}, {.create_graph = true, .allow_unused = true})[0];
  CHECK((!by_w.defined() || sum(abs(by_w)).item() == 0));
}

TEST_CASE("rnn_layer: same bits on any number of threads") {
  Rng rng(3);
  Tensor x = randn({7, 37, 20}, rng), w_ih = randn({120, 20}, rng) * 0.2;
  Tensor w_hh = randn({120, 40}, rng) * 0.2;
  w_hh.set_requires_grad();
  test::check_threads([&] {
    return test::value_and_gradients(rnn_layer(RnnKind::gru, x, {w_ih, w_hh, {}, {}}), {w_hh});
  });
}

TEST_CASE("recurrent ops: errors") {
  Tensor x = zeros({4, 2, 3}), w_ih = zeros({8, 3}), w_hh = zeros({8, 2});
  CHECK_THROWS_WITH_AS(lstm_cell(zeros({2, 7}), zeros({2, 2})),
                       doctest::Contains("the gates must be (B, 4H) = (2, 8)"), Error);
  CHECK_THROWS_WITH_AS(gru_cell(zeros({2, 6}), zeros({2, 6}), zeros({2, 3})),
                       doctest::Contains("(B, 3H) = (2, 9)"), Error);
  CHECK_THROWS_WITH_AS(rnn_layer(RnnKind::gru, x, {w_ih, w_hh, {}, {}}),
                       doctest::Contains("w_hh must be (6, 2), got (8, 2)"), Error);
  CHECK_THROWS_WITH_AS(rnn_layer(RnnKind::lstm, x, {w_ih, w_hh, {}, {}},
                                 {.lengths = tensor({2, 5}, {2}, DType::i64)}),
                       doctest::Contains("lengths[1] is 5, outside [0, 4]"), Error);
  CHECK_THROWS_WITH_AS(
      rnn_layer(RnnKind::tanh, x, {zeros({2, 3}), zeros({2, 2}), {}, {}}, {.c0 = zeros({2, 2})}),
      doctest::Contains("LSTM only"), Error);
  CHECK_THROWS_WITH_AS(additive_scores(zeros({2, 1, 4}), zeros({2, 3, 5}), zeros({4})),
                       doctest::Contains("hidden units differ"), Error);
}

}  // namespace tern::ops_rnn

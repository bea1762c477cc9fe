// ntm_step, one step of the memory of a Neural Turing Machine, against the paper's equations:
// addressing, reading and writing, hard cases, errors.
#include <doctest/doctest.h>

#include <cmath>

#include "tern/core/base/rng.h"
#include "tern/core/ops/recurrent/ntm.h"
#include "tern/core/tape/autograd.h"
#include "tern/tests/core/ops/op_table.h"
#include "tern/tests/support/model_checks.h"

namespace tern::ops_ntm {
namespace {

using test::Array;
using test::OpRow;

using Numbers = std::vector<double>;

double logistic(double x) { return 1 / (1 + std::exp(-x)); }
double softplus_of(double x) { return std::log1p(std::exp(x)); }

Numbers divided(Numbers x) {
  double sum = 0;
  for (double v : x) sum += v;
  for (double& v : x) v /= sum;
  return x;
}

/// One row of the batch: memory[n][m], and weights[h][n].
struct Machine {
  std::vector<Numbers> memory, weights;
};

// A head's new weighting by the paper's equations (5) to (9). Its parameters begin at p.
Numbers naive_address(const NtmMemory& m, const double* p, const std::vector<Numbers>& memory,
                      const Numbers& last) {
  const auto n = static_cast<size_t>(m.locations), width = static_cast<size_t>(m.width);
  const double *rest = p + m.width, *shift = rest + 2;
  const double gamma = 1 + softplus_of(shift[2 * m.shift + 1]);
  Numbers w = last;
  if (m.addressing.content) {
    Numbers match;
    for (const Numbers& slot : memory) {
      double product = 0, k = 0, x = 0;
      for (size_t j = 0; j < width; ++j) {
        product += p[j] * slot[j];
        k += p[j] * p[j];
        x += slot[j] * slot[j];
      }
      const double cosine = product / (std::sqrt(k) * std::sqrt(x) + 1e-8);
      match.push_back(std::exp(softplus_of(rest[0]) * cosine));
    }
    match = divided(match);
    const double g = m.addressing.interpolation ? logistic(rest[1]) : 1;
    for (size_t i = 0; i < n; ++i) w[i] = g * match[i] + (1 - g) * last[i];
  }
  if (m.addressing.shift) {
    Numbers kernel;
    for (int64_t j = 0; j <= 2 * m.shift; ++j) kernel.push_back(std::exp(shift[j]));
    kernel = divided(kernel);
    const Numbers from = w;
    for (int64_t i = 0; i < m.locations; ++i) {
      w[static_cast<size_t>(i)] = 0;
      for (int64_t j = -m.shift; j <= m.shift; ++j) {
        const int64_t source = ((i - j) % m.locations + m.locations) % m.locations;
        w[static_cast<size_t>(i)] +=
            kernel[static_cast<size_t>(j + m.shift)] * from[static_cast<size_t>(source)];
      }
    }
  }
  if (!m.addressing.sharpening) return w;
  for (double& v : w) v = std::pow(v, gamma);
  return divided(w);
}

// `in` holds the parameters of the heads and the state, as for ntm_step.
Array naive_step(const NtmMemory& m, const std::vector<Array>& in) {
  Array next(in[1].shape);
  const int64_t address = m.width + 2 * m.shift + 4;
  const auto width = static_cast<size_t>(m.width);
  for (int64_t b = 0; b < in[1].shape[0]; ++b) {
    const double *old = in[1].v.data() + b * m.state(), *p = in[0].v.data() + b * m.parameters();
    const double* cells = old + m.reads * m.width + m.heads() * m.locations;
    double* to = next.v.data() + b * m.state();
    std::vector<Numbers> before;
    for (int64_t n = 0; n < m.locations; ++n) {
      before.emplace_back();
      for (int64_t j = 0; j < m.width; ++j) before.back().push_back(cells[j * m.locations + n]);
    }
    std::vector<Numbers> memory = before;
    for (int64_t h = 0; h < m.heads(); ++h) {
      const double* last = old + m.reads * m.width + h * m.locations;
      const Numbers w = naive_address(m, p, before, Numbers(last, last + m.locations));
      p += address;
      for (size_t n = 0; n < w.size(); ++n) {
        to[m.reads * m.width + h * m.locations + static_cast<int64_t>(n)] = w[n];
        for (size_t j = 0; j < width; ++j) {
          double& cell = memory[n][j];
          if (h < m.writes)
            cell = cell * (1 - w[n] * logistic(p[j])) + w[n] * std::tanh(p[j + width]);
          else
            to[(h - m.writes) * m.width + static_cast<int64_t>(j)] += w[n] * cell;
        }
      }
      if (h < m.writes) p += 2 * m.width;
    }
    for (int64_t n = 0; n < m.locations; ++n)
      for (int64_t j = 0; j < m.width; ++j)
        to[m.reads * m.width + m.heads() * m.locations + j * m.locations + n] =
            memory[static_cast<size_t>(n)][static_cast<size_t>(j)];
  }
  return next;
}

OpRow op_row(const std::string& name, const NtmMemory& m, int64_t batch = 2) {
  OpRow row{name,
            {{batch, m.parameters()}, {batch, m.state()}},
            [m](const std::vector<Tensor>& x) { return ntm_step(x[0], x[1], m); },
            [m](const std::vector<Array>& x) { return naive_step(m, x); },
            0.05,  // weightings are not negative
            1};
  return row;
}

/// `raw` with a softmax on its weightings, so that they sum to 1.
Tensor state_of(const Tensor& raw, const NtmMemory& m) {
  NtmParts parts = ntm_parts(raw, m);
  parts.weights = softmax(parts.weights, 2);
  return ntm_state(parts);
}

NtmMemory tiny() { return {.locations = 5, .width = 3}; }

NtmMemory without(NtmMemory m, NtmAddressing addressing) {
  m.addressing = addressing;
  return m;
}

}  // namespace

TEST_CASE("op table: ntm_step") {
  test::run_rows({
      op_row("ntm_step", tiny()),
      op_row("ntm_step, heads", {.locations = 4, .width = 2, .reads = 2, .writes = 2, .shift = 2}),
  });
}

TEST_CASE("ntm_step: switching off each stage of addressing follows the equations") {
  Rng rng(1);
  for (NtmAddressing off : {NtmAddressing{.content = false},
                            {.interpolation = false},
                            {.shift = false},
                            {.sharpening = false}}) {
    const NtmMemory all = tiny(), some = without(all, off);
    Tensor heads = randn({2, all.parameters()}, rng, DType::f64);
    Tensor state = state_of(randn({2, all.state()}, rng, DType::f64), all);
    Tensor got = ntm_step(heads, state, some);
    CHECK(test::close(
        got,
        tensor(naive_step(some, {test::to_array(heads), test::to_array(state)}).v, got.shape()),
        1e-12, 1e-12));
    CHECK_FALSE(test::close(got, ntm_step(heads, state, all), 1e-3, 1e-3));
  }
}

// Numbers that training may produce, and larger ones.
TEST_CASE("ntm_step: weightings sum to 1 and everything is finite in hard cases") {
  const NtmMemory m{.locations = 7, .width = 4, .reads = 2, .writes = 2};
  const int64_t address = m.width + 2 * m.shift + 4;
  for (DType type : {DType::f32, DType::f64})
    for (double key : {0.0, 1e-20, 1.0, 1e4})
      for (double large : {-1e4, -90.0, 90.0, 1e6, 1e30})
        for (double cell : {0.0, 1e-6, 1.0}) {
          INFO(fmt::format("{}, key {}, numbers {}, memory {}", type, key, large, cell));
          Tensor heads = full({1, m.parameters()}, large, type);
          for (int64_t h = 0; h < m.heads(); ++h) {
            const int64_t at = h * address + std::min(h, m.writes) * 2 * m.width;
            fill_(narrow(heads, 1, at, m.width), key);
          }
          Tensor one_slot = cat({ones({1, 4, 1}, type), zeros({1, 4, 6}, type)}, 2);
          Tensor memory = full({1, 7, 4}, cell, type);
          fill_(narrow(memory, 1, 3, 2), -cell);  // the two slots least similar to the key
          Tensor state = ntm_state({zeros({1, 2, 4}, type), one_slot, memory});
          heads.set_requires_grad();
          state.set_requires_grad();
          Tensor next = ntm_step(heads, state, m);
          const NtmParts parts = ntm_parts(next, m);
          CHECK(test::close(sum(parts.weights, 2), ones({1, 4}, type), 1e-5, 1e-6));
          CHECK(min(parts.weights).item() >= 0);
          CHECK(all(isfinite(next)).item() == 1);
          if (large > 1e6) continue;  // for equal slots the true gradient exceeds f32
          sum(next * arange(0, m.state(), 1, type)).backward();
          CHECK(all(isfinite(heads.grad())).item() == 1);
          CHECK(all(isfinite(state.grad())).item() == 1);
        }
}

TEST_CASE("ntm_step: a state splits into parts and back") {
  Rng rng(2);
  const NtmMemory m{.locations = 5, .width = 3, .reads = 2, .writes = 3};
  Tensor state = randn({2, m.state()}, rng);
  const NtmParts parts = ntm_parts(state, m);
  CHECK(parts.reads.shape() == Shape{2, 2, 3});
  CHECK(parts.weights.shape() == Shape{2, 5, 5});
  CHECK(parts.memory.shape() == Shape{2, 5, 3});
  CHECK(test::same(ntm_state(parts), state));
  CHECK(test::same(ntm_reads(state, m), flatten(parts.reads, 1)));
}

TEST_CASE("ntm_step: a row has the same bits alone and in a batch, on any number of threads") {
  const NtmMemory m{.locations = 128, .width = 20, .reads = 2, .writes = 2};
  test::check_threads([&] {
    Rng rng(3);
    Tensor heads = randn({37, m.parameters()}, rng).set_requires_grad();
    Tensor state = state_of(randn({37, m.state()}, rng), m).detach().set_requires_grad();
    Tensor next = ntm_step(heads, state, m);
    sum(next * next).backward();
    Tensor alone = ntm_step(narrow(heads, 0, 5, 1), narrow(state, 0, 5, 1), m);
    CHECK(test::same(alone, narrow(next, 0, 5, 1)));
    return test::numbers_of({next, heads.grad(), state.grad()});
  });
}

TEST_CASE("ntm_step: errors") {
  const NtmMemory m = tiny();  // the state has 3 + 2 * 5 + 15 numbers, the heads 18 + 6
  CHECK_THROWS_WITH_AS(ntm_step(zeros({2, 24}), zeros({2, 27}), m),
                       doctest::Contains("the state must be (B, 28)"), Error);
  CHECK_THROWS_WITH_AS(ntm_step(zeros({2, 23}), zeros({2, 28}), m),
                       doctest::Contains("parameters must be (2, 24)"), Error);
  CHECK_THROWS_WITH_AS(ntm_step(zeros({2, 24}), zeros({2, 28}, DType::f64), m),
                       doctest::Contains("convert one with .to()"), Error);
  CHECK_THROWS_WITH_AS(ntm_step(zeros({2, 24}), zeros({2, 28}), {.locations = 0, .width = 3}),
                       doctest::Contains("locations and width must be positive"), Error);
  CHECK_THROWS_WITH_AS(ntm_state({zeros({1, 2}), zeros({1, 2, 3}), zeros({1, 3, 2})}),
                       doctest::Contains("needs reads (B, R, M)"), Error);
}

}  // namespace tern::ops_ntm

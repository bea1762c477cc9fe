// ops_bench [WORD]: times single ops, forward ("f") and with the gradient ("b"), on one thread, on
// shapes that nobody tuned: points of three numbers, channels-last pictures, small matrices, axes
// in front. Prints a line for each, name and seconds of processor time, of those whose name
// contains WORD. ops.py runs it and prints PyTorch's time beside each.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>
#include <functional>
#include <string>
#include <string_view>

#include "tern/core/ops/fft/stft.h"
#include "tern/nn/nn.h"
#include "tern/tern.h"

namespace tern::bench {
namespace {

using Fn = std::function<Tensor(const Tensor&)>;

std::string_view wanted;

double processor_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

// The median of five runs of at least a hundredth of a second.
void time(const std::string& name, const std::function<void()>& run) {
  if (name.find(wanted) == std::string::npos) return;
  const auto seconds = [&](int reps) {
    const double start = processor_seconds();
    for (int i = 0; i < reps; ++i) run();
    return (processor_seconds() - start) / reps;
  };
  run();
  const int reps = static_cast<int>(std::ceil(0.01 / std::max(seconds(1), 1e-6)));
  std::array<double, 5> all;
  for (double& s : all) s = seconds(reps);
  std::sort(all.begin(), all.end());
  fmt::print("{}\t{:.9f}\n", name, all[2]);
  std::fflush(stdout);
}

void op(const std::string& name, const Tensor& x, const Fn& fn) {
  time(name + " f", [&] {
    const NoGradGuard none;
    static_cast<void>(fn(x));
  });
  Rng rng(5);
  const Tensor dy = randn(fn(x).shape(), rng);
  time(name + " b", [&] { backward(fn(x.detach().set_requires_grad()), {.gradient = dy}); });
}

void along_axes(Rng& rng) {
  const Tensor x = randn({1000, 1000}, rng), index = randint(0, 1000, {1000}, rng);
  const Tensor each = randint(0, 1000, {1000, 1000}, rng), zero = zeros({1000, 1000});
  for (int a : {0, 1}) {
    const auto on = [&](const char* name, const Fn& fn) {
      op(fmt::format("{}, axis {}", name, a), x, fn);
    };
    on("sum", [a](const Tensor& t) { return sum(t, a); });
    on("var", [a](const Tensor& t) { return var(t, a); });
    on("max", [a](const Tensor& t) { return max(t, a).values; });
    on("prod", [a](const Tensor& t) { return prod(t, a); });
    on("logsumexp", [a](const Tensor& t) { return logsumexp(t, a); });
    on("softmax", [a](const Tensor& t) { return softmax(t, a); });
    on("log_softmax", [a](const Tensor& t) { return log_softmax(t, a); });
    on("cumsum", [a](const Tensor& t) { return cumsum(t, a); });
    on("sort", [a](const Tensor& t) { return sort(t, a).values; });
    on("topk", [a](const Tensor& t) { return topk(t, 10, a).values; });
    on("median", [a](const Tensor& t) { return median(t, a).values; });
    on("roll", [a](const Tensor& t) { return roll(t, {3}, {a}); });
    on("index_select", [=](const Tensor& t) { return index_select(t, a, index); });
    on("gather", [=](const Tensor& t) { return gather(t, a, each); });
    on("scatter_add", [=](const Tensor& t) { return scatter_add(zero, a, each, t); });
    on("index_add", [=](const Tensor& t) { return index_add(zero, a, index, t); });
    on("cat", [a](const Tensor& t) { return cat({t, t, t}, a); });
    on("stack", [a](const Tensor& t) { return stack({t, t}, a + 1); });
  }
}

// A point cloud: each op has short rows.
void on_points(Rng& rng) {
  const Tensor p = randn({200000, 3}, rng), q = randn({200000, 3}, rng),
               u = randn({200000, 1}, rng);
  const Tensor row = randn({3}, rng), turn = randn({3, 3}, rng), mask = p > 0;
  const Tensor index = randint(0, 200000, {200000}, rng), label = randint(0, 3, {200000}, rng);
  const auto on = [&](const char* name, const Fn& fn) {
    op(fmt::format("points: {}", name), p, fn);
  };
  on("sum", [](const Tensor& x) { return sum(x, -1); });
  on("norm", [](const Tensor& x) { return norm(x, 2, -1); });
  on("max", [](const Tensor& x) { return max(x, -1).values; });
  on("softmax", [](const Tensor& x) { return softmax(x, -1); });
  on("layer_norm", [](const Tensor& x) { return layer_norm(x, {3}); });
  on("cumsum", [](const Tensor& x) { return cumsum(x, -1); });
  on("cross_entropy", [=](const Tensor& x) { return cross_entropy(x, label); });
  on("mul by a row", [=](const Tensor& x) { return x * row; });
  on("mul by a column", [=](const Tensor& x) { return x * u; });
  on("div by the norm", [](const Tensor& x) { return x / norm(x, 2, -1, true); });
  on("cat", [=](const Tensor& x) { return cat({x, q}, -1); });
  on("narrow", [](const Tensor& x) { return narrow(x, 1, 0, 2) * 1.; });
  on("roll", [](const Tensor& x) { return roll(x, {1}, {-1}); });
  on("pad", [](const Tensor& x) { return pad(x, {0, 1}); });
  on("repeat", [](const Tensor& x) { return repeat(x, {1, 4}); });
  on("transpose", [](const Tensor& x) { return transpose(x, 0, 1).contiguous(); });
  on("index_select", [=](const Tensor& x) { return index_select(x, 0, index); });
  on("index_add", [=](const Tensor& x) { return index_add(q, 0, index, x); });
  on("masked_fill", [=](const Tensor& x) { return masked_fill(x, mask, 0); });
  on("where", [=](const Tensor& x) { return where(u > 0, x, q); });
  on("matmul", [=](const Tensor& x) { return matmul(x, turn); });
  on("einsum, outer", [=](const Tensor& x) { return einsum("ni,nj->nij", {x, q}); });
  on("smooth_l1_loss", [=](const Tensor& x) { return smooth_l1_loss(x, q); });
  on("cosine_similarity", [=](const Tensor& x) { return cosine_similarity(x, q, -1); });
}

void on_pictures(Rng& rng) {
  const Tensor x = randn({8, 3, 224, 224}, rng), last = randn({8, 224, 224, 3}, rng);
  const Tensor row = randn({3}, rng), deep = randn({8, 32, 56, 56}, rng);
  const Tensor label = randint(0, 32, {8, 56, 56}, rng),
               theta = tensor({.9, .1, 0, -.1, .9, 0}, {1, 2, 3});
  const Tensor grid = affine_grid(repeat(theta, {8, 1, 1}), deep.shape());
  op("pictures: softmax of classes", x, [](const Tensor& t) { return softmax(t, 1); });
  op("pictures: to channels last", x, [](const Tensor& t) {
    return permute(t, {0, 2, 3, 1}).contiguous();
  });
  op("pictures: from channels last", last, [](const Tensor& t) {
    return permute(t, {0, 3, 1, 2}).contiguous();
  });
  op("pictures: normalise channels last", last, [=](const Tensor& t) { return (t - row) / row; });
  op("pictures: crop", x, [](const Tensor& t) {
    return slice(t, {{}, {}, {10, 200}, {10, 200}}).contiguous();
  });
  op("pictures: pad, reflected", deep, [](const Tensor& t) {
    return pad(t, {1, 1, 1, 1}, PaddingMode::reflect);
  });
  op("pictures: pixel_shuffle", deep, [](const Tensor& t) { return pixel_shuffle(t, 2); });
  op("pictures: cross_entropy", deep, [=](const Tensor& t) { return cross_entropy(t, label); });
  op("pictures: interpolate", deep, [](const Tensor& t) {
    return interpolate(t, {.scale_factor = 2, .mode = Interpolation::bilinear});
  });
  op("pictures: grid_sample", deep, [=](const Tensor& t) { return grid_sample(t, grid); });
  op("pictures: max_pool2d", deep,
     [](const Tensor& t) { return max_pool2d(t, {.kernel = 3, .stride = 2, .padding = 1}); });
}

void on_the_rest(Rng& rng) {
  const Tensor x = randn({1000, 1000}, rng), y = randn({1000, 1000}, rng), positive = abs(x) + .1;
  const Tensor tall = randn({100000, 8}, rng), nodes = randint(0, 100000, {50000}, rng),
               mask = x > 0;
  nn::BatchNorm1d batch_norm_1d(1000);
  op("median of all", x, [](const Tensor& t) { return median(t); });
  op("quantile", x, [](const Tensor& t) { return quantile(t, .9); });
  op("pow, 3", x, [](const Tensor& t) { return pow(t, 3); });
  op("pow, 2.5", positive, [](const Tensor& t) { return pow(t, 2.5); });
  op("remainder", x, [](const Tensor& t) { return remainder(t, .7); });
  op("sin", x, [](const Tensor& t) { return sin(t); });
  op("gelu", x, [](const Tensor& t) { return gelu(t); });
  op("huber_loss", x, [=](const Tensor& t) { return huber_loss(t, y); });
  op("x + its transpose", x, [](const Tensor& t) { return t + transpose(t, 0, 1); });
  op("index by a mask", x, [=](const Tensor& t) { return index(t, {mask}); });
  op("batch norm of vectors", x, [&](const Tensor& t) { return batch_norm_1d(t); });
  op("cat of eight narrow ones", tall,
     [](const Tensor& t) { return cat(std::vector<Tensor>(8, t), 1); });
  op("embedding of 8", tall, [=](const Tensor& t) { return embedding(nodes, t); });
  op("product of 8 columns", tall,
     [](const Tensor& t) { return matmul(t, narrow(t.detach(), 0, 0, 8)); });
  op("products 3 x 3", randn({20000, 3, 3}, rng), [](const Tensor& t) { return matmul(t, t); });
  op("products 8 x 8", randn({1000, 8, 8}, rng), [](const Tensor& t) { return matmul(t, t); });
  op("a chain of small ops", randn({16}, rng), [](const Tensor& t) {
    Tensor h = t;
    for (int i = 0; i < 20; ++i) h = tanh(h * 2 + 1);
    return h;
  });
  op("stft", randn({8, 16000}, rng),
     [](const Tensor& t) { return fft::stft(t, 400, {.hop = 160}); });
}

}  // namespace
}  // namespace tern::bench

int main(int argc, char** argv) {
  if (argc > 1) tern::bench::wanted = argv[1];
  tern::set_num_threads(1);
  tern::Rng rng(1);
  tern::bench::along_axes(rng);
  tern::bench::on_points(rng);
  tern::bench::on_pictures(rng);
  tern::bench::on_the_rest(rng);
}

// slow_ranks: one rank of a training whose passes sleep for a given time, to check the time model
// of step_plan.h. As they need no processor, any number of ranks fits on one machine. Rank 0 prints
// the milliseconds of a step, measured and planned.
//   slow_ranks MEGABYTES BLOCKS BLOCK_MS GBIT LATENCY_US
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tern/core/base/threads.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/record.h"
#include "tern/dist/step_plan.h"
#include "tern/nn/nn.h"

using namespace tern;

namespace {

constexpr int64_t kLayers = 8;

void sleep_for(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

// A layer that sleeps for a third of the time in the forward pass, for the rest in backward.
Tensor slow(const Tensor& x, double seconds) {
  Op op("slow", x);
  sleep_for(seconds / 3);
  Fresh y(x.shape(), x.dtype());
  y.data<float>()[0] = x.item<float>();
  return op.record(y, [seconds](const Tensor& dy) {
    sleep_for(seconds * 2 / 3);
    return dy;
  });
}

// The median time of five calls, after a first one that allocates and makes connections.
double median_seconds(const std::function<void()>& call) {
  std::vector<double> seconds;
  for (int i = 0; i < 6; ++i) {
    const auto start = std::chrono::steady_clock::now();
    call();
    seconds.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  std::sort(seconds.begin() + 1, seconds.end());
  return seconds[3];
}

struct Layer {
  nn::Parameter weight;
  static void fields(auto& m, auto&& visit) { visit("weight", m.weight); }
};

struct Net {
  std::vector<Layer> layers;
  double seconds;  // time of a block
  Tensor operator()() {
    Tensor h;
    for (const Layer& layer : layers) {
      const Tensor m = mean(layer.weight);
      h = slow(h.defined() ? h + m : m, seconds / static_cast<double>(layers.size()));
    }
    return h;
  }
  static void fields(auto& m, auto&& visit) { visit("layers", m.layers); }
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) return 2;
  const auto number = [&](int i) { return std::atof(argv[i]); };
  set_num_threads(1);
  dist::World world;
  Net net{{}, number(3) / 1e3};
  const int64_t weights = static_cast<int64_t>(number(1) * 1e6 / 4 / kLayers);
  for (int64_t i = 0; i < kLayers; ++i) net.layers.push_back({nn::Parameter(zeros({weights}))});
  const dist::GradientSumOptions options{.blocks = std::atoll(argv[2])};
  dist::GradientSum sum(world, net, options);
  const double block = median_seconds([&] { net().backward(); });
  const double step = median_seconds([&] {
    sum.backward([&](int64_t) { return dist::BlockLoss{net(), 1}; });
    for (const auto& [name, p] : nn::named_parameters(net)) p.zero_grad();
    world.barrier("the end of a step");
  });
  const dist::StepTime planned =
      dist::StepPlan(nn::named_parameters(net), {}, options, world.size())
          .time({.block = block},
                {.bytes_per_second = number(4) * 1e9 / 8, .latency = number(5) / 1e6});
  if (world.first())
    fmt::print(
        "{} ranks: measured {:.1f} ms, planned {:.1f} ms, of that computing {:.1f}, "
        "communication {:.1f}, hidden {:.1f}\n",
        world.size(), step * 1e3, planned.step * 1e3, planned.compute * 1e3,
        planned.communication * 1e3, planned.hidden() * 1e3);
}

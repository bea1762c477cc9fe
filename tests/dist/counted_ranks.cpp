// counted_ranks: one rank that takes a few steps, for the tests of step_plan.h. Counts the bytes
// and messages given to MPI and compares them with the plan. Exit code 1: they differ.
//   counted_ranks BLOCKS BUCKET_BYTES [sharded]
// sharded: each rank updates a part of the weights (Parallel::shard_optimizer).
#include <fmt/core.h>
#include <mpi.h>

#include <atomic>
#include <cstdlib>
#include <string>
#include <vector>

#include "tern/core/ops/ops.h"
#include "tern/dist/step_plan.h"
#include "tern/nn/nn.h"
#include "tern/optim/adam.h"
#include "tern/optim/shards.h"
#include "tern/train/learner.h"

using namespace tern;

namespace {

std::atomic<int64_t> sent = 0, received = 0, messages = 0;

// The large table has more than half of the weights, so four ranks forward its pieces.
struct Net {
  nn::Embedding large, table;
  nn::Linear up, down;
  nn::BatchNorm1d norm;
  explicit Net(Rng& rng)
      : large(4200, 5, rng), table(3400, 5, rng), up(5, 19, rng), down(19, 3, rng), norm(19) {}
  Tensor operator()(const Tensor& x, const Tensor& word) {
    return down(gelu(norm(up(x + large(word) + table(word)))));
  }
  static void fields(auto& m, auto&& visit) {
    visit("large", m.large), visit("table", m.table);
    visit("up", m.up), visit("down", m.down), visit("norm", m.norm);
  }
};

}  // namespace

// Replace the MPI functions that tern calls; MPI offers the originals with the prefix P.
extern "C" int MPI_Isend(const void* from, int count, MPI_Datatype type, int to, int tag,
                         MPI_Comm comm, MPI_Request* request) {
  sent += count, ++messages;
  return PMPI_Isend(from, count, type, to, tag, comm, request);
}
extern "C" int MPI_Irecv(void* to, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
                         MPI_Request* request) {
  received += count, ++messages;
  return PMPI_Irecv(to, count, type, from, tag, comm, request);
}

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const bool sharded = argc == 4 && argv[3] == std::string("sharded");
  dist::World world;
  Rng rng(0);
  Net net(rng);
  const dist::GradientSumOptions options{.blocks = std::atoll(argv[1]),
                                         .bucket_bytes = std::atoll(argv[2])};
  dist::GradientSum sum(world, net, options);
  optim::AdamW optimizer(nn::named_parameters(net));
  training::Learner learner(net, optimizer);
  std::vector<int64_t> owners;
  if (sharded) owners = optim::shard_owners(optimizer, world.size());
  if (sharded) learner.shard_optimizer(world);
  const dist::RankTraffic planned =
      dist::StepPlan(nn::named_parameters(net), nn::named_buffers(net), options, world.size(),
                     owners)
          .traffic(world.rank());
  constexpr int64_t kSteps = 3;
  const int64_t sent_before = sent, received_before = received, messages_before = messages;
  for (int64_t step = 0; step < kSteps; ++step) {
    sum.backward([&](int64_t block) {
      Rng data = Rng(7).stream(static_cast<uint64_t>(step * options.blocks + block));
      const Tensor x = randn({4, 5}, data), y = randint(0, 3, {4}, data);
      return dist::BlockLoss{cross_entropy(net(x, y), y), 4};
    });
    learner.step();
  }
  const dist::RankTraffic counted{sent - sent_before, received - received_before,
                                  messages - messages_before};
  const auto text = [](const dist::RankTraffic& t, int64_t steps) {
    return fmt::format("{} bytes sent, {} received, {} messages", t.sent * steps,
                       t.received * steps, t.messages * steps);
  };
  fmt::print("rank {} of {}: {}\n", world.rank(), world.size(), text(counted, 1));
  if (text(counted, 1) == text(planned, kSteps)) return 0;
  fmt::print("rank {}, planned: {}\n", world.rank(), text(planned, kSteps));
  return 1;
}

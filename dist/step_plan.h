// What a step of GradientSum takes on any number of ranks, before the machines are there: the bytes
// that each rank sends, exactly, and the time, by a model of the network. Nothing is sent.
//
//   const dist::StepPlan plan(nn::named_parameters(model), nn::named_buffers(model),
//                             {.blocks = 8}, 4);  // on 4 ranks
//   plan.traffic(0).sent;                         // bytes that rank 0 sends in a step
//   plan.time({.block = 0.1, .update = 0.01}, {.bytes_per_second = 1.25e9}).step;
//
// The model of the time:
// - Every rank is a machine of its own, as fast as the one that Compute was measured on. Its link
//   sends and receives at the same time; the network between the links is never the limit.
// - A third of a block's time is the forward pass. Gradients of the last block come evenly in the
//   backward pass, and a bucket is sent as soon as it is complete.
// - Exchanges take place one after the other. A stage of an exchange takes Network::latency,
//   Network::message for each message of the busiest rank, and that rank's bytes at the link's
//   speed. Between its two stages a bucket is added up at memory_bytes_per_second.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "tern/core/io/state.h"
#include "tern/dist/gradient_sum.h"

namespace tern::dist {

/// What a rank moves in a step or a part of it.
struct RankTraffic {
  int64_t sent = 0, received = 0;  ///< bytes
  int64_t messages = 0;            ///< sent and received
  RankTraffic& operator+=(const RankTraffic& t);
};

/// Seconds on one machine.
struct Compute {
  double block = 0;   ///< of forward and backward pass of a block
  double update = 0;  ///< of the optimizer's step
};

struct Network {
  double bytes_per_second = 1.25e9;  ///< of a rank's link, in each direction
  double latency = 50e-6;            ///< seconds from one rank to another
  double message = 5e-6;             ///< seconds of a processor for each message
  double memory_bytes_per_second = 5e9;
};

/// Seconds.
struct StepTime {
  double step = 0;
  double compute = 0;        ///< passes of the busiest rank, and the update
  double communication = 0;  ///< while exchanges take place
  /// The part of the communication that takes place while the ranks compute.
  double hidden() const;
};

class StepPlan {
 public:
  /// The parameters and buffers of a model: their shapes and types count. `owners`: the rank that
  /// updates each parameter and sends it to the others (optim::shard_owners); none: all ranks
  /// update all. Error if there are fewer blocks than ranks.
  StepPlan(const NamedTensors& parameters, const NamedTensors& buffers, GradientSumOptions options,
           int64_t ranks, const std::vector<int64_t>& owners = {});

  int64_t ranks() const { return static_cast<int64_t>(nodes_.size()); }
  /// Blocks of the rank that has most.
  int64_t most_blocks() const;
  /// Of all gradients and buffers that are added up.
  int64_t bytes() const;
  /// Of a step in which all parameters have gradients. Notes of the program's own
  /// (BlockLoss::note) are not counted.
  RankTraffic traffic(int64_t rank) const;
  /// The traffic of the rank that sends most.
  RankTraffic most_traffic() const;
  /// The most memory that gradients and what comes from other ranks take on a rank, about.
  int64_t memory() const;
  StepTime time(const Compute& compute, const Network& network) const;

 private:
  struct Bucket {
    int64_t elements, item_bytes, items;
    bool of_gradients;
    std::vector<int64_t> cuts;  // of each rank's share: pieces of items
    int64_t all_cuts;
    int64_t bytes() const { return elements * item_bytes; }
  };
  void add_buckets(const NamedTensors& tensors, bool of_gradients);
  void add_weights(const NamedTensors& parameters, const std::vector<int64_t>& owners);
  // A stage of an exchange as a rank sees it.
  RankTraffic heads(int64_t rank) const;
  RankTraffic facts(int64_t rank) const;
  RankTraffic counts(int64_t rank) const;
  RankTraffic nodes(const Bucket& bucket, int64_t rank) const;
  RankTraffic sums(const Bucket& bucket, int64_t rank) const;

  GradientSumOptions options_;
  std::vector<Bucket> buckets_;
  std::array<std::vector<RankTraffic>, 2> weights_;  // by rank, of both stages; none: not sent
  double largest_shard_ = 1;                         // of all elements that are updated
  std::vector<int64_t> nodes_;                       // that each rank sends
  int64_t all_nodes_ = 0, count_bytes_ = 0;
};

}  // namespace tern::dist

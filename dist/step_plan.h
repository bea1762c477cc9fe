// Predicts what a step of GradientSum costs on any number of ranks, without these machines: the
// exact bytes that each rank sends, and the time by a model of the network. It sends nothing.
//
//   const dist::StepPlan plan(nn::named_parameters(model), nn::named_buffers(model),
//                             {.blocks = 8}, 4);  // on 4 ranks
//   plan.traffic(0).sent;                         // bytes that rank 0 sends in a step
//   plan.time({.block = 0.1, .update = 0.01}, {.bytes_per_second = 1.25e9}).step;
//
// The model of the time:
// - Every rank runs on a separate machine, as fast as the one on which Compute was measured. Its
//   link sends and receives at the same time; the network between the links is never the limit.
// - The forward pass takes a third of a block's time. The gradients of the last block come evenly
//   over the backward pass, and a bucket is sent as soon as it is complete.
// - There is one exchange at any time. A stage of an exchange takes Network::latency, plus
//   Network::message for each message of the busiest rank, plus that rank's bytes at the link's
//   speed. Between the two stages a bucket is added up at memory_bytes_per_second.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "tern/core/io/state.h"
#include "tern/dist/gradient_sum.h"

namespace tern::dist {

/// The traffic of a rank in a step or a part of it.
struct RankTraffic {
  int64_t sent = 0, received = 0;  ///< bytes
  int64_t messages = 0;            ///< number of messages, sent and received
  RankTraffic& operator+=(const RankTraffic& t);
};

/// Seconds on one machine.
struct Compute {
  double block = 0;   ///< forward and backward pass of a block
  double update = 0;  ///< the optimizer's step
};

struct Network {
  double bytes_per_second = 1.25e9;  ///< speed of a rank's link, in each direction
  double latency = 50e-6;            ///< seconds from one rank to another
  double message = 5e-6;             ///< processor time per message, in seconds
  double memory_bytes_per_second = 5e9;
};

/// Times of a step, in seconds.
struct StepTime {
  double step = 0;
  double compute = 0;        ///< passes of the busiest rank, and the update
  double communication = 0;  ///< all exchanges
  /// The part of the communication that overlaps with compute.
  double hidden() const;
};

class StepPlan {
 public:
  /// The parameters and buffers of a model, used only for their shapes, types and requires_grad().
  /// `owners` holds the rank that updates each parameter and sends it to the others
  /// (optim::shard_owners); empty: all ranks update all. Error if there are fewer blocks than
  /// ranks.
  StepPlan(const NamedTensors& parameters, const NamedTensors& buffers, GradientSumOptions options,
           int64_t ranks, const std::vector<int64_t>& owners = {});

  int64_t ranks() const { return static_cast<int64_t>(nodes_.size()); }
  /// Blocks of the rank that has the most.
  int64_t most_blocks() const;
  /// Bytes of all gradients and buffers that are added up.
  int64_t bytes() const;
  /// The traffic of a step in which all parameters have gradients. BlockLoss::note is not counted.
  RankTraffic traffic(int64_t rank) const;
  /// The traffic of the rank that sends the most bytes.
  RankTraffic most_traffic() const;
  /// Estimated peak memory, in bytes, of gradients and received data on the rank that needs most.
  int64_t memory() const;
  StepTime time(const Compute& compute, const Network& network) const;

 private:
  struct Bucket {
    int64_t elements, item_bytes, items;
    bool of_gradients;
    std::vector<int64_t> cuts;  // by rank: number of items that overlap its share
    int64_t all_cuts;
    int64_t bytes() const { return elements * item_bytes; }
  };
  void add_buckets(const NamedTensors& tensors, bool of_gradients);
  void add_weights(const NamedTensors& parameters, const std::vector<int64_t>& owners);
  // The traffic of a rank in one stage of an exchange.
  RankTraffic heads(int64_t rank) const;
  RankTraffic facts(int64_t rank) const;
  RankTraffic counts(int64_t rank) const;
  RankTraffic nodes(const Bucket& bucket, int64_t rank) const;
  RankTraffic sums(const Bucket& bucket, int64_t rank) const;

  GradientSumOptions options_;
  std::vector<Bucket> buckets_;
  std::array<std::vector<RankTraffic>, 2> weights_;  // by stage and rank; empty: not sent
  double largest_shard_ = 1;                         // as a share of all updated elements
  std::vector<int64_t> nodes_;                       // by rank: number of nodes that it sends
  int64_t all_nodes_ = 0, count_bytes_ = 0;
};

}  // namespace tern::dist

// Counts the bytes and messages of every exchange of a step and simulates the step's time, with the
// same block tree, buckets and hops that GradientSum and send_to_all() use.
#include "tern/dist/step_plan.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tern/core/base/ceil_div.h"
#include "tern/dist/detail/block_tree.h"
#include "tern/dist/detail/owned_hops.h"

namespace tern::dist {
namespace {

// kHeadBytes: the length and the purpose of a text, sent before it. kFactsBytes: a block's weight,
// its loss and the length of its note.
constexpr int64_t kHeadBytes = 16, kFactsBytes = 24;

}  // namespace

RankTraffic& RankTraffic::operator+=(const RankTraffic& t) {
  sent += t.sent, received += t.received, messages += t.messages;
  return *this;
}

double StepTime::hidden() const { return std::max(0.0, compute + communication - step); }

StepPlan::StepPlan(const NamedTensors& parameters, const NamedTensors& buffers,
                   GradientSumOptions options, int64_t ranks, const std::vector<int64_t>& owners)
    : options_(std::move(options)) {
  check(ranks >= 1 && ranks <= options_.blocks,
        "StepPlan: {} blocks for {} ranks; each rank needs at least one block", options_.blocks,
        ranks);
  for (int64_t r = 0; r < ranks; ++r) {
    nodes_.push_back(std::ssize(detail::nodes_of(options_.blocks, ranks, r)));
    all_nodes_ += nodes_.back();
  }
  add_buckets({parameters.rbegin(), parameters.rend()}, true);
  NamedTensors floats;
  for (const auto& buffer : buffers) {
    if (is_float(buffer.second.dtype()))
      floats.push_back(buffer);
    else
      count_bytes_ += buffer.second.numel() * item_size(buffer.second.dtype());
  }
  add_buckets(floats, false);
  if (ranks > 1 && !owners.empty()) add_weights(parameters, owners);
}

void StepPlan::add_buckets(const NamedTensors& tensors, bool of_gradients) {
  std::vector<detail::BucketItem> items;
  for (const auto& [name, t] : tensors)
    if (!of_gradients || t.requires_grad()) items.push_back({t.dtype(), t.numel()});
  for (const detail::Bucket& b : detail::buckets_of(items, options_.bucket_bytes)) {
    Bucket& bucket = buckets_.emplace_back();
    bucket.elements = b.size(), bucket.item_bytes = item_size(b.dtype);
    bucket.items = static_cast<int64_t>(b.end - b.first), bucket.of_gradients = of_gradients;
    for (int64_t r = 0; r < ranks(); ++r) {
      const detail::Range s = detail::range_of(b.size(), ranks(), r);
      // Counts the items that overlap the share.
      int64_t cuts = 0;
      for (auto o = std::upper_bound(b.offsets.begin(), b.offsets.end(), s.first);
           s.size() > 0 && o != b.offsets.end(); ++o) {
        if (*(o - 1) >= s.end) break;
        cuts += *o > *(o - 1);
      }
      bucket.cuts.push_back(cuts);
    }
    bucket.all_cuts = 0;
    for (const int64_t cuts : bucket.cuts) bucket.all_cuts += cuts;
  }
}

void StepPlan::add_weights(const NamedTensors& parameters, const std::vector<int64_t>& owners) {
  check(owners.size() == parameters.size(), "StepPlan: {} owners for {} parameters", owners.size(),
        parameters.size());
  std::vector<detail::OwnedBytes> tensors;
  std::vector<int64_t> shards(nodes_.size());
  for (size_t i = 0; i < owners.size(); ++i) {
    const Tensor& t = parameters[i].second;
    check(owners[i] >= 0 && owners[i] < ranks(),
          "StepPlan: rank {} of {} owns {}; ranks count from 0", owners[i], ranks(),
          parameters[i].first);
    if (!t.requires_grad()) continue;
    tensors.push_back({owners[i], t.numel() * item_size(t.dtype())});
    shards[static_cast<size_t>(owners[i])] += t.numel();
  }
  const auto all = std::accumulate(shards.begin(), shards.end(), int64_t{0});
  largest_shard_ = static_cast<double>(*std::max_element(shards.begin(), shards.end())) /
                   static_cast<double>(std::max<int64_t>(all, 1));
  const std::vector<detail::OwnedBytes> items = detail::items_of(tensors, ranks());
  for (int stage = 0; stage < 2; ++stage)
    for (int64_t r = 0; r < ranks(); ++r) {
      RankTraffic& traffic = weights_[static_cast<size_t>(stage)].emplace_back();
      for (const detail::Hop& hop : detail::hops_to_all(items, ranks(), r, stage))
        traffic += {hop.from == r ? hop.bytes : 0, hop.to == r ? hop.bytes : 0, 1};
    }
}

int64_t StepPlan::most_blocks() const { return ceil_div(options_.blocks, ranks()); }

int64_t StepPlan::bytes() const {
  int64_t bytes = 0;
  for (const Bucket& b : buckets_) bytes += b.bytes();
  return bytes;
}

RankTraffic StepPlan::heads(int64_t) const {
  const int64_t others = ranks() - 1;
  return {others * kHeadBytes, others * kHeadBytes, 2 * others};
}

RankTraffic StepPlan::facts(int64_t rank) const {
  const int64_t others = ranks() - 1;
  const int64_t own = detail::range_of(options_.blocks, ranks(), rank).size();
  return {others * own * kFactsBytes, (options_.blocks - own) * kFactsBytes, 2 * others};
}

RankTraffic StepPlan::counts(int64_t) const {
  const int64_t others = ranks() - 1;
  return {others * count_bytes_, others * count_bytes_, 2 * others};
}

// The rank sends each of its nodes in shares to all other ranks and receives its own share of their
// nodes. Before each node goes one byte per item, which says whether the node has it.
RankTraffic StepPlan::nodes(const Bucket& b, int64_t rank) const {
  const int64_t share = detail::range_of(b.elements, ranks(), rank).size();
  const int64_t others = ranks() - 1, cuts = b.cuts[static_cast<size_t>(rank)];
  const int64_t own = nodes_[static_cast<size_t>(rank)], theirs = all_nodes_ - own;
  return {own * (others * b.items + (b.elements - share) * b.item_bytes),
          theirs * (b.items + share * b.item_bytes),
          own * (others + b.all_cuts - cuts) + theirs * (1 + cuts)};
}

// Each rank sends the sums of its share to all others.
RankTraffic StepPlan::sums(const Bucket& b, int64_t rank) const {
  const int64_t share = detail::range_of(b.elements, ranks(), rank).size();
  const int64_t others = ranks() - 1, cuts = b.cuts[static_cast<size_t>(rank)];
  return {share * others * b.item_bytes, (b.elements - share) * b.item_bytes,
          others * cuts + b.all_cuts - cuts};
}

RankTraffic StepPlan::traffic(int64_t rank) const {
  check(rank >= 0 && rank < ranks(), "StepPlan: there is no rank {} among {}", rank, ranks());
  RankTraffic all;
  if (ranks() == 1) return all;
  all += heads(rank), all += facts(rank);
  for (const Bucket& b : buckets_) all += nodes(b, rank), all += sums(b, rank);
  if (count_bytes_ > 0) all += heads(rank), all += counts(rank);
  for (const auto& stage : weights_)
    if (!stage.empty()) all += stage[static_cast<size_t>(rank)];
  return all;
}

RankTraffic StepPlan::most_traffic() const {
  RankTraffic most;
  for (int64_t r = 0; r < ranks(); ++r)
    if (const RankTraffic t = traffic(r); t.sent >= most.sent) most = t;
  return most;
}

// While a rank computes a node, it keeps the sums of one subtree per level, and of its other nodes
// one sum each. From other ranks it gets its own share of their nodes.
int64_t StepPlan::memory() const {
  double most = 0;
  for (int64_t r = 0; r < ranks(); ++r) {
    const auto own = detail::nodes_of(options_.blocks, ranks(), r);
    double sums = 0;
    for (size_t n = 0; n < own.size(); ++n)
      sums = std::max(sums,
                      static_cast<double>(n) + std::max(1.0, std::ceil(std::log2(own[n].size()))));
    const double theirs = static_cast<double>(all_nodes_ - std::ssize(own));
    most = std::max(most, sums + theirs / static_cast<double>(ranks()));
  }
  return static_cast<int64_t>(most * static_cast<double>(bytes()));
}

StepTime StepPlan::time(const Compute& compute, const Network& network) const {
  StepTime t;
  const double passes = compute.block * static_cast<double>(most_blocks());
  const double update = compute.update * largest_shard_;
  t.compute = passes + update;
  t.step = t.compute;
  if (ranks() == 1) return t;
  // Seconds of a stage, which the busiest rank decides.
  const auto stage = [&](auto traffic_of) {
    double seconds = 0;
    for (int64_t r = 0; r < ranks(); ++r) {
      const RankTraffic traffic = traffic_of(r);
      seconds =
          std::max(seconds, network.message * static_cast<double>(traffic.messages) +
                                static_cast<double>(std::max(traffic.sent, traffic.received)) /
                                    network.bytes_per_second);
    }
    return network.latency + seconds;
  };
  double link = 0;  // the time at which the link is free again
  const auto exchange = [&](double ready, double seconds) {
    link = std::max(link, ready) + seconds;
    t.communication += seconds;
  };
  const auto seconds_of_heads = stage([&](int64_t r) { return heads(r); });
  const double backward = compute.block * 2 / 3;
  exchange(passes - backward, seconds_of_heads + stage([&](int64_t r) { return facts(r); }));
  double complete = 0, all = 0;  // bytes of gradients
  for (const Bucket& b : buckets_) all += b.of_gradients ? static_cast<double>(b.bytes()) : 0;
  for (const Bucket& b : buckets_) {
    complete += b.of_gradients ? static_cast<double>(b.bytes()) : 0;
    const double added = static_cast<double>(b.bytes() * (all_nodes_ + 1)) /
                         static_cast<double>(ranks()) / network.memory_bytes_per_second;
    exchange(passes - backward * (all > 0 ? 1 - complete / all : 0),
             stage([&](int64_t r) { return nodes(b, r); }) + added +
                 stage([&](int64_t r) { return sums(b, r); }));
  }
  if (count_bytes_ > 0)
    exchange(passes, seconds_of_heads + stage([&](int64_t r) { return counts(r); }));
  t.step = std::max(passes, link) + update;
  for (const auto& weights : weights_) {
    const bool moves =
        std::any_of(weights.begin(), weights.end(), [](const auto& w) { return w.messages > 0; });
    if (!moves) continue;
    const double seconds = stage([&](int64_t r) { return weights[static_cast<size_t>(r)]; });
    t.communication += seconds;
    t.step += seconds;
  }
  return t;
}

}  // namespace tern::dist

// Optimizers whose states are split over ranks (optim/shards.h) against a whole optimizer, bit for
// bit. Here the ranks are copies in one process; tests/dist uses several processes.
#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>

#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/nn/nn.h"
#include "tern/optim/shards.h"
#include "tern/tests/support/same_bits.h"
#include "tern/train/optimizer.h"
#include "tern/train/summary.h"

namespace tern::test::test_optimizer_shards {
namespace {

// A large matrix, which may have an 8-bit state, smaller ones, vectors, and one that few steps use.
NamedTensors make_parameters() {
  Rng rng(5);
  NamedTensors all;
  const std::vector<std::pair<const char*, Shape>> forms = {{"embed.weight", {24, 8}},
                                                            {"blocks.0.up.weight", {96, 64}},
                                                            {"blocks.0.up.bias", {96}},
                                                            {"blocks.0.rare.weight", {16, 6}},
                                                            {"blocks.1.up.weight", {40, 30}},
                                                            {"norm.weight", {30}},
                                                            {"scale", {}}};
  for (const auto& [name, shape] : forms) {
    all.emplace_back(name, randn(shape, rng));
    all.back().second.set_requires_grad(true);
  }
  return all;
}

struct Kind {
  std::string name;
  int bits = 32;
};

// The ranks of a training. With one rank the optimizer is whole.
struct Ranks {
  Kind kind;
  std::vector<NamedTensors> parameters;  // by rank
  std::vector<std::unique_ptr<optim::Optimizer>> optimizers;
  std::vector<int64_t> owners;

  Ranks(Kind k, int64_t ranks) : kind(std::move(k)) {
    for (int64_t r = 0; r < ranks; ++r) {
      parameters.push_back(make_parameters());
      optimizers.push_back(
          training::make_optimizer({.name = kind.name, .lr = 0.01, .state_bits = kind.bits},
                                   optim::decay_groups(parameters.back(), 0.1)));
      optim::keep_shard(*optimizers.back(), r, ranks);
    }
    owners = optim::shard_owners(*optimizers[0], ranks);
  }
  size_t owner(size_t i) const { return static_cast<size_t>(owners[i]); }

  void step(int64_t number) {
    for (size_t r = 0; r < parameters.size(); ++r) {
      Rng rng = Rng(9).stream(static_cast<uint64_t>(number));
      for (const auto& [name, p] : parameters[r]) {
        const Tensor gradient = randn(p.shape(), rng);
        if (name != "blocks.0.rare.weight" || number % 3 == 1) p.set_grad(gradient);
      }
      optimizers[r]->step();
      optimizers[r]->zero_grad();
    }
    NoGradGuard no_grad;
    const auto of = [&](size_t r, size_t i) { return optimizers[r]->parameters()[i].second; };
    for (size_t i = 0; i < owners.size(); ++i)
      for (size_t r = 0; r < parameters.size(); ++r)
        if (r != owner(i)) copy_(of(r, i).detach(), of(owner(i), i).detach());
  }
  NamedTensors state() const {
    NamedTensors all;
    for (size_t i = 0; i < owners.size(); ++i) {
      const NamedTensors one = optimizers[owner(i)]->state_dict(i);
      if (one[0].second.item<int64_t>() > 0) all.insert(all.end(), one.begin(), one.end());
    }
    return all;
  }
  void load(const Ranks& other) {
    NoGradGuard no_grad;
    for (size_t r = 0; r < parameters.size(); ++r) {
      load_state("test", parameters[r], other.parameters[0]);
      optimizers[r]->load_state_dict(other.state());
    }
  }
};

struct Deep {
  std::vector<nn::Linear> layers;
  static void fields(auto& m, auto&& visit) { visit("layers", m.layers); }
};

std::vector<Kind> all_kinds() {
  std::vector<Kind> kinds = {{"adam", 8}, {"adamw", 8}};
  for (const std::string& name : training::optimizer_names()) kinds.push_back({name});
  return kinds;
}

}  // namespace

TEST_CASE("shards: every optimizer has the bits of a whole one, also resumed on other ranks") {
  for (const Kind& kind : all_kinds()) {
    CAPTURE(kind.name);
    CAPTURE(kind.bits);
    Ranks whole(kind, 1);
    for (int64_t s = 0; s < 6; ++s) whole.step(s);
    for (const int64_t ranks : {2, 3, 8}) {
      CAPTURE(ranks);
      Ranks first(kind, ranks), sharded(kind, ranks);
      for (int64_t s = 0; s < 3; ++s) first.step(s);
      // Resumes on another number of ranks, which may be one.
      Ranks others(kind, ranks == 2 ? 3 : ranks == 3 ? 1 : 2);
      others.load(first);
      for (int64_t s = 3; s < 6; ++s) first.step(s), others.step(s);
      for (const Ranks* r : {&first, &others}) {
        for (const NamedTensors& parameters : r->parameters)
          check_same(parameters, whole.parameters[0]);
        check_same(r->state(), whole.state());
      }
      // Resumes the state of a whole optimizer on several ranks.
      Ranks one(kind, 1);
      for (int64_t s = 0; s < 3; ++s) one.step(s);
      sharded.load(one);
      for (int64_t s = 3; s < 6; ++s) sharded.step(s);
      check_same(sharded.parameters[0], whole.parameters[0]);
      check_same(sharded.state(), whole.state());
    }
  }
}

TEST_CASE("shards: a rank has only its share of the states") {
  for (const Kind& kind : all_kinds()) {
    CAPTURE(kind.name);
    CAPTURE(kind.bits);
    Ranks whole(kind, 1);
    for (int64_t s = 0; s < 2; ++s) whole.step(s);  // step 0 leaves out one parameter
    int64_t largest = 0;
    for (size_t i = 0; i < whole.owners.size(); ++i)
      largest = std::max(largest, whole.optimizers[0]->state_bytes(i));
    const int64_t all = whole.optimizers[0]->state_bytes();
    for (const int64_t ranks : {2, 3, 8}) {
      Ranks sharded(kind, ranks);
      for (int64_t s = 0; s < 2; ++s) sharded.step(s);
      int64_t sum = 0, most = 0;
      for (const auto& o : sharded.optimizers) {
        sum += o->state_bytes();
        most = std::max(most, o->state_bytes());
        o->allocate_state();  // only this rank's own
        CHECK(o->state_bytes() <= all / ranks + largest);
      }
      CHECK(sum == all);
      // The bound of the greedy split: only the rank with the least gets the next parameter.
      CHECK(most <= all / ranks + largest);
    }
  }
}

TEST_CASE("shards: equal parameters are split evenly, and the summary shows it") {
  Rng rng(1);
  std::vector<nn::Linear> layers;
  for (int i = 0; i < 8; ++i) layers.emplace_back(128, 128, rng, nn::Bias::no);
  const Deep deep{layers};
  const auto loss = [&] {
    Tensor x = ones({2, 128});
    for (const nn::Linear& layer : deep.layers) x = layer(x);
    return sum(x);
  };
  const auto bytes = [&](int64_t ranks) {
    return summary(deep, loss, {.optimizer_ranks = ranks}).cost.most[MemoryKind::optimizer];
  };
  CHECK(bytes(1) >= 2 * 8 * 128 * 128 * 4);
  CHECK(bytes(2) == bytes(1) / 2);
  CHECK(bytes(8) == bytes(1) / 8);
  CHECK(bytes(3) == bytes(1) * 3 / 8);  // the largest share is three of eight
}

TEST_CASE("shards: taking back a parameter that another rank has stepped is an error") {
  Ranks ranks({"adamw"}, 2);
  optim::Optimizer& first = *ranks.optimizers[0];
  CHECK_NOTHROW(first.keep_shard(std::vector<bool>(7, true)));
  optim::keep_shard(first, 0, 2);
  ranks.step(0);
  CHECK_THROWS_WITH_AS(first.keep_shard(std::vector<bool>(7, true)),
                       doctest::Contains("was stepped 1 times by another process"), Error);
  CHECK_THROWS_WITH_AS(first.keep_shard({true}), doctest::Contains("1 values for 7 parameters"),
                       Error);
}

}  // namespace tern::test::test_optimizer_shards

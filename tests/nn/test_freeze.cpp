// Parts of a model: freezing them, naming them with a prefix, and sharing them between models.
#include <doctest/doctest.h>

#include <memory>

#include "tern/core/base/rng.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/core/tape/op.h"
#include "tern/nn/nn.h"
#include "tern/optim/adam.h"
#include "tern/optim/sgd.h"
#include "tern/tests/support/data_files.h"
#include "tern/train/loop.h"

namespace tern::test_freeze {
namespace {

using Strings = std::vector<std::string>;

struct Net {
  nn::Linear a;
  nn::BatchNorm1d bn;
  nn::Dropout dropout;
  nn::Linear b;
  explicit Net(Rng& rng) : a(3, 4, rng), bn(4), dropout(0.5, rng), b(4, 2, rng) {}
  Tensor operator()(const Tensor& x) const { return b(dropout(relu(bn(a(x))))); }
  static void fields(auto& m, auto&& visit) {
    visit("a", m.a), visit("bn", m.bn), visit("dropout", m.dropout), visit("b", m.b);
  }
};

std::vector<double> values(const Tensor& t) { return t.to_vector<double>(); }

Strings names(const NamedTensors& of) {
  Strings out;
  for (const auto& [name, t] : of) out.push_back(name);
  return out;
}

/// Runs one step. Returns whether the running mean changed.
bool moves(const Net& net, Rng& rng) {
  const auto before = values(net.bn.running_mean);
  const Tensor y = net(randn({8, 3}, rng));
  if (y.requires_grad()) sum(y).backward();
  return values(net.bn.running_mean) != before;
}

}  // namespace

TEST_CASE("freeze: stops gradients, and set_training() does not end evaluation") {
  Rng rng(1);
  Net net(rng);
  nn::set_requires_grad(net.bn, false);
  CHECK(moves(net, rng));  // as in PyTorch: it affects only gradients
  nn::freeze(net.bn);
  CHECK_FALSE(moves(net, rng));
  CHECK_FALSE(net.bn.weight.grad().defined());
  CHECK(net.a.weight.grad().defined());  // a layer before the frozen one
  for (int epoch = 0; epoch < 2; ++epoch) {
    nn::set_training(net);
    CHECK(net.dropout.training);
    CHECK_FALSE(net.bn.training);
    CHECK_FALSE(moves(net, rng));
  }
  nn::unfreeze(net.bn);
  CHECK(net.bn.training);
  CHECK(moves(net, rng));
  CHECK(net.bn.weight.own().requires_grad());
}

TEST_CASE("freeze: unfreeze() restores the mode that was set last") {
  Rng rng(2);
  Net net(rng);
  nn::freeze(net);
  CHECK_FALSE(net.dropout.training);
  nn::set_training(net, false);
  nn::unfreeze(net);
  CHECK_FALSE(net.dropout.training);
  nn::set_training(net);
  nn::freeze(net.dropout);
  {
    nn::EvalScope evaluating(net);
    CHECK_FALSE(net.bn.training);
    CHECK_FALSE(net.dropout.training);
    nn::unfreeze(net.dropout);
    nn::freeze(net.bn);
    CHECK_FALSE(net.dropout.training);  // still in evaluation
  }
  CHECK(net.dropout.training);
  CHECK_FALSE(net.bn.training);
}

TEST_CASE("freeze: copies are frozen; assignment does not change whether the target is") {
  Rng rng(3);
  Net net(rng);
  nn::freeze(net.bn);
  Net copy = net;
  nn::set_training(copy);
  CHECK_FALSE(copy.bn.training);
  CHECK_FALSE(copy.bn.weight.own().requires_grad());
  nn::unfreeze(copy.bn);
  CHECK_FALSE(net.bn.training);
  CHECK(copy.bn.training);
  net = copy;
  CHECK_FALSE(net.bn.training);
  CHECK_FALSE(net.bn.weight.own().requires_grad());
  copy = net;
  CHECK(copy.bn.training);
  CHECK(copy.bn.weight.own().requires_grad());
}

TEST_CASE("freeze: appears in print, also for a layer without parameters") {
  Rng rng(4);
  Net net(rng);
  nn::freeze(net.bn);
  nn::freeze(net.dropout);
  const std::string text = nn::to_string(net);
  CHECK(text.find("(bn): BatchNorm1d(weight (4,) frozen, ") != std::string::npos);
  CHECK(text.find("(dropout): Dropout(in evaluation)") != std::string::npos);
  CHECK(text.find("num_batches_tracked () i64 buffer, in evaluation)") != std::string::npos);
  nn::unfreeze(net);
  CHECK(nn::to_string(net).find("evaluation") == std::string::npos);
}

TEST_CASE("freeze: works on dynamic layers and through a ModuleRef") {
  Rng rng(5);
  nn::DynamicSequential net;
  net.add(nn::BatchNorm1d(3)).add(nn::Dropout(0.5, rng));
  nn::freeze(net[0]);
  nn::set_training(net);
  CHECK_FALSE(net[0].as<nn::BatchNorm1d>().training);
  CHECK(net[1].as<nn::Dropout>().training);
  nn::ModuleRef reference(net);
  nn::freeze(reference);
  CHECK_FALSE(net[1].as<nn::Dropout>().training);
}

namespace {

struct Some {
  Tensor x;
};

/// Trains in a folder up to this epoch, with frozen batch norm. Returns weights and statistics.
std::vector<std::vector<double>> trained(const std::string& folder, int64_t epochs) {
  Rng rng(9);
  Net net(rng);
  nn::freeze(net.bn);
  optim::AdamW optimizer(nn::named_parameters(net));
  training::Learner learner(net, optimizer);
  datasets::Loader<Some> loader(32,
                                [](const datasets::BatchPlan& plan) {
                                  Rng r = plan.batch_rng();
                                  return Some{randn({8, 3}, r)};
                                },
                                {.batch = 8});
  training::Loop loop(learner, loader,
                      {.loss = [&](const Some& b) { return mean(square(net(b.x))); }},
                      {.epochs = epochs,
                       .folder = folder,
                       .terminal = false,
                       .on_epoch = [&](const training::EpochRecord&) { nn::set_training(net); }});
  loop.resume();
  loop.run();
  std::vector<std::vector<double>> out;
  for (const auto& entry : nn::state_dict(net)) out.push_back(values(entry.second));
  return out;
}

}  // namespace

TEST_CASE("freeze: stays in effect in a Loop and after resuming") {
  const test::TempDir folder;
  const auto whole = trained(folder / "whole", 2);
  Rng rng(9);
  const Net fresh(rng);
  CHECK(whole[0] != values(fresh.a.weight));
  CHECK(whole[2] == values(fresh.bn.weight));
  CHECK(whole[4] == values(fresh.bn.running_mean));
  CHECK(whole[6] == std::vector<double>{0});  // counted no batch
  trained(folder / "parts", 1);
  CHECK(trained(folder / "parts", 2) == whole);
}

TEST_CASE("prefixes: parts have the names of the whole model") {
  Rng rng(6);
  Net net(rng);
  CHECK(names(nn::named_parameters(net.a, "a.")) == Strings{"a.weight", "a.bias"});
  CHECK(names(nn::named_parameters(net.a, "a")) == Strings{"a.weight", "a.bias"});
  CHECK(parameter_name(net.a.weight.own()) == "a.weight");
  CHECK(names(nn::named_buffers(net.bn, "bn.")) ==
        Strings{"bn.running_mean", "bn.running_var", "bn.num_batches_tracked"});
  CHECK(names(nn::generator_state(net.dropout, "dropout.")) == Strings{"dropout.rng"});
  const std::vector<nn::Linear> list(2, net.a);
  CHECK(names(nn::named_parameters(list, "list."))[2] == "list.1.weight");
  // The states of the parts add up to the state of the model.
  NamedTensors parts = nn::state_dict(net.a, "a.");
  for (const auto& entry : nn::state_dict(net.bn, "bn.")) parts.push_back(entry);
  for (const auto& entry : nn::state_dict(net.b, "b.")) parts.push_back(entry);
  CHECK(names(parts) == names(nn::state_dict(net)));
  nn::load_state_dict(net, parts);
}

TEST_CASE("prefixes: groups of two parts") {
  Rng rng(7);
  Net net(rng);
  using Groups = std::vector<optim::ParameterGroup>;
  CHECK_THROWS_WITH_AS(optim::AdamW(Groups{{.parameters = nn::named_parameters(net.a)},
                                           {.parameters = nn::named_parameters(net.b)}}),
                       doctest::Contains("two parameters are called 'weight'"), Error);
  optim::AdamW optimizer(Groups{{.parameters = nn::named_parameters(net.a, "a."), .lr = 1e-4},
                                {.parameters = nn::named_parameters(net.b, "b.")}},
                         {.lr = 1e-2});
  CHECK(optimizer.lr(0) == 1e-4);
  CHECK(optimizer.lr(1) == 1e-2);
}

namespace {

// A table that several models share.
struct Reader {
  std::shared_ptr<nn::Embedding> table;
  nn::Linear head;
  Reader(std::shared_ptr<nn::Embedding> shared, Rng& rng) : table(shared), head(4, 2, rng) {}
  Tensor operator()(const Tensor& ids) const { return head((*table)(ids)); }
  static void fields(auto& m, auto&& visit) { visit("table", *m.table), visit("head", m.head); }
};

}  // namespace

TEST_CASE("a shared part: belongs to both models and their copies, and learns from both") {
  Rng rng(8);
  const auto table = std::make_shared<nn::Embedding>(5, 4, rng);
  Reader first(table, rng), second(table, rng);
  CHECK(names(nn::named_parameters(first)) == Strings{"table.weight", "head.weight", "head.bias"});
  Reader copy = first;
  CHECK(copy.table == first.table);
  const Tensor ids = tensor({0, 3});
  (sum(first(ids)) + sum(second(ids))).backward();
  const Tensor both = table->weight.grad().clone();
  table->weight.zero_grad();
  sum(first(ids)).backward();
  CHECK(values(both) != values(table->weight.grad()));

  // One optimizer for both models gets the table only once.
  NamedTensors parameters = nn::named_parameters(first, "first.");
  for (const auto& entry : nn::named_parameters(second.head, "second.head"))
    parameters.push_back(entry);
  optim::Sgd optimizer(parameters, {.lr = 1});
  const Tensor before = table->weight.own().clone();
  nn::zero_grad(first), nn::zero_grad(second);
  (sum(first(ids)) + sum(second(ids))).backward();
  const Tensor slope = table->weight.grad().clone();
  optimizer.step();
  CHECK(all_close(table->weight, before - slope));

  // Two optimizers must not both step with the same gradient.
  optim::Sgd one(nn::named_parameters(first), {.lr = 1}),
      two(nn::named_parameters(second), {.lr = 1});
  const Tensor start = table->weight.own().clone();
  nn::zero_grad(first), nn::zero_grad(second);
  (sum(first(ids)) + sum(second(ids))).backward();
  const Tensor again = table->weight.grad().clone();
  one.step();
  CHECK_THROWS_WITH_AS(two.step(),
                       doctest::Contains("has already stepped 'table.weight' with this"), Error);
  CHECK(all_close(table->weight, start - again));
}

}  // namespace tern::test_freeze

// Printing of models: the tree with shapes and counts, and the folding of equal layers.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <string>

#include "tern/core/base/rng.h"
#include "tern/core/ops/ops.h"
#include "tern/nn/nn.h"

namespace tern::test_print_module {
namespace {

struct Mlp {
  nn::Linear up, down;
  Mlp(int64_t in, int64_t hidden, int64_t out, Rng& rng)
      : up(in, hidden, rng), down(hidden, out, rng) {}
  static void fields(auto& m, auto&& visit) {
    visit("up", m.up);
    visit("down", m.down);
  }
};

template <class Inner>
struct Zoo {
  nn::Parameter scale{ones({})};
  nn::Buffer table{zeros({2, 3}, DType::f64)};
  std::vector<Inner> blocks;
  std::optional<nn::Dropout> dropout;
  nn::Linear head;
  nn::Parameter tied_bias;
  nn::TrainingMode training = true;

  Zoo(Rng& rng, int64_t n) : head(3, 3, rng, nn::Bias::no) {
    for (int64_t i = 0; i < n; ++i) blocks.emplace_back(3, 4, 3, rng);
  }
  static void fields(auto& m, auto&& visit) {
    visit("scale", m.scale);
    visit("table", m.table);
    visit("blocks", m.blocks);
    visit("dropout", m.dropout);
    visit("head", m.head);
    visit("same", m.head);
    visit("tied_bias", m.tied_bias);
    visit("training", m.training);
  }
};

}  // namespace

TEST_CASE("print: a model is a tree with shapes and counts") {
  Rng rng(0);
  Mlp model(2, 64, 2, rng);
  CHECK(fmt::format("{}", model) ==
        "Mlp(\n"
        "  (up): Linear(weight (64, 2), bias (64,)) 192\n"
        "  (down): Linear(weight (2, 64), bias (2,)) 130\n"
        ") 322 parameters");
  CHECK(nn::to_string(model) == fmt::format("{}", model));
  CHECK(fmt::format("{}", nn::Linear(1000, 2, rng)) ==
        "Linear(weight (2, 1000), bias (2,)) 2,002 parameters");
}

TEST_CASE("print: lists, buffers, frozen, tied and missing tensors") {
  Rng rng(0);
  Zoo<Mlp> zoo(rng, 3);
  nn::set_requires_grad(zoo.blocks[1].up, false);
  zoo.dropout.emplace(0.5, rng);
  CHECK(fmt::format("{}", zoo) ==
        "Zoo(\n"
        "  scale (), table (2, 3) f64 buffer\n"
        "  (blocks.0): Mlp(\n"
        "    (up): Linear(weight (4, 3), bias (4,)) 16\n"
        "    (down): Linear(weight (3, 4), bias (3,)) 15\n"
        "  ) 31\n"
        "  (blocks.1): Mlp(\n"
        "    (up): Linear(weight (4, 3) frozen, bias (4,) frozen) 16\n"
        "    (down): Linear(weight (3, 4), bias (3,)) 15\n"
        "  ) 31\n"
        "  (blocks.2): Mlp(\n"
        "    (up): Linear(weight (4, 3), bias (4,)) 16\n"
        "    (down): Linear(weight (3, 4), bias (3,)) 15\n"
        "  ) 31\n"
        "  (dropout): Dropout()\n"
        "  (head): Linear(weight (3, 3)) 9\n"
        "  (same): Linear(weight = head.weight)\n"
        ") 103 parameters, 16 of them frozen, 6 in buffers");
  nn::set_requires_grad(zoo, true);
  const std::string folded = fmt::format("{}", zoo);
  CHECK(folded.find("  (blocks.0-2): 3 x Mlp(\n    (up): ") != std::string::npos);
  CHECK(folded.find("  ) 31 each\n") != std::string::npos);
}

namespace {

struct TiedHead {
  nn::Embedding embed;
  nn::Linear out;
  explicit TiedHead(Rng& rng) : embed(5, 3, rng), out(3, 3, rng, nn::Bias::no) {}
  static void fields(auto& m, auto&& visit) {
    visit("embed", m.embed);
    visit("out", m.out);
    visit("head", m.embed.weight);
  }
};

}  // namespace

TEST_CASE("print: a tied tensor counts where the walk finds it first, as in files") {
  Rng rng(0);
  const TiedHead model(rng);
  CHECK(nn::named_parameters(model)[0].first == "embed.weight");
  CHECK(fmt::format("{}", model) ==
        "TiedHead(\n"
        "  head = embed.weight\n"
        "  (embed): Embedding(weight (5, 3)) 15\n"
        "  (out): Linear(weight (3, 3)) 9\n"
        ") 24 parameters");
}

TEST_CASE("print: a sequence") {
  Rng rng(0);
  nn::Sequential mlp(nn::Linear(4, 5, rng), nn::Relu(), nn::Linear(5, 2, rng));
  CHECK(fmt::format("{}", mlp) ==
        "Sequential(\n"
        "  (0): Linear(weight (5, 4), bias (5,)) 25\n"
        "  (1): Relu()\n"
        "  (2): Linear(weight (2, 5), bias (2,)) 12\n"
        ") 37 parameters");
}

TEST_CASE("print: printing gives parameters their names for errors and profiles") {
  Rng rng(0);
  nn::Sequential mlp(nn::Linear(4, 5, rng), nn::Relu(), nn::Linear(5, 2, rng));
  CHECK_THROWS_WITH(mlp(ones({2, 3})), doctest::Contains("linear: "));
  CHECK(!fmt::format("{}", mlp).empty());
  CHECK_THROWS_WITH(mlp(ones({2, 3})), doctest::Contains("0: linear: "));
}

TEST_CASE("print: a Parameter and a Buffer print as their tensors") {
  CHECK(fmt::format("{}", nn::Parameter(ones({2}))) == "tensor([1., 1.], requires_grad=True)");
  CHECK(fmt::format("{}", nn::Buffer(ones({2}))) == "tensor([1., 1.])");
}

}  // namespace tern::test_print_module

// Parameters as values: assigning, moving, clearing gradients, and printing.
#include <doctest/doctest.h>

#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/nn/nn.h"
#include "tern/tests/support/errors.h"

namespace tern::test_parameters {

namespace {

using test::contains, test::error_of;

struct Mlp {
  nn::Linear up, down;
  explicit Mlp(Rng& rng) : up(3, 4, rng), down(4, 2, rng) {}
  Tensor operator()(const Tensor& x) const { return down(relu(up(x))); }
  static void fields(auto& m, auto&& visit) {
    visit("up", m.up);
    visit("down", m.down);
  }
};

TEST_CASE("parameters: a result that requires a gradient is refused, since its history would end") {
  Rng rng(1);
  nn::Linear layer(3, 3, rng);
  const Tensor leaf = ones({3, 3}).set_requires_grad();
  for (const Tensor& h : {layer.weight - ones({3, 3}) * 0.1, leaf}) {
    std::string text = error_of([&] { layer.weight = h; });
    CHECK(contains(text, "parameter: the tensor of shape (3, 3) requires a gradient"));
    CHECK(contains(text, "detach()"));
    CHECK(contains(error_of([&] { nn::Parameter p(h); }), "requires a gradient"));
    CHECK(contains(error_of([&] { nn::Buffer b(h); }), "requires a gradient"));
  }
  const Tensor next = layer.weight - ones({3, 3});
  layer.weight = next.detach();
  CHECK(layer.weight.tensor().to_vector<float>() == next.to_vector<float>());
  {
    NoGradGuard no_grad;
    layer.weight = next;
    nn::Parameter p(next);
    CHECK(p.tensor().is_leaf());
  }
  // load_state_dict refuses it, too. Leaves are accepted, such as another module's parameters.
  nn::Linear loaded(3, 3, rng);
  const NamedTensors adapted = {{"weight", next}, {"bias", layer.bias.own()}};
  const std::string text = error_of([&] { nn::load_state_dict(loaded, adapted); });
  CHECK(contains(text, "load_state_dict: 'weight' is a result that requires a gradient"));
  CHECK(contains(text, "nn::WeightsInstead"));
  nn::load_state_dict(loaded, nn::named_parameters(layer));
  {
    NoGradGuard no_grad;
    nn::load_state_dict(loaded, adapted);
    CHECK(loaded.weight.tensor().to_vector<float>() == next.to_vector<float>());
  }
  // Parameters and plain tensors can still be assigned.
  nn::Linear other(3, 3, rng), third = other;
  layer = other;
  layer.weight = third.weight;
  CHECK(layer.weight.tensor().to_vector<float>() == other.weight.tensor().to_vector<float>());
  layer.weight = ones({3, 3});
}

TEST_CASE("parameters: using a moved-from parameter is an error that names it") {
  Rng rng(1);
  const Tensor x = randn({2, 3}, rng);
  Mlp a(rng), unnamed(rng);
  CHECK(nn::num_parameters(a) == 26);
  const Mlp b = std::move(a);
  CHECK(b(x).shape() == Shape{2, 2});
  const char* told = "parameter: 'up.weight' of shape (4, 3) was moved away";
  const std::string used = error_of([&] { return a(x); });  // NOLINT: moved from
  CHECK(contains(used, "parameter: 'up."));                 // the weight or the bias
  CHECK(contains(used, "was moved away"));
  CHECK(contains(error_of([&] { nn::named_parameters(a); }), told));    // NOLINT
  CHECK(contains(error_of([&] { nn::state_dict(a); }), told));          // NOLINT
  CHECK(contains(error_of([&] { Mlp c = a; }), told));                  // NOLINT
  CHECK(contains(error_of([&] { a.up.weight.shape(); }), told));        // NOLINT
  CHECK(contains(error_of([&] { return a.up.weight.grad(); }), told));  // NOLINT
  CHECK_FALSE(a.up.weight.defined());                                   // NOLINT
  const Mlp e = std::move(unnamed);
  CHECK(contains(error_of([&] { return unnamed(x); }), "parameter: one of shape (4"));  // NOLINT

  // It can be assigned again.
  a = e;
  CHECK(a(x).to_vector<float>() == e(x).to_vector<float>());
  // An undefined parameter stays undefined after a move.
  nn::Linear bare(3, 3, rng, nn::Bias::no);
  const nn::Linear other = std::move(bare);
  CHECK(other(x).shape() == Shape{2, 3});
  CHECK_FALSE(bare.bias.tensor().defined());  // NOLINT
  // std::swap, a growing vector, and moving away and back.
  Mlp c(rng), d(rng);
  const auto first = c(x).to_vector<float>();
  std::swap(c, d);
  CHECK(d(x).to_vector<float>() == first);
  std::vector<Mlp> many;
  for (int i = 0; i < 5; ++i) many.push_back(d);
  for (const Mlp& m : many) CHECK(m(x).to_vector<float>() == first);
  many.erase(many.begin());
  for (const Mlp& m : many) CHECK(m(x).to_vector<float>() == first);
  Mlp away = std::move(d);
  d = std::move(away);
  CHECK(d(x).to_vector<float>() == first);
}

TEST_CASE("tensors: zero_grad clears the gradient of a leaf") {
  const Tensor x = ones({2}).set_requires_grad();
  sum(x * 3).backward();
  CHECK(x.grad().defined());
  x.zero_grad();
  CHECK_FALSE(x.grad().defined());
  x.zero_grad();
  sum(x * 3).backward();
  CHECK(x.grad().to_vector<float>() == std::vector<float>{3, 3});
  ones({2}).zero_grad();  // nothing to clear
  CHECK(error_of([&] { (x * 2).zero_grad(); }) ==
        "zero_grad: a result of shape (2,) has no gradient to clear, only leaves do");
  CHECK(error_of([] { Tensor().zero_grad(); }) != "");
  Rng rng(1);
  const nn::Linear layer(2, 2, rng);
  sum(layer(x)).backward();
  layer.weight.zero_grad();
  CHECK_FALSE(layer.weight.grad().defined());
  CHECK(layer.bias.grad().defined());
}

TEST_CASE("tensors: streams and to_string show them") {
  std::ostringstream out;
  const Tensor x = tensor({1, 2.5}, {2});
  out << x << "; " << Tensor() << "; " << nn::Parameter(x);
  CHECK(out.str() ==
        "tensor([1.0000, 2.5000]); tensor(undefined); tensor([1.0000, 2.5000], "
        "requires_grad=True)");
  CHECK(to_string(x) == "tensor([1.0000, 2.5000])");
  out.str("");
  out << x.shape() << Shape{} << Shape{2, 3} << " " << x.dtype() << " " << DType::i64;
  CHECK(out.str() == "(2,)()(2, 3) f32 i64");
}

}  // namespace

}  // namespace tern::test_parameters

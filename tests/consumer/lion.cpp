// A program's own optimizer, written against the installed headers.
#include <tern/tern.h>

#include <array>

using namespace tern;

/// Lion (Chen et al. 2023, algorithm 2).
struct Lion {
  double lr = 1e-4, beta1 = 0.9, beta2 = 0.99, weight_decay = 0;
  static constexpr const char* name = "Lion";
  static constexpr std::array state_names = {"exp_avg"};

  template <class T>
  void update(const optim::Piece<T>& p) const {
    const T rate = T(p.lr), decay = T(p.weight_decay), b1 = T(beta1), b2 = T(beta2);
    simd([=, w = p.parameter, g = p.gradient, m = p.state[0], n = p.count] {
      for (int64_t i = 0; i < n; ++i) {
        T c = b1 * m[i] + (1 - b1) * g[i];
        w[i] -= rate * (T(c > 0) - T(c < 0) + decay * w[i]);
        m[i] = b2 * m[i] + (1 - b2) * g[i];
      }
    });
  }
};

struct Mlp {
  nn::Linear up, down;
  explicit Mlp(Rng& rng) : up(4, 32, rng), down(32, 3, rng) {}
  Tensor operator()(const Tensor& x) const { return down(gelu(up(x))); }
  static void fields(auto& m, auto&& visit) { visit("up", m.up), visit("down", m.down); }
};

int main() {
  Rng rng(0);
  Mlp model(rng);
  optim::OptimizerOf<Lion> optimizer(optim::decay_groups(nn::named_parameters(model), 0.01),
                                     {.lr = 1e-2});
  optim::Schedule schedule = optim::cosine({.warmup = 5, .total = 60});
  Tensor x = randn({64, 4}, rng), target = remainder(argmax(x, 1), 3);
  double first = 0, last = 0;
  for (int step = 0; step < 60; ++step) {
    Tensor loss = cross_entropy(model(x), target);
    loss.backward();
    optim::clip_grad_norm(optimizer.parameters(), 1);
    optimizer.set_lr_factor(schedule(step));
    optimizer.step();
    optimizer.zero_grad();
    (step == 0 ? first : last) = loss.item();
  }
  // Another optimizer loads the state, as from a file.
  optim::OptimizerOf<Lion> other(nn::named_parameters(model), {.lr = 1e-2});
  other.load_state_dict(optimizer.state_dict());
  bool kept = other.state_dict().size() == 8;  // two for each of four parameters
  return kept && last < 0.5 * first ? 0 : 1;
}

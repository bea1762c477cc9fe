// A program's own selective state-space model (Mamba's mixer, Gu & Dao 2023, without its
// convolution). It learns to name at every step the last mark seen, and runs in two pieces.
#include <tern/tern.h>

using namespace tern;

constexpr int64_t kMarks = 4, kChannels = 16, kStates = 4;

/// h_t = e^(delta A) h_(t-1) + delta B x, y = C h + D x; delta, B and C are computed from x.
struct SelectiveScan {
  nn::Linear parameters;  // delta | B | C
  nn::Parameter log_a, d;

  explicit SelectiveScan(Rng& rng)
      : parameters(kChannels, kChannels + 2 * kStates, rng),
        log_a(expand(log(arange(1, kStates + 1, 1, DType::f32)), {kChannels, kStates}).clone()),
        d(ones({kChannels})) {}

  struct Result {
    Tensor y, state;  // (B, T, D), (B, D, N)
  };
  /// x (B, T, D); state from the piece before, undefined at the start.
  Result operator()(const Tensor& x, const Tensor& state) const {
    auto parts = split(parameters(x), {kChannels, kStates, kStates}, -1);
    Tensor delta = unsqueeze(softplus(parts[0]), -1);               // (B, T, D, 1)
    Tensor in = delta * unsqueeze(parts[1], 2) * unsqueeze(x, -1);  // (B, T, D, N)
    Tensor h = linear_scan(exp(-delta * exp(log_a)), in, 1, {.initial = state});
    Tensor y = einsum("b t d n, b t n -> b t d", {h, parts[2]}) + x * d;
    return {y, select(h, 1, x.size(1) - 1)};
  }
  static void fields(auto& m, auto&& visit) {
    visit("parameters", m.parameters), visit("log_a", m.log_a), visit("d", m.d);
  }
};

struct Model {
  nn::Parameter marks;
  SelectiveScan mixer;
  nn::Linear gate, head;

  explicit Model(Rng& rng)
      : marks(randn({kMarks + 1, kChannels}, rng)),
        mixer(rng),
        gate(kChannels, kChannels, rng),
        head(kChannels, kMarks, rng) {}
  SelectiveScan::Result operator()(const Tensor& tokens, const Tensor& state = {}) const {
    Tensor x = embedding(tokens, marks);
    auto [y, last] = mixer(x, state);
    return {head(y * silu(gate(x))), last};
  }
  static void fields(auto& m, auto&& visit) {
    visit("marks", m.marks), visit("mixer", m.mixer), visit("gate", m.gate), visit("head", m.head);
  }
};

/// Tokens (B, T), mostly kMarks, which means no mark; and for every step the last mark up to it.
std::pair<Tensor, Tensor> batch(int64_t rows, int64_t times, Rng& rng) {
  std::vector<int64_t> tokens, last;
  for (int64_t b = 0; b < rows; ++b)
    for (int64_t t = 0; t < times; ++t) {
      const bool mark = t == 0 || rng.below(4) == 0;
      tokens.push_back(mark ? rng.below(kMarks) : kMarks);
      last.push_back(mark ? tokens.back() : last.back());
    }
  return {tensor(tokens, {rows, times}), tensor(last, {rows, times})};
}

int main() {
  Rng rng(0);
  Model model(rng);
  optim::AdamW optimizer(nn::named_parameters(model), {.lr = 1e-2, .weight_decay = 0});
  double first = 0, loss = 0;
  for (int step = 0; step < 120; ++step) {
    auto [tokens, last] = batch(16, 24, rng);
    Tensor logits = model(tokens).y;
    Tensor of_step = cross_entropy(flatten(logits, 0, 1), flatten(last));
    of_step.backward();
    optimizer.step();
    optimizer.zero_grad();
    loss = of_step.item();
    if (step == 0) first = loss;
  }
  check(loss < 0.3 * first, "it learnt little: {} of {}", loss, first);

  NoGradGuard guard;
  Tensor tokens = batch(3, 20, rng).first, whole = model(tokens).y;
  auto head = model(narrow(tokens, 1, 0, 7));
  Tensor tail = model(narrow(tokens, 1, 7, 13), head.state).y;
  check(all_close(cat({head.y, tail}, 1), whole, 1e-4, 1e-5), "pieces are not the whole");
}

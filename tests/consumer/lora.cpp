// LoRA (Hu et al. 2021, "LoRA: Low-Rank Adaptation of Large Language Models") for the library's
// GPT-2, unchanged: W + alpha / r A B replaces each named matrix W, and only A and B are trained.
// Compared with PyTorch: lora FILE, beside ../gpt/gpt2/model.safetensors
#include <cmath>
#include <filesystem>

#include "numbers.h"

using namespace tern;

/// Matrices (in, out) of a model with their adapters.
class Lora {
 public:
  /// Adapts the parameters whose names end in one of `ends`. A starts in N(0, 1/in) and B at 0, so
  /// that the model starts unchanged.
  template <class M>
  Lora(const M& model, const std::vector<std::string>& ends, int64_t rank, double alpha, Rng& rng)
      : scale_(alpha / static_cast<double>(rank)) {
    for (const auto& [name, w] : nn::named_parameters(model))
      for (const std::string& end : ends)
        if (name.ends_with(end)) add(name, w, rank, rng);
  }
  /// The weights that replace the matrices.
  NamedTensors weights() const {
    NamedTensors out;
    for (const Adapter& m : adapters_)
      out.emplace_back(m.name, m.weight + scale_ * matmul(m.a, m.b));
    return out;
  }
  static void fields(auto& m, auto&& visit) {
    for (auto& adapter : m.adapters_) visit(adapter.name, adapter);
  }

 private:
  struct Adapter {
    std::string name;
    Tensor weight;  // the model's own weight
    nn::Parameter a, b;
    static void fields(auto& m, auto&& visit) { visit("a", m.a), visit("b", m.b); }
  };
  void add(const std::string& name, const Tensor& w, int64_t rank, Rng& rng) {
    const double std = 1 / std::sqrt(static_cast<double>(w.size(0)));
    adapters_.push_back({name, w, nn::Parameter(randn({w.size(0), rank}, rng, w.dtype()) * std),
                         nn::Parameter(zeros({rank, w.size(1)}, w.dtype()))});
  }
  std::vector<Adapter> adapters_;
  double scale_;
};

std::vector<double> elements(const NamedTensors& state) {
  std::vector<double> out;
  for (const auto& [name, t] : state)
    for (const double v : t.to_vector<double>()) out.push_back(v);
  return out;
}

/// Trains adapters of the model and compares the losses with the file.
void run(const SafeTensors& file, const std::string& base, nn::Recompute recompute) {
  Rng rng(0);
  models::Gpt model({.vocab = 61,
                     .context = 32,
                     .dim = 24,
                     .layers = 3,
                     .heads = 3,
                     .dropout = 0,
                     .recompute = recompute},
                    rng);
  models::load_gpt_weights(base, model);
  nn::to(model, DType::f64);
  nn::set_requires_grad(model, false);
  const std::vector<double> before = elements(nn::state_dict(model));

  Lora lora(model, {"attn.c_attn.weight", "mlp.c_fc.weight"}, 2, 4, rng);
  const Tensor tokens = file.find("tokens"), labels = file.find("labels");
  const Tensor plain = model.loss(tokens, labels);
  auto loss = [&] {
    nn::WeightsInstead scope(model, lora.weights());
    return model.loss(tokens, labels);
  };
  expect("adapters that begin at 0", loss().detach(), plain);
  nn::load_state_dict(lora, part(file, "param."));
  optim::AdamW optimizer(nn::named_parameters(lora), {.lr = 1e-2, .weight_decay = 1e-2});
  expect_training(file, nn::named_parameters(lora), loss, optimizer);
  check(elements(nn::state_dict(model)) == before, "the model's own weights have changed");

  // Merged: the adapters become part of the model's weights, as for a file without adapters.
  NoGradGuard no_grad;
  const Tensor adapted = loss();
  nn::load_state_dict(model, lora.weights(), {.strict = false});
  check(model.loss(tokens, labels).item() == adapted.item(), "merged weights give another loss");
}

int main(int argc, char** argv) {
  check(argc == 2, "usage: lora FILE");
  const auto folder = std::filesystem::path(argv[1]).parent_path().parent_path();
  const SafeTensors file = load_safetensors(argv[1]);
  for (const nn::Recompute recompute : {nn::Recompute::none, nn::Recompute::full})
    run(file, (folder / "gpt/gpt2/model.safetensors").string(), recompute);
  fmt::print("lora: gradients and ten losses are PyTorch's\n");
}

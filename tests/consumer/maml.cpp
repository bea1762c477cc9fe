// MAML (Finn et al. 2017, "Model-Agnostic Meta-Learning for Fast Adaptation of Deep Networks"): a
// network learns weights from which two steps on ten points fit any sine wave. The gradient flows
// through these steps. Compared with PyTorch: maml FILE
#include "numbers.h"

using namespace tern;

constexpr double kRate = 0.01;
constexpr int kSteps = 2;

/// Points (2, n) as x (n, 1) and y (n, 1).
struct Points {
  Tensor x, y;
  explicit Points(const Tensor& xy) : x(unsqueeze(xy[0], 1)), y(unsqueeze(xy[1], 1)) {}
};

/// The weights after kSteps steps on the task's points. Their gradients reach the model's weights.
template <class M>
std::vector<Tensor> adapted(const M& model, const Points& task) {
  std::vector<Tensor> fast = nn::parameters(model);
  for (int step = 0; step < kSteps; ++step) {
    nn::WeightsInstead scope(model, fast);
    const Tensor loss = mse_loss(model(task.x), task.y);
    const std::vector<Tensor> slopes = grad({loss}, fast, {.create_graph = true});
    for (size_t i = 0; i < fast.size(); ++i) fast[i] = fast[i] - kRate * slopes[i];
  }
  return fast;
}

/// The mean loss over tasks: adapted on `support`, evaluated on `query`, both (tasks, 2, n).
template <class M>
Tensor objective(const M& model, const Tensor& support, const Tensor& query) {
  Tensor total = zeros({}, support.dtype());
  for (int64_t task = 0; task < support.size(0); ++task) {
    nn::WeightsInstead scope(model, adapted(model, Points(support[task])));
    const Points judged(query[task]);
    total = total + mse_loss(model(judged.x), judged.y);
  }
  return total / static_cast<double>(support.size(0));
}

int main(int argc, char** argv) {
  check(argc == 2, "usage: maml FILE");
  const SafeTensors file = load_safetensors(argv[1]);
  Rng rng(0);
  nn::Sequential model(nn::Linear(1, 40, rng), nn::Relu(), nn::Linear(40, 40, rng), nn::Relu(),
                       nn::Linear(40, 1, rng));
  nn::to(model, DType::f64);
  nn::load_state_dict(model, part(file, "param."));
  const Tensor support = file.find("support"), query = file.find("query");
  optim::Adam optimizer(nn::named_parameters(model), {.lr = 1e-3});
  expect_training(
      file, nn::named_parameters(model), [&] { return objective(model, support, query); },
      optimizer);
  fmt::print("maml: gradients and ten losses are PyTorch's\n");
}

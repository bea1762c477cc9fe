// Reads numbers from a CSV table, fits a regression, and exchanges arrays with NumPy.
#include <tern/tern.h>

#include <cstdio>

using namespace tern;

int main() {
  Rng rng(2);
  Tensor area = uniform({200, 1}, 20, 200, rng), rooms = uniform({200, 1}, 1, 8, rng);
  datasets::save_csv("houses.csv", cat({area, rooms, 3 * area + 20 * rooms + 5}, 1),
                     {.names = {"area", "rooms", "price"}});

  datasets::Table houses =
      datasets::load_csv("houses.csv", {.columns = {"rooms", "area", "price"}});
  Tensor x = narrow(houses.values, 1, 0, 2), y = narrow(houses.values, 1, 2, 1);
  Tensor center = mean(x, 0, true), spread = stddev(x, 0, 1, true), scale = stddev(y);
  nn::Linear model(2, 1, rng);
  optim::Sgd optimizer(nn::named_parameters(model), {.lr = 0.1});
  for (int step = 0; step < 300; ++step) {
    mse_loss(model((x - center) / spread), y / scale).backward();
    optimizer.step(), optimizer.zero_grad();
  }

  NoGradGuard no_grad;
  Tensor predicted = model((x - center) / spread) * scale;
  datasets::save_npz("houses.npz", {{"x", x}, {"predicted", predicted}});  // numpy.load reads it
  datasets::save_npy("weight.npy", model.weight, {.fortran_order = true});
  NamedTensors back = datasets::load_npz("houses.npz");
  bool same = all(eq(back[1].second, predicted)).item<bool>() &&
              all(eq(datasets::load_npy("weight.npy"), model.weight)).item<bool>();

  // An error names a missing number, unless `missing` gives a value for it.
  std::FILE* file = std::fopen("gaps.csv", "w");
  std::fputs("a,b\n1,2\n3,\n", file), std::fclose(file);
  bool named = false;
  try {
    datasets::load_csv("gaps.csv");
  } catch (const IoError& e) {
    named = std::string(e.what()).find("line 3: column 'b'") != std::string::npos;
  }
  bool filled = datasets::load_csv("gaps.csv", {.missing = -1}).values[1][1].item() == -1;
  double error = max(abs(predicted - y)).item();
  fmt::print("largest error {:.3f}\n", error);
  return same && named && filled && error < 1 ? 0 : 1;
}

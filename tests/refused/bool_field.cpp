// Does not compile, and says why: nn::freeze could not keep a bool in evaluation mode.
#include "tern/nn/module.h"

struct Model {
  bool training = true;
  static void fields(auto& m, auto&& visit) { visit("training", m.training); }
};

int main() { return static_cast<int>(tern::nn::num_parameters(Model())); }

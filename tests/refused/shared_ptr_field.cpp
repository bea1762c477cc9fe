// Does not compile, and says why: copies of the model would silently share the part.
#include <memory>

#include "tern/nn/linear.h"
#include "tern/nn/module.h"

struct Model {
  std::shared_ptr<tern::nn::Linear> part;
  static void fields(auto& m, auto&& visit) { visit("part", m.part); }
};

int main() { return static_cast<int>(tern::nn::num_parameters(Model())); }

// Does not compile, and says why: a walk over fields would miss the members of Derived.
#include <memory>

#include "tern/nn/module.h"

struct Base {
  virtual ~Base() = default;
  static void fields(auto&, auto&&) {}
};

struct Model {
  std::unique_ptr<Base> layer;
  static void fields(auto& m, auto&& visit) { visit("layer", m.layer); }
};

int main() { return static_cast<int>(tern::nn::num_parameters(Model())); }

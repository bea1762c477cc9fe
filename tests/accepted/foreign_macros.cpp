// Compiles: tern after the macros of Qt, X11, Windows and others.
// clang-format off
#include "tern/tests/accepted/foreign_macros.h"

#include "tern/tern.h"
// clang-format on

int main() {
  tern::Rng rng(0);
  return tern::randn({2}, rng).numel() == 2 ? 0 : 1;
}

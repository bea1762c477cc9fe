// train_cifar: trains an image classifier and tests it; see --help.
#include "tern/apps/train_cifar/program.h"

int main(int argc, char** argv) {
  tern::apps::train_cifar::CifarFlags flags;
  return tern::apps::run_program(
      "train_cifar", [&] { return tern::apps::train_cifar::cifar_program(flags, argc, argv); },
      argc, argv);
}

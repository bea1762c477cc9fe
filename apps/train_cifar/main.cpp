// train_cifar: trains an image classifier and tests it; see --help.
#include "tern/apps/train_cifar/program.h"

int main(int argc, char** argv) {
  return tern::apps::run_program("train_cifar", tern::apps::train_cifar::cifar_program, argc, argv);
}

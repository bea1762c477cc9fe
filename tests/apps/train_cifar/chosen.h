// What train_cifar makes of a command line: its flags, and the configuration of the run.
#pragma once

#include "tern/apps/train_cifar/program.h"
#include "tern/tests/apps/parsed_flags.h"

namespace tern::test {

inline apps::train_cifar::CifarFlags parse(const std::vector<std::string>& words) {
  return parsed(apps::train_cifar::cifar_program, "train_cifar", words);
}

/// The configuration that a run with these flags gets. Reads the data.
inline apps::train_cifar::TrainOptions chosen(const std::vector<std::string>& words) {
  apps::train_cifar::CifarProgram program(parse(words));
  program.load(nullptr);
  return program.config;
}

}  // namespace tern::test

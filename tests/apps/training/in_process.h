// Training programs in this process: whole command lines, and trainings step by step.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tern/apps/common/training/train_program.h"
#include "tern/tests/apps/trainings.h"
#include "tern/train/run_folder.h"

namespace tern::test {

/// A folder with the data of small runs. It is the current one while this object lives.
class DataFolder {
 public:
  DataFolder() {
    write_training_data(dir_.path());
    std::filesystem::current_path(dir_.path());
  }
  ~DataFolder() { std::filesystem::current_path(before_); }
  std::string operator/(const std::string& name) const { return dir_ / name; }
  std::string path() const { return dir_.path(); }

 private:
  TempDir dir_;
  std::filesystem::path before_ = std::filesystem::current_path();
};

/// Runs a command line, such as "lm train --text text". Gives the exit code, or throws the error.
int run_line(const std::string& line);

/// The program that `line` describes, before it has loaded anything.
std::unique_ptr<apps::TrainingProgram> program_of(const std::string& line);

/// A training in memory, or in options.folder, which takes its steps one by one.
struct Stepwise {
  explicit Stepwise(const std::string& line, training::LoopOptions options = {.terminal = false})
      : program(program_of(line)) {
    program->load(nullptr);
    loop = &program->make_loop(std::move(options), false);
  }
  /// Takes a step, and closes the epoch if it was its last.
  void step() {
    loop->step();
    if (loop->epoch_trained()) check(loop->close_epoch(), "the epoch was interrupted");
  }

  std::unique_ptr<apps::TrainingProgram> program;
  training::Loop* loop;
};

/// The rows, with bert, and translate by BLEU.
std::vector<Training> all_trainings();

}  // namespace tern::test

// The folder of a run: its files, and the choice of a new one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tern::train {

/// Names of the files. Nothing is made or read by constructing one.
struct RunFolder {
  std::string path;

  std::string checkpoint() const { return file("checkpoint.safetensors"); }
  std::string weights() const { return file("model.safetensors"); }
  std::string best_weights() const { return file("best.safetensors"); }
  /// Those of one epoch, where a run keeps them (LoopOptions::keep): "checkpoint-7.safetensors".
  std::string checkpoint(int64_t epoch) const { return of("checkpoint", epoch); }
  std::string weights(int64_t epoch) const { return of("model", epoch); }
  std::string log() const { return file("log.jsonl"); }
  std::string lock() const { return file("lock"); }  ///< while a run is at work: see run_lock.h
  /// Any other.
  std::string file(const std::string& name) const { return path + "/" + name; }

  /// Whether there is a run in it: a checkpoint, weights, or lines in the log. One that ended
  /// before its first checkpoint is none.
  bool holds_run() const;
  /// Makes the folder, and those above it, if it is not there. WriteError if that cannot be.
  void make() const;

  /// Writes the log anew (whole or not at all), or adds a line to it.
  void write_log(const std::vector<std::string>& lines) const;
  void append_log(const std::string& line) const;

 private:
  std::string of(const std::string& what, int64_t epoch) const {
    return file(what + "-" + std::to_string(epoch) + ".safetensors");
  }
};

/// Makes the first of `path`, `path`-2, `path`-3, ... that does not exist yet.
RunFolder make_new_folder(const std::string& path);

}  // namespace tern::train

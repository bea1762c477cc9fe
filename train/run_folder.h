// The folder of a run: the names of its files, and the choice of a new folder.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tern::training {

/// The names of the files. Making a RunFolder neither creates nor reads any file.
struct RunFolder {
  std::string path;

  std::string checkpoint() const { return file("checkpoint.safetensors"); }
  std::string weights() const { return file("model.safetensors"); }
  std::string best_weights() const { return file("best.safetensors"); }
  /// The files of one epoch, if the run keeps them (LoopOptions::keep): "checkpoint-7.safetensors".
  std::string checkpoint(int64_t epoch) const { return of("checkpoint", epoch); }
  std::string weights(int64_t epoch) const { return of("model", epoch); }
  std::string log() const { return file("log.jsonl"); }
  std::string lock() const { return file("lock"); }  ///< exists during a run: see run_lock.h
  /// Any other file.
  std::string file(const std::string& name) const { return path + "/" + name; }

  /// Whether the folder has a checkpoint, weights, or lines in the log. A run that ended before its
  /// first checkpoint does not count.
  bool holds_run() const;
  /// Makes the folder and its parents if they do not exist. WriteError if that fails.
  void make() const;

  /// Rewrites the log, atomically.
  void write_log(const std::vector<std::string>& lines) const;
  /// Adds a line to the log.
  void append_log(const std::string& line) const;

 private:
  std::string of(const std::string& what, int64_t epoch) const {
    return file(what + "-" + std::to_string(epoch) + ".safetensors");
  }
};

/// Makes the first of `path`, `path`-2, `path`-3, ... that does not exist yet.
RunFolder make_new_folder(const std::string& path);

}  // namespace tern::training

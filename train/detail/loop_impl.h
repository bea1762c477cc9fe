// What a loop is made of, and its parts of a step. Inside of train only.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tern/core/base/rng.h"
#include "tern/train/detail/loop_board.h"
#include "tern/train/detail/loop_state.h"
#include "tern/train/loop.h"

namespace tern::train {

constexpr const char* kLoss = "loss";  ///< the name of its mean

struct Loop::Impl {
  Learner& learner;
  Evaluate evaluate;
  detail::Feed feed;
  LoopOptions options;
  RunFolder folder;
  Checkpoint checkpoint = {};
  LoopState state = {};
  bool resumed = false, timed = false;
  std::shared_ptr<const RunLock> lock = {};          // between resume() and run()
  std::weak_ptr<const RunLock> held = options.lock;  // the program's, or the loop's own
  std::vector<Rng> generators = {};                  // before the step,
  Means means = {};                                  // and these
  std::chrono::steady_clock::time_point last_save = {};
  int64_t saved_step = 0;
  size_t logged_steps = 0;  // records that are in the log
  std::unique_ptr<LoopBoard> board = {};

  int64_t epoch() const { return std::ssize(state.history) + 1; }
  bool in_folder() const { return !folder.path.empty(); }
  void start_epoch();
  size_t take_batches();
  void take_step(size_t count);
  std::string diagnose(size_t count);
  std::optional<Metrics> evaluate_weights();
  std::string what_is_good() const;
  void undo_step();
  void load(const std::string& json);
  void take_lock();
  const RunFolder& folder_to_write() const;
  std::function<void()> still_ours() const;
  void save();
  void save_weights();
  void end_if_no_better();
  void keep_checkpoint();
  bool is_best_of_kept(int64_t epoch) const;
  void drop_kept();
  void put_back_weights();
  bool wants_save() const;
  std::string place() const;
  Metrics metrics(const Metrics& evaluated) const;
};

}  // namespace tern::train

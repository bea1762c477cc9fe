// The separate files of single epochs (LoopOptions::keep), and how a run resumes from one of them.
//
// A run may be killed at any moment: the state lists every kept epoch until its files are removed,
// and run() restores the weights after each resume.
#include <algorithm>
#include <filesystem>

#include "tern/core/io/atomic_file.h"
#include "tern/train/detail/loop_state.h"
#include "tern/train/loop.h"

namespace tern::training {
namespace {

namespace fs = std::filesystem;

bool is_in(const std::vector<int64_t>& epochs, int64_t epoch) {
  return std::find(epochs.begin(), epochs.end(), epoch) != epochs.end();
}

void remove_file(const std::string& path) {
  std::error_code error;
  fs::remove(path, error);
  if (error) throw WriteError(fmt::format("{}: cannot be removed: {}", path, error.message()));
}

// The epochs that the run in the folder kept; none if its latest checkpoint is damaged.
std::vector<int64_t> epochs_kept(const std::string& checkpoint) {
  try {
    return loop_state_from_json(checkpoint_text(load_checkpoint(checkpoint), "loop", checkpoint))
        .kept;
  } catch (const Error&) {
    return {};
  }
}

}  // namespace

void Loop::resume(int64_t epoch) {
  const std::string path = folder_.checkpoint(epoch);
  check_io(in_folder() && there(path),
           "{}: there is no checkpoint of epoch {}; LoopOptions::keep says how many of its last "
           "epochs a run keeps",
           path, epoch);
  load_locked([&] {
    const std::vector<int64_t> kept = epochs_kept(folder_.checkpoint());
    load_state(load_checkpoint(path), path);
    for (int64_t other : kept)  // run() removes their files
      if (!is_in(state_.kept, other)) state_.kept.push_back(other);
    for (int64_t needed : {epoch, best_epoch().epoch})
      check_io(there(folder_.weights(needed)),
               "{}: the weights of epoch {} are needed to resume after epoch {}",
               folder_.weights(needed), needed, epoch);
  });
}

void Loop::keep_checkpoint() {
  if (options_.keep == 0) return;
  const int64_t closed = state_.history.back().epoch;
  if (!is_in(state_.kept, closed)) state_.kept.push_back(closed);
  write_checkpoint(closed);
}

// Whether the epoch is the best one up to any of the last `keep` epochs.
bool Loop::is_best_of_kept(int64_t epoch) const {
  const int64_t closed = std::ssize(state_.history);
  for (int64_t last = std::max<int64_t>(1, closed - options_.keep + 1); last <= closed; ++last)
    if (training::best_epoch({state_.history.begin(), state_.history.begin() + last}, options_.best)
            .epoch == epoch)
      return true;
  return false;
}

void Loop::drop_kept() {
  if (!writes()) return;
  const int64_t closed = std::ssize(state_.history);
  write([&](const RunFolder& here) {
    std::erase_if(state_.kept, [&](int64_t epoch) {
      const bool old = options_.keep > 0 && epoch <= closed - options_.keep;
      if (epoch <= closed && !old) return false;
      remove_file(here.checkpoint(epoch));
      if (old && is_best_of_kept(epoch)) return false;
      remove_file(here.weights(epoch));
      return true;
    });
  });
}

// Restores the weights files: after resume(epoch) they hold the weights of later epochs.
void Loop::put_back_weights() {
  if (state_.history.empty() || !in_folder()) return;
  const int64_t last = state_.history.back().epoch,
                best = training::best_epoch(state_.history, options_.best).epoch;
  const auto put_back = [&](int64_t epoch, const std::string& path) {
    if (is_in(state_.kept, epoch) && fs::exists(folder_.weights(epoch)))
      save_safetensors(path, load_safetensors(folder_.weights(epoch)));
  };
  const auto put_back_all = [&](const RunFolder& here) {
    put_back(options_.only_best ? best : last, here.weights());
    if (!options_.only_best && !options_.best.metric.empty()) put_back(best, here.best_weights());
  };
  on_first("the weights", [&] { write(put_back_all); });
}

}  // namespace tern::training

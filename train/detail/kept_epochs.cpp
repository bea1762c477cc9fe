// The files that a loop keeps of single epochs (LoopOptions::keep), and the way back to one.
//
// A run that is killed at any moment goes on with files that fit: what is kept is in the list of
// the state before it is removed, and run() puts weights back after each resume.
#include <algorithm>
#include <filesystem>

#include "tern/core/io/atomic_file.h"
#include "tern/train/detail/loop_impl.h"

namespace tern::train {
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

// The epochs that the run in the folder kept; none if its checkpoint is what is damaged.
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
  Impl& p = *impl_;
  const std::string path = p.folder.checkpoint(epoch);
  check_io(p.in_folder() && fs::exists(path),
           "{}: there is no checkpoint of epoch {}; a run keeps those of its last epochs, as many "
           "as LoopOptions::keep says",
           path, epoch);
  p.take_lock();
  try {
    const std::vector<int64_t> kept = epochs_kept(p.folder.checkpoint());
    load_state(load_checkpoint(path), path);
    for (int64_t other : kept)  // to be removed by run()
      if (!is_in(p.state.kept, other)) p.state.kept.push_back(other);
    for (int64_t needed : {epoch, best_epoch().epoch})
      check_io(!p.options.save_weights || fs::exists(p.folder.weights(needed)),
               "{}: the weights of epoch {} are needed to go on after epoch {}",
               p.folder.weights(needed), needed, epoch);
  } catch (...) {
    p.lock.reset();
    throw;
  }
}

void Loop::Impl::keep_checkpoint() {
  if (options.keep == 0) return;
  const int64_t closed = state.history.back().epoch;
  if (!is_in(state.kept, closed)) state.kept.push_back(closed);
  save_checkpoint(folder_to_write().checkpoint(closed), checkpoint.state(), still_ours());
}

// Up to one of the last epochs.
bool Loop::Impl::is_best_of_kept(int64_t epoch) const {
  const int64_t closed = std::ssize(state.history);
  for (int64_t last = std::max<int64_t>(1, closed - options.keep + 1); last <= closed; ++last)
    if (train::best_epoch({state.history.begin(), state.history.begin() + last}, options.best)
            .epoch == epoch)
      return true;
  return false;
}

void Loop::Impl::drop_kept() {
  const int64_t closed = std::ssize(state.history);
  std::erase_if(state.kept, [&](int64_t epoch) {
    const bool old = options.keep > 0 && epoch <= closed - options.keep;
    if (epoch <= closed && !old) return false;
    remove_file(folder_to_write().checkpoint(epoch));
    if (old && is_best_of_kept(epoch)) return false;
    remove_file(folder_to_write().weights(epoch));
    return true;
  });
}

// After resume(epoch) the weights in the folder are those of later epochs.
void Loop::Impl::put_back_weights() {
  if (state.history.empty() || !options.save_weights) return;
  const int64_t last = state.history.back().epoch,
                best = train::best_epoch(state.history, options.best).epoch;
  const auto put_back = [&](int64_t epoch, const std::string& path) {
    if (is_in(state.kept, epoch) && fs::exists(folder.weights(epoch)))
      save_safetensors(path, load_safetensors(folder.weights(epoch)), still_ours());
  };
  put_back(options.only_best ? best : last, folder_to_write().weights());
  if (!options.only_best && !options.best.metric.empty())
    put_back(best, folder_to_write().best_weights());
}

}  // namespace tern::train

// Watches the random draws of a loop's first steps, and looks for their generators in a checkpoint.
#include "tern/train/detail/draw_watch.h"

#include <algorithm>
#include <string>
#include <utility>

#include "tern/core/base/draws.h"
#include "tern/train/learner.h"

namespace tern::training {
namespace {

constexpr int64_t kWatched = 10;  // steps

// Whether a checkpoint has this key of a generator, in a list of integers or in a text.
bool has_generator(const SafeTensors& state, uint64_t key) {
  const auto word = static_cast<int64_t>(key);
  for (const auto& [name, t] : state.tensors)
    if (t.dtype() == DType::i64 && std::ranges::count(t.to_vector<int64_t>(), word)) return true;
  return std::ranges::any_of(state.metadata, [&](const auto& entry) {
    return entry.second.find(fmt::format("{}", key)) != std::string::npos ||
           entry.second.find(fmt::format("{}", word)) != std::string::npos;
  });
}

}  // namespace

void DrawWatch::take(const std::function<void()>& step) {
  if (!on_ || steps_ == kWatched) return step();
  tern::detail::DrawLog log;
  {
    const tern::detail::DrawScope scope(log, tern::detail::DrawScope::Mode::record);
    step();
  }
  ++steps_;
  std::map<uint64_t, uint64_t> begins;
  for (const auto& words : log) begins.emplace(words.key, words.first);
  for (const auto& [key, begin] : begins)
    if (begins_.emplace(key, begin).first->second != begin && told_.insert(key).second)
      moved_.push_back(key);
}

void DrawWatch::check_kept(const std::vector<std::vector<Rng>>& known,
                           const Checkpoint* checkpoint) {
  std::vector<uint64_t> keys = std::exchange(moved_, {});
  for (const auto& list : known)
    for (const Rng& rng : list) std::erase(keys, rng.state()[0]);
  if (keys.empty()) return;
  check(checkpoint,
        "Loop: the steps draw random numbers from an Rng that is not the model's, so the numbers "
        "would depend on how many ranks share a step. Make it a member of the model, or make a new "
        "one in each step");
  SafeTensors state;
  try {
    state = checkpoint->state();
  } catch (const Diverged&) {
    return;  // the step that follows says so
  }
  for (const uint64_t key : keys)
    check(has_generator(state, key),
          "Loop: the steps draw random numbers from an Rng that the checkpoint lacks, so a resumed "
          "run would draw other numbers. Before resume() and run(), add it: "
          "loop.checkpoint().add(\"noise\", rng)");
}

}  // namespace tern::training

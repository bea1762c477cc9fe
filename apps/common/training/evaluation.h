// What the evaluations of training programs share: progress, batches shared by ranks, and the check
// of the loss.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tern/data/loading/loader.h"
#include "tern/dist/shared_work.h"
#include "tern/train/interrupt.h"
#include "tern/train/loop.h"
#include "tern/train/progress.h"

namespace tern::apps {

/// Called with the samples done, roughly over all ranks. Returning false stops the evaluation.
using EvaluationProgress = std::function<bool(int64_t done)>;

/// A progress that updates a bar, which has `before` samples already, and stops when a signal has
/// come. REQUIRES: the bar outlives it.
inline EvaluationProgress until_interrupted(training::Progress& bar, int64_t before = 0) {
  return [&bar, before](int64_t done) {
    bar.update(before + done);
    return !training::interrupted();
  };
}

/// score(batch) for each batch of the loader's first epoch, in order. The ranks of `world` share
/// the batches. `size` gives the samples of a batch, which `progress` counts. Empty if `progress`
/// stopped it. `what` is for errors: "the validation".
template <class Batch, class Size, class Score>
std::optional<std::vector<dist::Numbers>> share_batches(dist::World* world, const std::string& what,
                                                        datasets::Loader<Batch>& batches,
                                                        const EvaluationProgress& progress,
                                                        Size size, Score score) {
  int64_t done = 0;
  const auto work = [&](int64_t i) -> std::optional<dist::Numbers> {
    const datasets::LoaderPosition place{.epoch = 0, .batch = i};
    if (batches.position() != place) batches.seek(place);
    const Batch batch = *batches.next();
    dist::Numbers numbers = score(batch);
    done += size(batch) * (world ? world->size() : 1);
    if (progress && !progress(done)) return std::nullopt;
    return numbers;
  };
  return dist::share_numbers(world, what, batches.batches_per_epoch(), work);
}

/// Throws Diverged unless `value`, such as "the validation's loss", is finite. The message shows
/// `shown` instead, if that is given.
void check_measured(const training::Loop& loop, const std::string& what, double value,
                    std::optional<double> shown = {});

}  // namespace tern::apps

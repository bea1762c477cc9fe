// What a run of train_cifar takes, without running it.
#pragma once

#include "tern/apps/train_cifar/options.h"
#include "tern/train/summary.h"

namespace tern::apps::train_cifar {

/// Of its steps on a training set of so many images. Without weights to start from (options.init)
/// the model itself takes no memory either.
Summary summary_of_run(const TrainOptions& options, int64_t images);

}  // namespace tern::apps::train_cifar

// What train_cifar does, on files and terminal.
#pragma once

#include "tern/apps/train_cifar/options.h"

namespace tern::apps::train_cifar {

/// Starts a run in a folder of its own. Gives the program's exit code.
int start_run(TrainOptions options);

/// Prints what the run takes (apps/common/dry_run.h), and does nothing else.
int dry_run(const TrainOptions& options);

/// Goes on with the run in the folder options.resume; of the other options threads, data and epochs
/// count.
int resume_run(const TrainOptions& options);

/// Prints how well the weights in the file options.eval do on the test images.
int evaluate_weights(const TrainOptions& options);

}  // namespace tern::apps::train_cifar

// Includes all of train/: learner, loop, checkpoints, logs, progress, summary.
#pragma once

#include "tern/train/checkpoint.h"
#include "tern/train/diagnose.h"
#include "tern/train/interrupt.h"
#include "tern/train/learner.h"
#include "tern/train/loop.h"
#include "tern/train/metrics.h"
#include "tern/train/optimizer.h"
#include "tern/train/parallel.h"
#include "tern/train/progress.h"
#include "tern/train/rate_finder.h"
#include "tern/train/run_folder.h"
#include "tern/train/run_lock.h"
#include "tern/train/run_log.h"
#include "tern/train/schedule.h"
#include "tern/train/summary.h"
#include "tern/train/tensorboard.h"

// Includes all of tern::optim: optimizers, schedules, clipping, averaged weights.
#pragma once

#include "tern/optim/adafactor.h"
#include "tern/optim/adam.h"
#include "tern/optim/adam_family.h"
#include "tern/optim/clip.h"
#include "tern/optim/ema.h"
#include "tern/optim/lbfgs.h"
#include "tern/optim/lion.h"
#include "tern/optim/lookahead.h"
#include "tern/optim/muon.h"
#include "tern/optim/optimizer.h"
#include "tern/optim/rmsprop.h"
#include "tern/optim/schedule.h"
#include "tern/optim/sgd.h"
#include "tern/optim/shards.h"
#include "tern/optim/training_graph.h"

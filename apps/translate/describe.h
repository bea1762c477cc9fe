// What runs, in words: for the terminal and for the report.
#pragma once

#include <string>

#include "tern/apps/common/launch.h"
#include "tern/apps/translate/training.h"

namespace tern::apps::translate {

/// Model, data, recipe, machine: a heading and a text each.
Facts describe(const TranslationTraining& training, const PairFiles& files);

/// One line on an epoch.
std::string epoch_line(const train::EpochRecord& epoch, int64_t epochs);

}  // namespace tern::apps::translate

// What runs, in words: for the terminal and for the report.
#pragma once

#include <string>

#include "tern/apps/common/launch.h"
#include "tern/apps/lm/training.h"

namespace tern::apps::lm {

/// "gpt, 805,248 weights: 4 layers of 128 channels, ...".
std::string describe_model(const LanguageModel& model);

/// How it is trained, on batches of what: "windows of 128 tokens".
std::string describe_recipe(const TrainConfig& config, const std::string& batches);

/// Model, data, recipe, machine: a heading and a text each.
Facts describe(const LmTraining& training, const Texts& texts, const data::ByteBpe& tokenizer);

/// One line on an epoch.
std::string epoch_line(const train::EpochRecord& epoch, int64_t epochs);

}  // namespace tern::apps::lm

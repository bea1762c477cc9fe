// What runs, in words: for the terminal and for the report.
#pragma once

#include <string>
#include <vector>

#include "tern/apps/train_cifar/trainer.h"

namespace tern::apps {

/// Model, data (read from `data_path`), recipe, machine: a heading and a text each.
Facts describe(const Trainer& trainer, const std::string& data_path);

/// The data of the report, as far as `evaluation` of the trainer's test set and its history go.
ReportData report_data(Trainer& trainer, const Facts& facts, const Evaluation& evaluation,
                       const std::vector<std::string>& class_names);

/// One line on an epoch.
std::string epoch_line(const EpochRecord& epoch, int64_t epochs);

/// "Top-1 accuracy: 0.61" to "Top-5 accuracy: 0.95", a line each.
std::string accuracy_lines(const std::array<double, 5>& top);

}  // namespace tern::apps

// A run in words, for the terminal and for the report.
#pragma once

#include <string>
#include <vector>

#include "tern/apps/common/launch.h"
#include "tern/apps/train_cifar/report.h"
#include "tern/apps/train_cifar/training.h"

namespace tern::apps::train_cifar {

/// "gmlp-small, 101,008 weights: ..."
std::string describe_model(const ImageClassifier& model);

/// "75 training, 25 held-out and 24 test images", and the note.
std::string describe_images(int64_t train, int64_t held, int64_t test, const std::string& note);

/// Model and data (read from `data_path`), a heading and a text for each.
Facts describe(const CifarTraining& training, const std::string& data_path);

/// What the report shows: the training's history so far, and the model as it is.
/// REQUIRES: there is an evaluation.
ReportData report_data(const CifarTraining& training, const Facts& facts,
                       const std::vector<std::string>& class_names, const RunRecord& record = {});

/// What a finished run says: which weights are the result, and their accuracy.
std::vector<std::string> result_lines(const CifarTraining& training);

/// "Top-1 accuracy: 0.6135" to "Top-5 accuracy: 0.9520", a line each of the first `ranks`.
std::string accuracy_lines(const std::array<double, 5>& top, int64_t ranks = 5);

}  // namespace tern::apps::train_cifar

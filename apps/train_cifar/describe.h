// Describes a run in texts, for the terminal and for the report.
#pragma once

#include <string>
#include <vector>

#include "tern/apps/common/training/launch.h"
#include "tern/apps/train_cifar/report.h"
#include "tern/apps/train_cifar/training.h"

namespace tern::apps::train_cifar {

/// "gmlp-small, 101,008 weights: ..."
std::string describe_model(const ImageClassifier& model);

/// "80 training, 20 held-out and 25 test images (one in 5, chosen by the seed)". `note` comes from
/// the data.
std::string images_text(int64_t train, int64_t held_out, int64_t test, const std::string& note);

/// Model and data (read from `data_path`), each as a heading and a text.
Facts describe(const CifarTraining& training, const std::string& data_path);

/// The data of the report: the training's history so far, and the present model. REQUIRES: the
/// training has an evaluation.
ReportData report_data(const CifarTraining& training, const Facts& facts,
                       const std::vector<std::string>& class_names, const RunRecord& record = {});

/// The lines that a finished run prints: the file of weights, and their accuracy.
std::vector<std::string> result_lines(const CifarTraining& training);

/// The first `ranks` of the lines "Top-1 accuracy: 0.6135" to "Top-5 accuracy: 0.9520".
std::string accuracy_lines(const std::array<double, 5>& top, int64_t ranks = 5);

}  // namespace tern::apps::train_cifar

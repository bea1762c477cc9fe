// Classifies pictures, and writes the classes as text, CSV or lines of JSON.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tern/apps/train_cifar/classifier.h"
#include "tern/apps/train_cifar/views.h"
#include "tern/data/images/picture.h"

namespace tern::apps::train_cifar {

/// The predictions for a picture.
struct Guesses {
  std::string file;
  std::string error;  ///< why the file could not be read; empty: no error
  std::vector<std::pair<std::string, float>> classes = {};  ///< the most likely first
};

struct GuessOptions {
  int64_t top = 3;      ///< classes per picture, if there are as many
  bool upright = true;  ///< of files: datasets::DecodeOptions
  Views views = Views::none;
};

/// The most likely classes of pictures. Classes without a name are numbered. Calls read(i) for the
/// picture files[i] on all threads, and classifies them as one batch. An Error of read is the
/// picture's. REQUIRES: `model` is in evaluation mode. Error: a probability is NaN.
std::vector<Guesses> guess(const std::vector<std::string>& files,
                           const std::function<datasets::Picture(size_t)>& read,
                           const ImageClassifier& model,
                           const std::vector<std::string>& class_names,
                           const GuessOptions& options = {});
/// The same for pictures in files.
std::vector<Guesses> guess(const std::vector<std::string>& files, const ImageClassifier& model,
                           const std::vector<std::string>& class_names,
                           const GuessOptions& options = {});

/// The output formats: text, csv, jsonl.
const std::vector<std::string>& guess_formats();
/// The heading of a CSV with that many classes; empty for other formats.
std::string guess_heading(const std::string& format, int64_t classes);
/// A picture's line with its line end; as text "a.png: disc 93.1 %, ring 4.2 %, square 1.0 %".
std::string guess_line(const Guesses& guesses, const std::string& format);

/// The files that --predict names, directly or in its folders (datasets::find_pictures), each once.
/// Adds remarks about files that are not pictures to `remarks`.
std::vector<std::string> pictures_to_guess(const std::vector<std::string>& paths,
                                           std::vector<std::string>& remarks);

}  // namespace tern::apps::train_cifar

// Classifies pictures in files, and writes the classes as text, CSV or lines of JSON.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tern/apps/train_cifar/classifier.h"
#include "tern/apps/train_cifar/views.h"

namespace tern::apps::train_cifar {

/// What a model says of a picture.
struct Guesses {
  std::string file;
  std::string error;  ///< why it cannot be read; empty: it was
  std::vector<std::pair<std::string, float>> classes = {};  ///< the likeliest first
};

struct GuessOptions {
  int64_t top = 3;      ///< classes of a picture, if there are as many
  bool upright = true;  ///< datasets::DecodeOptions
  Views views = Views::none;
};

/// The likeliest classes of pictures, by `model` in evaluation. A class without a name is its
/// number. Files are decoded on all threads and classified as one batch. Error: a probability is
/// not a number.
std::vector<Guesses> guess(const std::vector<std::string>& files, const ImageClassifier& model,
                           const std::vector<std::string>& class_names,
                           const GuessOptions& options = {});

/// The forms of the output: text, csv, jsonl.
const std::vector<std::string>& guess_formats();
/// What stands before the first picture: the heading of a CSV with that many classes, else nothing.
std::string guess_heading(const std::string& format, int64_t classes);
/// A picture's line and its end, in text "a.png: disc 93.1 %, ring 4.2 %, square 1.0 %".
std::string guess_line(const Guesses& guesses, const std::string& format);

/// The files that --predict names: those in its folders (by datasets::find_pictures) and its files,
/// each once. `remarks` gets what the folders have beside pictures.
std::vector<std::string> pictures_to_guess(const std::vector<std::string>& paths,
                                           std::vector<std::string>& remarks);

}  // namespace tern::apps::train_cifar

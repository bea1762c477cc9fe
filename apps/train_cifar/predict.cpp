// Decodes and classifies files of pictures in batches, and formats the predictions.
#include "tern/apps/train_cifar/predict.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "tern/apps/train_cifar/evaluate.h"
#include "tern/core/base/error.h"
#include "tern/core/base/threads.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/data/images/picture_folder.h"

namespace tern::apps::train_cifar {
namespace {

// A CSV field, in quotes if it needs them (RFC 4180).
std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == text.npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

std::string csv_line(const Guesses& g) {
  std::string line = csv_field(g.file);
  for (const auto& [name, probability] : g.classes)
    line += fmt::format(",{},{:.6f}", csv_field(name), probability);
  return line + "\n";
}

std::string json_line(const Guesses& g) {
  nlohmann::ordered_json line = {{"file", g.file}, {"classes", nlohmann::ordered_json::array()}};
  for (const auto& [name, probability] : g.classes)
    line["classes"].push_back(
        {{"class", name}, {"probability", std::round(1e6 * probability) / 1e6}});
  // `replace`: file names may be invalid UTF-8, which JSON does not allow.
  return line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace

std::vector<Guesses> guess(const std::vector<std::string>& files,
                           const std::function<datasets::Picture(size_t)>& read,
                           const ImageClassifier& model, const std::vector<std::string>& names,
                           const GuessOptions& options) {
  NoGradGuard no_grad;
  const PictureForm& form = model.form;
  const auto n = std::ssize(files);
  auto bytes = std::make_shared<std::vector<uint8_t>>(static_cast<size_t>(n * form.numbers()));
  std::vector<Guesses> all;
  for (const std::string& file : files) all.push_back({file, ""});
  parallel_for(n, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) try {
        datasets::write_planes(read(static_cast<size_t>(i)), form,
                               bytes->data() + i * form.numbers());
      } catch (const Error& e) {
        all[static_cast<size_t>(i)].error = e.what();
      }
  });
  std::vector<LabelledPicture> whole;
  for (int64_t i = 0; i < n; ++i)
    if (all[static_cast<size_t>(i)].error.empty())
      whole.push_back({{bytes, bytes->data() + i * form.numbers()}, 0});
  if (whole.empty()) return all;
  const datasets::Dataset<LabelledPicture> set(std::move(whole));
  const Tensor logits = logits_of(model, first_images(set, form, set.size()), options.views);
  const auto p = softmax(logits, -1).to_vector<float>();
  const float* row = p.data();
  for (Guesses& g : all) {
    if (!g.error.empty()) continue;
    check(std::isfinite(row[0]),
          "{}: the probability of a class is {}: the weights are too large, sums overflow", g.file,
          row[0]);
    const std::span probabilities(row, static_cast<size_t>(logits.size(1)));
    for (const size_t c : likeliest(probabilities, static_cast<size_t>(options.top)))
      g.classes.emplace_back(c < names.size() ? names[c] : std::to_string(c), probabilities[c]);
    row += logits.size(1);
  }
  return all;
}

std::vector<Guesses> guess(const std::vector<std::string>& files, const ImageClassifier& model,
                           const std::vector<std::string>& names, const GuessOptions& options) {
  const auto read = [&](size_t i) {
    return datasets::load_picture(files[i], {.upright = options.upright});
  };
  return guess(files, read, model, names, options);
}

const std::vector<std::string>& guess_formats() {
  static const std::vector<std::string> kFormats = {"text", "csv", "jsonl"};
  return kFormats;
}

std::string guess_heading(const std::string& format, int64_t classes) {
  if (format != "csv") return "";
  std::string text = "file";
  for (int64_t k = 1; k <= classes; ++k) text += fmt::format(",class_{0},probability_{0}", k);
  return text + "\n";
}

std::string guess_line(const Guesses& g, const std::string& format) {
  if (format == "csv") return csv_line(g);
  if (format == "jsonl") return json_line(g);
  std::string line = g.file + ":";
  for (size_t k = 0; k < g.classes.size(); ++k)
    line += fmt::format("{} {} {:.1f} %", k == 0 ? "" : ",", g.classes[k].first,
                        100 * g.classes[k].second);
  return line + "\n";
}

std::vector<std::string> pictures_to_guess(const std::vector<std::string>& paths,
                                           std::vector<std::string>& remarks) {
  std::vector<std::string> files;
  std::set<std::string> seen;
  const auto add = [&](const std::string& file) {
    if (seen.insert(file).second) files.push_back(file);
  };
  for (const std::string& path : paths) {
    if (!std::filesystem::is_directory(path)) {
      add(path);
      continue;
    }
    const datasets::FoundPictures found = datasets::find_pictures(path);
    const std::string unused = datasets::unused_text(found.unused);
    if (!unused.empty()) remarks.push_back(path + ": " + unused);
    check_io(!found.paths.empty(), "--predict {}: the folder holds no .png, .jpg or .jpeg file{}",
             path, unused.empty() ? "" : "; " + unused);
    for (const std::string& file : found.paths) add(file);
  }
  return files;
}

}  // namespace tern::apps::train_cifar

// Tells by their names and contents which folders are the training set, the test set or classes.
#include "tern/data/images/detail/picture_splits.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "tern/core/base/error.h"
#include "tern/data/images/picture_folder.h"
#include "tern/data/loading/hidden.h"

namespace tern::datasets {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

enum class Part { none, train, test, validation };

Part part_of_word(const std::string& word) {
  const auto is = [&](std::initializer_list<const char*> words) {
    return std::find(words.begin(), words.end(), word) != words.end();
  };
  if (is({"train", "training", "trainset"})) return Part::train;
  if (is({"test", "testing", "testset"})) return Part::test;
  if (is({"val", "valid", "validation", "valset", "dev", "eval"})) return Part::validation;
  return Part::none;
}

// The letters of a name in lower case, cut into words.
Names words_of(const std::string& name) {
  Names words(1);
  for (const char c : name) {
    const bool upper = c >= 'A' && c <= 'Z', lower = c >= 'a' && c <= 'z';
    if (upper || lower)
      words.back() += upper ? static_cast<char>(c - 'A' + 'a') : c;
    else if (!words.back().empty())
      words.emplace_back();
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

// A folder that may be a part or a class.
struct Folder {
  std::string name, path;
  Names folders = {};     // names of folders in it, without hidden ones
  bool pictures = false;  // whether pictures are directly in it
  Part part = Part::none;
  bool whole_word = false;  // whether its name is one word

  bool holds_classes() const { return !folders.empty() && !pictures; }
};

bool has_pictures(const std::string& path) {
  std::error_code error;
  for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error))
    if (std::error_code no; is_picture_file(it->path().string()) &&
                            !is_hidden(it->path().filename().string()) && it->is_regular_file(no))
      return true;
  return false;
}

Folder look_at(const std::string& parent, const std::string& name) {
  Folder f{name, parent + "/" + name};
  f.folders = detail::folders_in(f.path);
  f.pictures = has_pictures(f.path);
  const Names words = words_of(name);
  for (const std::string& word : words)
    if (f.part == Part::none) f.part = part_of_word(word);
  f.whole_word = words.size() == 1;
  return f;
}

// The folder with the classes. Some archives hold seg_train/seg_train/CLASS.
std::string inner(const Folder& f) {
  if (f.folders.size() == 1 && f.folders[0] == f.name && !f.pictures) return f.path + "/" + f.name;
  return f.path;
}

// The folder of a part; nullptr if there is none. Names of one word come before longer ones, which
// must hold folders: "bullet train" is a class.
const Folder* find_part(const std::string& path, const std::vector<Folder>& all, Part part) {
  for (const bool whole : {true, false}) {
    const Folder* found = nullptr;
    for (const Folder& f : all) {
      if (f.part != part || f.whole_word != whole || (!whole && !f.holds_classes())) continue;
      check_io(!found, "{}: its folders {} and {} could both be the {} pictures; rename one", path,
               found ? found->name : "", f.name, part == Part::train ? "training" : "test");
      found = &f;
    }
    if (found) return found;
  }
  return nullptr;
}

[[noreturn]] void fail_odd_part(const std::string& path, const Folder& part,
                                const std::vector<Folder>& all) {
  Names names;
  for (const Folder& f : all)
    if (&f != &part) names.push_back(f.name);
  fail_io(fmt::format(
      "{}: {} holds folders ({}), like one part of a data set, but beside it there are {}. Name "
      "the parts of the data set train and test, or give one part: {}",
      path, part.name, fmt::join(part.folders, ", "), fmt::join(names, ", "), part.path));
}

// Folders that all hold folders of the same names are parts of a set, not classes.
void check_classes(const std::string& path, const std::vector<Folder>& all) {
  const auto alike = [&](const Folder& f) {
    return f.holds_classes() && f.folders.size() > 1 && f.folders == all[0].folders;
  };
  if (all.size() < 2 || !std::all_of(all.begin(), all.end(), alike)) return;
  Names names;
  for (const Folder& f : all) names.push_back(f.name);
  fail_io(fmt::format(
      "{}: its folders ({}) hold folders of the same names ({}), like the parts of a data set. "
      "Name them train and test; if they are classes, move their pictures out of the inner folders",
      path, fmt::join(names, ", "), fmt::join(all[0].folders, ", ")));
}

}  // namespace

detail::PictureSplits detail::find_splits(const std::string& path) {
  std::vector<Folder> all;
  UnusedFiles beside;
  for (const std::string& name : folders_in(path, &beside)) all.push_back(look_at(path, name));
  const Folder* train = find_part(path, all, Part::train);
  const Folder* test = find_part(path, all, Part::test);
  if (!test) test = find_part(path, all, Part::validation);
  const auto holds = [](const Folder* f) { return f && f->holds_classes(); };
  const auto known = [&](const Folder& f) {
    return &f == train || &f == test ||
           (f.part == Part::validation && (f.whole_word || f.holds_classes()));
  };
  const bool only_parts = std::all_of(all.begin(), all.end(), known);
  if (!(train && test) && !(only_parts && (holds(train) || holds(test)))) {
    for (const Folder* part : {train, test})
      if (holds(part) && part->folders.size() > 1) fail_odd_part(path, *part, all);
    check_classes(path, all);
    return {path, "", {}, {}};
  }
  PictureSplits splits{train ? inner(*train) : "", test ? inner(*test) : "", {}, beside};
  for (const Folder& f : all)
    if (&f != train && &f != test) splits.left_out.push_back(f.path);
  return splits;
}

void detail::refuse_damaged(const IoError& error) {
  fail_io(
      fmt::format("{}; --skip-damaged leaves such pictures out, in C++ "
                  "FolderReading::skip_damaged",
                  error.what()));
}

}  // namespace tern::datasets

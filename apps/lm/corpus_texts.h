// The texts of a training: files that may be larger than memory, read in pieces.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tern/apps/lm/config.h"

namespace tern::apps::lm {

/// A text in memory, or a part of a file's text.
class TextPart {
 public:
  TextPart(std::string text);  // NOLINT: a conversion
  /// Bytes [begin, end) of the text of a file; both are at the beginning of a character.
  TextPart(std::string path, int64_t begin, int64_t end);

  int64_t size() const { return end_ - begin_; }
  std::string name() const { return text_ ? "the text" : path_; }
  /// Calls visit(piece) with the text in order, about 1 MiB of whole characters at a time. IoError:
  /// as data::read_text, or the file is shorter than it was.
  void read(const std::function<void(std::string_view)>& visit) const;
  std::string whole() const;

 private:
  std::shared_ptr<const std::string> text_;  // or
  std::string path_;
  int64_t begin_ = 0, end_ = 0;
};

/// What is known of a file of text: it tells later whether it is still the same file.
struct TextFile {
  std::string path;
  int64_t bytes = 0;     ///< of the text, unpacked
  int64_t train = 0;     ///< of them are for training, the rest for validation
  uint32_t crc = 0;      ///< CRC-32 of the text
  int64_t on_disk = 0;   ///< bytes of the file
  int64_t modified = 0;  ///< nanoseconds since 1970
};

/// Texts, before anything is learned from them.
struct Texts {
  std::vector<TextPart> train, valid;
  std::vector<TextFile> files = {};  ///< that they stand in
};

/// "a.txt, b.txt.gz".
std::string text_names(const TrainConfig& config);

/// The files that --text and --valid name, in this order. A folder stands for the files in it and
/// its folders whose names end in .txt or .gz, in the order of their names.
std::vector<std::string> text_paths(const TrainConfig& config);

/// Looks through the files of the configuration, or generates stories. Without files for validation
/// holds out the last share (hold_out) of each text; cuts after the end of a line where one is
/// near. Takes no memory that grows with the files. IoError: as data::read_text.
Texts read_texts(const TrainConfig& config);

/// IoError unless the files of the configuration are those of `files`, unchanged. Compares sizes
/// and times, and the text of a file that has another time.
void check_unchanged(const TrainConfig& config, const std::vector<TextFile>& files);

/// Whole files as text.
std::vector<std::string> read_files(const std::vector<std::string>& paths);
std::vector<std::string> whole_texts(const std::vector<TextPart>& parts);
/// The texts, or of more than 64 MiB so much, in pieces from all over them.
std::vector<std::string> texts_to_learn_from(const std::vector<TextPart>& parts);

}  // namespace tern::apps::lm

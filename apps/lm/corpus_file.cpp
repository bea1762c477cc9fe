// Encodes texts to a file of ids in pieces, opens that file when a run resumes, and decodes it line
// by line.
#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "tern/apps/common/process/standard_streams.h"
#include "tern/apps/lm/corpus.h"
#include "tern/apps/lm/document_marks.h"
#include "tern/core/base/error.h"
#include "tern/core/io/json_value.h"
#include "tern/data/text/unicode/unicode.h"
#include "tern/train/progress.h"

namespace tern::apps::lm {
namespace {

using nlohmann::json;
using Sink = std::function<void(std::span<const int64_t>)>;

constexpr int64_t kLongestWord = 4 << 20;  // bytes

/// Encodes texts that arrive in pieces. It passes the ids to sink(); `ids` of the result stays
/// empty.
class PieceEncoder {
 public:
  PieceEncoder(const datasets::LanguageTokenizer& tokenizer, const std::string& mark, Sink sink)
      : tokenizer_(tokenizer),
        sink_(std::move(sink)),
        end_(tokenizer.boundary()),
        marks_(
            mark, [this](std::string_view text) { add_text(text); },
            [this](int64_t bytes) { end_document(bytes); }) {}
  PieceEncoder(const PieceEncoder&) = delete;
  PieceEncoder& operator=(const PieceEncoder&) = delete;

  void add(std::string_view piece) { marks_.add(piece); }
  /// Bytes whose ids depend on more text.
  int64_t waiting() const { return std::ssize(rest_); }
  void end_text() {
    marks_.finish();
    end_words();
    mark_ = 0;  // begin_text() adds the token for the next text
    if (std::exchange(begun_, false)) encoded_.ends.push_back(size_);
  }
  const EncodedTexts& encoded() const { return encoded_; }

 private:
  void add_text(std::string_view piece) {
    encoded_.bytes += std::ssize(piece);
    if (rest_.empty()) {
      rest_ = piece.substr(tokenizer_.encode_beginning(piece, ids_));
    } else {
      rest_ += piece;
      rest_.erase(0, tokenizer_.encode_beginning(rest_, ids_));
    }
    pass_on();
  }
  void end_words() {
    ids_ = tokenizer_.encode(rest_);
    rest_.clear();
    pass_on();
  }
  /// Called at a mark of `bytes` bytes. begin_document() adds its token if another document
  /// follows.
  void end_document(int64_t bytes) {
    end_words();
    if (begun_) mark_ += bytes;
  }
  void pass_on() {
    if (ids_.empty()) return;
    if (!std::exchange(begun_, true))
      begin_text();
    else if (mark_ > 0)
      begin_document();
    encoded_.tokens += std::ssize(ids_);
    size_ += std::ssize(ids_);
    sink_(ids_);
    ids_.clear();
  }
  void begin_document() {
    ++encoded_.documents;
    ++encoded_.marks;
    const int64_t bytes = std::exchange(mark_, 0);
    if (!end_) return;
    encoded_.bytes += bytes;
    ++encoded_.tokens;
    ++size_;
    sink_(std::span(&*end_, 1));
  }
  /// Puts the boundary in front. Without that token, the first token is not predicted, so it does
  /// not count.
  void begin_text() {
    ++encoded_.documents;
    if (end_) {
      ++size_;
      return sink_(std::span(&*end_, 1));
    }
    encoded_.bytes -= std::ssize(tokenizer_.decode(std::span(ids_).first(1)));
    --encoded_.tokens;
  }

  const datasets::LanguageTokenizer& tokenizer_;
  Sink sink_;
  std::optional<int64_t> end_;
  std::string rest_;  // the end of the text so far, whose ids depend on the text that follows
  std::vector<int64_t> ids_;
  bool begun_ = false;
  int64_t size_ = 0;
  int64_t mark_ = 0;  // bytes of the marks since the last document
  EncodedTexts encoded_;
  MarkFinder marks_;
};

EncodedTexts encode_parts(const std::vector<TextPart>& parts,
                          const datasets::LanguageTokenizer& tokenizer, const std::string& mark,
                          const Sink& sink, const std::function<void(int64_t)>& progress) {
  PieceEncoder encoder(tokenizer, mark, sink);
  for (const TextPart& part : parts) {
    part.read([&](std::string_view piece) {
      encoder.add(piece);
      check_io(encoder.waiting() <= kLongestWord, "{}: a word of more than {} bytes; is this text?",
               part.name(), kLongestWord);
      progress(std::ssize(piece));
    });
    encoder.end_text();
  }
  return encoder.encoded();
}

/// A checksum that distinguishes tokenizers.
int64_t crc_of(const datasets::LanguageTokenizer& tokenizer) {
  uLong crc = 0;
  for (int64_t id = 0; id < tokenizer.size(); ++id) {
    const std::string token = tokenizer.has(id) ? tokenizer.decode(std::span(&id, 1)) : "";
    crc = crc32_z(crc, reinterpret_cast<const Bytef*>(token.c_str()), token.size() + 1);
  }
  return static_cast<int64_t>(crc);
}

json notes_of(const EncodedTexts& texts) {
  return {{"ends", texts.ends},
          {"bytes", texts.bytes},
          {"tokens", texts.tokens},
          {"documents", texts.documents},
          {"marks", texts.marks}};
}

std::string notes_of(const Corpus& corpus, const Texts& texts) {
  json files = json::array();
  for (const TextFile& f : texts.files)
    files.push_back({{"path", datasets::replace_invalid_utf8(f.path)},
                     {"bytes", f.bytes},
                     {"train", f.train},
                     {"crc", f.crc},
                     {"on_disk", f.on_disk},
                     {"modified", f.modified}});
  const json notes = {{"tokenizer", crc_of(corpus.tokenizer)},
                      {"checksum", corpus.checksum},
                      {"train", notes_of(corpus.train)},
                      {"valid", notes_of(corpus.valid)},
                      {"files", files}};
  return notes.dump();
}

EncodedTexts encoded_by(const JsonValue& notes) {
  EncodedTexts texts;
  texts.ends = notes.at("ends").integers();
  texts.bytes = notes.at("bytes").integer();
  texts.tokens = notes.at("tokens").integer();
  if (notes.has("documents")) {  // older files lack them
    texts.documents = notes.at("documents").integer();
    texts.marks = notes.at("marks").integer();
  }
  int64_t before = 0;
  for (int64_t end : texts.ends) {
    check(end > before, "a text ends at {}, but the next one ends at {}", before, end);
    before = end;
  }
  check(texts.bytes >= 0 && texts.tokens >= 0 && texts.tokens <= before,
        "there are {} tokens in {} ids", texts.tokens, before);
  return texts;
}

std::vector<TextFile> files_by(const JsonValue& notes) {
  std::vector<TextFile> files;
  for (const JsonValue& f : notes.at("files").elements())
    files.push_back({.path = f.at("path").text(),
                     .bytes = f.at("bytes").integer(),
                     .train = f.at("train").integer(),
                     .crc = static_cast<uint32_t>(f.at("crc").integer()),
                     .on_disk = f.at("on_disk").integer(),
                     .modified = f.at("modified").integer()});
  return files;
}

/// Makes the training and the validation ids parts of the file.
void set_streams(Corpus& corpus) {
  const int64_t size = corpus.train.ends.empty() ? 0 : corpus.train.ends.back();
  const int64_t valid = corpus.valid.ends.empty() ? 0 : corpus.valid.ends.back();
  check(size <= corpus.file.size() && valid == corpus.file.size() - size,
        "there are {} ids, but the texts have {} and {}", corpus.file.size(), size, valid);
  corpus.train.ids = corpus.file.part(0, size);
  corpus.valid.ids = corpus.file.part(size, corpus.file.size());
  corpus.bytes_per_token = static_cast<double>(corpus.train.bytes) /
                           static_cast<double>(std::max<int64_t>(corpus.train.tokens, 1));
}

}  // namespace

EncodedTexts encode_texts(const std::vector<std::string>& texts,
                          const datasets::LanguageTokenizer& tokenizer, const std::string& mark) {
  std::vector<int64_t> ids;
  PieceEncoder encoder(tokenizer, mark, [&](std::span<const int64_t> more) {
    ids.insert(ids.end(), more.begin(), more.end());
  });
  for (const std::string& text : texts) {
    encoder.add(text);
    encoder.end_text();
  }
  EncodedTexts encoded = encoder.encoded();
  encoded.ids = datasets::TokenStream(std::move(ids));
  return encoded;
}

void for_each_line(const EncodedTexts& texts, const datasets::LanguageTokenizer& tokenizer,
                   const std::function<void(const std::string&)>& visit) {
  constexpr size_t kShown = 64 << 10;
  constexpr int64_t kAtOnce = 1 << 16;
  const std::optional<int64_t> mark = tokenizer.boundary();
  std::string line;
  auto end_line = [&] {
    if (line.ends_with('\r')) line.pop_back();
    visit(line);
    line.clear();
  };
  auto add = [&](std::span<const int64_t> ids) {
    for (char c : tokenizer.decode(ids))
      if (c == '\n')
        end_line();
      else if (line.size() < kShown)
        line += c;
  };
  int64_t at = 0;
  for (int64_t end : texts.ends) {
    for (at += mark.has_value(); at < end;) {
      const std::vector<int64_t> ids = texts.ids.read(at, std::min(kAtOnce, end - at));
      at += std::ssize(ids);
      std::span<const int64_t> rest = ids;
      while (mark) {  // ends documents
        const auto found =
            static_cast<size_t>(std::find(rest.begin(), rest.end(), *mark) - rest.begin());
        if (found == rest.size()) break;
        add(rest.first(found));
        if (!line.empty()) end_line();
        rest = rest.subspan(found + 1);
      }
      add(rest);
    }
    if (!line.empty()) end_line();
  }
}

Corpus encode_corpus(const Texts& texts, const datasets::LanguageTokenizer& tokenizer,
                     const std::string& folder) {
  int64_t all = 0, done = 0;
  for (const std::vector<TextPart>* parts : {&texts.train, &texts.valid})
    for (const TextPart& part : *parts) all += part.size();
  constexpr int64_t kUnit = 1'000'000;
  training::Progress bar("tokenizing", "MB", all / kUnit, 0, log_stream());
  datasets::TokenWriter writer(folder, tokenizer.size());
  uLong crc = 0;
  auto encode = [&](const std::vector<TextPart>& parts) {
    return encode_parts(
        parts, tokenizer, texts.mark,
        [&](std::span<const int64_t> ids) {
          writer.add(ids);
          crc = crc32_z(crc, reinterpret_cast<const Bytef*>(ids.data()), ids.size_bytes());
        },
        [&](int64_t bytes) { bar.update((done += bytes) / kUnit); });
  };
  Corpus corpus;
  corpus.tokenizer = tokenizer;
  corpus.train = encode(texts.train);
  corpus.valid = encode(texts.valid);
  corpus.checksum = fmt::format("{} + {} tokens, {:08x}",
                                corpus.train.ends.empty() ? 0 : corpus.train.ends.back(),
                                corpus.valid.tokens, crc);
  corpus.file = writer.finish(notes_of(corpus, texts));
  set_streams(corpus);
  return corpus;
}

std::optional<Corpus> open_corpus(const TrainConfig& c, const std::string& path,
                                  const datasets::LanguageTokenizer& tokenizer) {
  if (!std::filesystem::exists(path)) return std::nullopt;
  Corpus corpus;
  corpus.tokenizer = tokenizer;
  std::vector<TextFile> files;
  int64_t learned = 0;
  try {
    corpus.file = datasets::TokenStream::open(path);
    const JsonDocument document(corpus.file.notes());
    const JsonValue notes = document.root();
    corpus.train = encoded_by(notes.at("train"));
    corpus.valid = encoded_by(notes.at("valid"));
    corpus.checksum = notes.at("checksum").text();
    files = files_by(notes);
    learned = notes.at("tokenizer").integer();
    set_streams(corpus);
  } catch (const IoError& e) {
    fail_io(fmt::format("{}; remove it, and the program will make it again", e.what()));
  } catch (const Error& e) {
    fail_io(fmt::format("{}: {}; remove it, and the program will make it again", path, e.what()));
  }
  check_io(learned == crc_of(tokenizer) && corpus.file.vocabulary() == tokenizer.size(),
           "{}: is of a different tokenizer from vocab.json; remove it, and the program will make "
           "it again",
           path);
  check_unchanged(c, files);
  return corpus;
}

}  // namespace tern::apps::lm

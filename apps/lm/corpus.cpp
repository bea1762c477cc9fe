// Finds, measures and divides text files, checks that they have not changed, and learns tokenizers.
// corpus_file.cpp encodes them.
#include "tern/apps/lm/corpus.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "tern/apps/lm/document_marks.h"
#include "tern/apps/lm/folder.h"
#include "tern/apps/lm/grammar.h"
#include "tern/core/base/ceil_div.h"
#include "tern/core/base/error.h"
#include "tern/core/base/system.h"
#include "tern/data/loading/hidden.h"
#include "tern/data/text/lines/lines.h"
#include "tern/data/text/lines/text_reader.h"
#include "tern/data/text/unicode/unicode.h"
#include "tern/train/progress.h"

namespace tern::apps::lm {
namespace {

constexpr int64_t kDemoTrain = 600'000, kDemoValid = 30'000;  // bytes
constexpr int64_t kMostLearned = 64 << 20;

/// The files of a folder: texts, and the number of other files by ending.
struct FolderFiles {
  std::vector<std::string> texts;
  std::map<std::string, int64_t> others;
};

/// The ending in lower case: ".tar.gz", ".txt", or "" if there is none.
std::string ending_of(const std::string& name) {
  std::string small = datasets::lower_letters(name);
  if (small.ends_with(".tar.gz")) return ".tar.gz";
  const size_t dot = small.rfind('.');
  return dot == small.npos ? "" : small.substr(dot);
}

/// Lists a folder. Skips the files `named`, which the flags name directly.
FolderFiles files_of(const std::string& folder, const std::vector<std::string>& named = {}) {
  FolderFiles found;
  std::error_code error;
  std::filesystem::recursive_directory_iterator at(folder, error);
  for (const std::filesystem::recursive_directory_iterator end; !error && at != end;
       at.increment(error)) {
    std::error_code no_file;
    const std::string name = at->path().filename().string();
    const bool is_file = at->is_regular_file(no_file);
    if (datasets::is_hidden(name)) {
      if (is_file)
        ++found.others["hidden"];
      else
        at.disable_recursion_pending();
    } else if (is_file && !is_one_of(named, at->path().string())) {
      const std::string ending = ending_of(name);
      if (ending == ".txt" || ending == ".gz")
        found.texts.push_back(at->path().string());
      else
        ++found.others[ending.empty() ? "without an ending" : ending];
    }
  }
  check_io(!error, "{}: cannot be read: {}", folder, error.message());
  std::sort(found.texts.begin(), found.texts.end());
  return found;
}

/// "2 .md, 1 without an ending", the most frequent ones first.
std::string others_text(const FolderFiles& files) {
  constexpr size_t kMost = 8;
  std::vector<std::pair<int64_t, std::string>> counts;
  for (const auto& [ending, count] : files.others) counts.emplace_back(-count, ending);
  std::sort(counts.begin(), counts.end());
  std::vector<std::string> words;
  for (size_t i = 0; i < std::min(kMost, counts.size()); ++i)
    words.push_back(fmt::format("{} {}", training::grouped(-counts[i].first),
                                datasets::one_line(counts[i].second)));
  if (counts.size() > kMost) words.emplace_back("others");
  return fmt::format("{}", fmt::join(words, ", "));
}

bool is_folder(const std::string& name) {
  std::error_code error;
  return std::filesystem::is_directory(name, error);
}

/// The same for all names of a file.
std::string real_path(const std::string& path) {
  std::error_code error;
  const std::filesystem::path found = std::filesystem::weakly_canonical(path, error);
  return error ? path : found.string();
}

/// The files that a flag names, or that are in its folders. Leaves the files `elsewhere` out of
/// folders.
std::vector<std::string> paths_of(const std::vector<std::string>& names,
                                  const std::vector<std::string>& elsewhere = {}) {
  std::set<std::string> left_out;
  for (const std::string& path : elsewhere) left_out.insert(real_path(path));
  std::vector<std::string> paths;
  for (const std::string& name : names) {
    if (!is_folder(name)) {
      paths.push_back(name);
      continue;
    }
    FolderFiles files = files_of(name);
    check_io(!files.texts.empty(), "{}: there is no .txt or .gz file in this folder{}", name,
             files.others.empty()
                 ? ""
                 : fmt::format(", only {}; --text takes files of any name: --text {}/*",
                               others_text(files), name));
    std::erase_if(files.texts,
                  [&](const std::string& path) { return left_out.contains(real_path(path)); });
    check_io(!files.texts.empty(), "{}: --valid takes all texts of this folder", name);
    paths.insert(paths.end(), files.texts.begin(), files.texts.end());
  }
  return paths;
}

std::vector<std::string> trained_paths(const TrainConfig& c) {
  return paths_of(c.text, paths_of(c.valid));
}

/// Sets size and time of the file; the numbers about its text stay.
void look_at(TextFile& file) {
  struct stat info {};
  check_io(::stat(file.path.c_str(), &info) == 0, "{}: cannot be opened: {}", file.path,
           std::strerror(errno));
  file.on_disk = info.st_size;
  file.modified = tern::detail::modified(info);
}

/// Measures a file by reading it once from front to back.
TextFile measured(const std::string& path) {
  TextFile file{.path = path};
  look_at(file);  // before reading, so that a later change is noticed
  datasets::TextReader reader(path);
  uLong crc = 0;
  for (std::string piece; reader.read(piece); piece.clear())
    crc = crc32_z(crc, reinterpret_cast<const Bytef*>(piece.data()), piece.size());
  file.bytes = file.train = reader.position();
  file.crc = static_cast<uint32_t>(crc);
  return file;
}

/// The place after a line end at text[at]; `at` if there is none.
size_t behind_line_end(std::string_view text, size_t at) {
  const std::string_view rest = text.substr(at);
  return at + (rest.starts_with("\r\n") ? 2 : rest.starts_with('\n') || rest.starts_with('\r'));
}

/// The place where a text is cut, between documents or inside one.
struct Cut {
  int64_t at;
  bool in_document = true;
};

/// Cuts a text so that about `share` of it follows. Searches the tenth before that place and cuts
/// after its last mark, else after its last line end, else at that place, between two characters.
Cut cut_place(const std::string& path, int64_t bytes, double share, const std::string& mark) {
  const auto at = static_cast<int64_t>(static_cast<double>(bytes) * (1 - share));
  datasets::TextReader reader(path);
  reader.skip(at - at / 10);
  int64_t line = -1, document = -1;  // where the last line and the last document end
  for (std::string piece; reader.read(piece); piece.clear()) {
    const int64_t begin = reader.position() - std::ssize(piece);
    const int64_t before = std::max<int64_t>(0, at - begin);  // bytes of the piece before `at`
    const std::string_view head = std::string_view(piece).substr(0, before + 1);
    if (at >= begin) {
      const size_t end = head.find_last_of("\r\n"),
                   last = mark.empty() ? mark.npos : head.rfind(mark);
      if (end != head.npos) line = begin + static_cast<int64_t>(behind_line_end(piece, end));
      if (last != head.npos)
        document = begin + static_cast<int64_t>(behind_line_end(piece, last + mark.size()));
    }
    if (reader.position() <= at) continue;
    if (document >= 0) return {document, false};
    auto place = piece.begin() + before;
    while (place != piece.end() && (*place & 0xC0) == 0x80) ++place;
    return {line >= 0 ? line : begin + (place - piece.begin())};
  }
  if (document >= 0) return {document, false};
  return {line >= 0 ? line : bytes};
}

template <class T>
uLong add_values(uLong crc, const std::vector<T>& values) {
  if (values.empty()) return crc;  // for a null pointer, zlib would return the initial value
  return crc32_z(crc, reinterpret_cast<const Bytef*>(values.data()), values.size() * sizeof(T));
}

uLong add_documents(uLong crc, const datasets::Documents& d) {
  return add_values(add_values(add_values(crc, d.tokens), d.sentence_ends), d.document_ends);
}

void check_pairs(const char* what, const datasets::Documents& d) {
  check(has_pairs(d),
        "{}: none of {} documents (separated by blank lines) has two lines, so there are no pairs "
        "of sentences; --no-pairs trains without them",
        what, d.size());
}

}  // namespace

TextPart::TextPart(std::string text)
    : text_(std::make_shared<const std::string>(std::move(text))), end_(std::ssize(*text_)) {}

TextPart::TextPart(std::string path, int64_t begin, int64_t end)
    : path_(std::move(path)), begin_(begin), end_(end) {}

void TextPart::read(const std::function<void(std::string_view)>& visit) const {
  if (text_) return visit(std::string_view(*text_).substr(begin_, size()));
  if (size() == 0) return;
  datasets::TextReader reader(path_);
  reader.skip(begin_);
  for (std::string piece; reader.position() < end_; piece.clear()) {
    const int64_t begin = reader.position();
    check_io(reader.read(piece), "{}: the file has become {} bytes shorter", path_, end_ - begin);
    visit(std::string_view(piece).substr(0, end_ - begin));
  }
}

std::string TextPart::whole() const {
  std::string text;
  read([&](std::string_view piece) { text += piece; });
  return text;
}

std::string text_names(const TrainConfig& c) {
  return is_demo(c) ? "generated stories" : fmt::format("{}", fmt::join(c.text, ", "));
}

std::vector<std::string> text_paths(const TrainConfig& c) {
  std::vector<std::string> paths = trained_paths(c);
  const std::vector<std::string> valid = paths_of(c.valid);
  paths.insert(paths.end(), valid.begin(), valid.end());
  return paths;
}

void check_named_once(const TrainConfig& c) {
  const auto check_paths = [](const char* flag, const std::vector<std::string>& paths) {
    std::map<std::string, std::string> named;  // key: real_path
    for (const std::string& path : paths) {
      const auto [at, first] = named.emplace(real_path(path), path);
      check(first, "{} names {} twice{}; once is enough", flag, path,
            at->second == path ? "" : ", also as " + at->second);
    }
  };
  check_paths("--text", trained_paths(c));
  check_paths("--valid", paths_of(c.valid));
}

std::vector<std::string> remarks_on_files(const TrainConfig& c) {
  std::vector<std::string> out;
  std::set<std::string> trained;
  for (const std::string& path : trained_paths(c)) trained.insert(real_path(path));
  for (const std::string& path : paths_of(c.valid))
    if (trained.contains(real_path(path)))
      out.push_back(path + ": trains and validates, so no score is that of a new text");
  for (const std::vector<std::string>* names : {&c.text, &c.valid})
    for (const std::string& name : *names) {
      if (!is_folder(name)) continue;
      const FolderFiles files = files_of(name, *names);
      int64_t count = 0;
      for (const auto& [ending, n] : files.others) count += n;
      if (count > 0)
        out.push_back(
            fmt::format("{}: {} of {} files are not used: {}; --text takes files of any "
                        "name",
                        name, training::grouped(count),
                        training::grouped(count + std::ssize(files.texts)), others_text(files)));
    }
  return out;
}

Texts read_texts(const TrainConfig& c) {
  const bool bert = c.model.model == kBert;
  if (is_demo(c))
    return {{generate_stories(kDemoTrain, c.seed, bert)},
            {generate_stories(kDemoValid, c.seed + 1, bert)}};
  const auto trained = trained_paths(c).size();
  Texts texts;
  texts.mark = c.documents;
  for (const std::string& path : text_paths(c)) {
    TextFile file = measured(path);
    if (texts.files.size() >= trained) file.train = 0;
    if (texts.files.size() < trained && c.valid.empty() && c.hold_out > 0) {
      const Cut cut = cut_place(path, file.bytes, c.hold_out, c.documents);
      file.train = cut.at;
      texts.cut_documents += cut.in_document && cut.at > 0 && cut.at < file.bytes;
    }
    if (texts.files.size() < trained) texts.train.emplace_back(path, 0, file.train);
    if (file.train < file.bytes) texts.valid.emplace_back(path, file.train, file.bytes);
    texts.files.push_back(std::move(file));
  }
  return texts;
}

void check_unchanged(const TrainConfig& c, const std::vector<TextFile>& files) {
  constexpr const char* kWayOut = "restore the text, or begin a new run";
  const std::vector<std::string> paths = text_paths(c);
  std::map<std::string, std::string> there;  // key: the name as `files` stores it, in valid UTF-8
  for (const std::string& path : paths) there.emplace(datasets::replace_invalid_utf8(path), path);
  std::set<std::string> known;
  for (const TextFile& file : files) {
    known.insert(file.path);
    const auto found = there.find(file.path);
    check_io(found != there.end(), "{}: was removed after the run began; {}", file.path, kWayOut);
    TextFile now = file;
    now.path = found->second;
    look_at(now);
    if (now.on_disk == file.on_disk && now.modified == file.modified) continue;
    check_io(now.on_disk == file.on_disk,
             "{}: has changed since the run began: it had {} bytes and has {}; {}", file.path,
             file.on_disk, now.on_disk, kWayOut);
    check_io(measured(now.path).crc == file.crc,
             "{}: has changed since the run began: its checksum differs; {}", file.path, kWayOut);
  }
  for (const auto& [name, path] : there)
    check_io(known.contains(name), "{}: was not there when the run began; {}", path, kWayOut);
}

std::vector<std::string> whole_texts(const std::vector<TextPart>& parts) {
  std::vector<std::string> texts;
  for (const TextPart& part : parts) texts.push_back(part.whole());
  return texts;
}

std::vector<std::string> texts_to_learn_from(const std::vector<TextPart>& parts) {
  int64_t all = 0;
  for (const TextPart& part : parts) all += part.size();
  if (all <= kMostLearned) return whole_texts(parts);
  const int64_t share = ceil_div(all, kMostLearned);
  std::vector<std::string> texts;
  int64_t seen = 0, taken = 0;
  for (const TextPart& part : parts)
    part.read([&](std::string_view piece) {
      if (taken * share <= seen) {
        texts.emplace_back(piece);
        taken += std::ssize(piece);
      }
      seen += std::ssize(piece);
    });
  return texts;
}

datasets::LanguageTokenizer make_tokenizer(const TrainConfig& c, const Texts& texts) {
  if (!c.from.empty()) return load_tokenizer(ModelFiles{c.from});
  if (!c.tokenizer.empty()) return load_tokenizer(ModelFiles{c.tokenizer});
  return datasets::ByteBpe::learn(cut_documents(texts_to_learn_from(texts.train), texts.mark),
                                  {.size = c.vocab_size, .specials = {kEndOfText}});
}

datasets::Loader<datasets::WindowBatch> training_batches(const TrainConfig& c,
                                                         const Corpus& corpus) {
  return datasets::window_loader(
      corpus.train.ids,
      {.batch = c.batch, .window = c.window_tokens(), .parts = c.parts, .seed = c.seed});
}

std::string documents_text(const TrainConfig& c, int64_t documents, int64_t marks, bool has_token) {
  if (documents <= 1 || is_demo(c)) return "";
  const std::string count = training::grouped(documents) + " documents";
  if (c.model.model == kBert)  // a bert's facts have the number of documents already
    return marks == 0 ? "" : fmt::format("{}, separated by {} and blank lines", count, c.documents);
  if (marks == 0) return count + ", one per file";
  return fmt::format("{}, separated by {}{}", count, c.documents,
                     has_token ? "" : "; the tokenizer has no token for their ends");
}

void note_documents(TrainConfig& c, int64_t documents, int64_t marks) {
  check(marks > 0 || c.documents.empty() || c.documents == kEndOfText,
        "--documents: '{}' does not occur in the text", c.documents);
  c.documents_found = documents;
}

bool has_pairs(const datasets::Documents& text) {
  int64_t begin = 0;
  return std::any_of(text.document_ends.begin(), text.document_ends.end(),
                     [&](int64_t end) { return end - std::exchange(begin, end) >= 2; });
}

datasets::WordPiece make_pieces(const TrainConfig& c, const Texts& texts) {
  if (!c.from.empty()) return load_pieces({c.from});
  if (!c.tokenizer.empty()) return load_pieces({c.tokenizer});
  // A character gives two pieces, with and without ##. A quarter leaves half of the pieces for
  // merges.
  const int64_t alphabet =
      std::min<int64_t>(datasets::WordPieceLearnOptions().alphabet, c.vocab_size / 4);
  return datasets::WordPiece::learn(cut_documents(whole_texts(texts.train), texts.mark),
                                    {.size = c.vocab_size, .alphabet = alphabet},
                                    {.lower = !c.cased});
}

BertCorpus encode_documents(const TrainConfig& c, const Texts& texts,
                            const datasets::WordPiece& pieces) {
  int64_t marks = 0;
  const auto documents = [&](const std::vector<TextPart>& parts) {
    return documents_of(cut_documents(whole_texts(parts), texts.mark, &marks), pieces,
                        c.window_tokens());
  };
  BertCorpus out{pieces, documents(texts.train), documents(texts.valid), ""};
  out.documents = out.train->size() + out.valid->size() - texts.cut_documents;
  out.marks = marks;
  check(out.train->sentences() > 0, "--text: there is no text in it");
  if (c.pairs) {
    check_pairs("--text", *out.train);
    if (out.valid->sentences() > 0) check_pairs("--valid", *out.valid);
  }
  out.checksum =
      fmt::format("{} + {} tokens, {:08x}", out.train->tokens.size(), out.valid->tokens.size(),
                  add_documents(add_documents(0, *out.train), *out.valid));
  return out;
}

std::shared_ptr<const datasets::Documents> documents_of(const std::vector<std::string>& texts,
                                                        const datasets::WordPiece& pieces,
                                                        int64_t context) {
  // A sentence has at most half of a pair's tokens; longer lines become several sentences, so that
  // nothing is lost.
  const int64_t longest = std::max<int64_t>(1, (context - 3) / 2);
  return std::make_shared<datasets::Documents>(
      datasets::make_documents(texts, pieces, {.longest_sentence = longest}));
}

datasets::BertLoaderOptions loader_options(const TrainConfig& c) {
  return {.batch = c.batch, .max_tokens = c.window_tokens(), .pairs = c.pairs, .seed = c.seed};
}

datasets::Loader<datasets::BertBatch> training_batches(const TrainConfig& c,
                                                       const BertCorpus& corpus) {
  return datasets::bert_loader(corpus.train, *corpus.tokenizer, loader_options(c));
}

}  // namespace tern::apps::lm

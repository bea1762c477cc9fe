// Reads waiting lines without blocking for more, splits long lines into sentences, and joins their
// translations.
#include "tern/apps/translate/input.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "tern/apps/common/process/standard_streams.h"
#include "tern/core/base/error.h"
#include "tern/data/text/unicode/unicode.h"
#include "tern/data/text/words/sentences.h"

namespace tern::apps::translate {
namespace {

constexpr int64_t kLongestSentence = 1000;  // tokens
constexpr int64_t kUntold = 200;            // longest line if the configuration sets no limit
constexpr int64_t kNotes = 20;              // notes of each kind that are printed

bool ends_wide(const std::string& text) {
  for (std::string_view mark : {"。", "！", "？", "」", "』"})
    if (text.ends_with(mark)) return true;
  return false;
}

TranslatedText joined(const TranslatedText& a, const TranslatedText& b) {
  TranslatedText out = a;
  if (!out.text.empty() && !b.text.empty() && !ends_wide(out.text)) out.text += ' ';
  out.text += b.text;
  out.tokens.insert(out.tokens.end(), b.tokens.begin(), b.tokens.end());
  out.log_prob += b.log_prob;
  out.score += b.score;
  return out;
}

}  // namespace

std::vector<std::string> LineReader::next(size_t most) {
  while (ready_.size() < most && !ended_) {
    if (!ready_.empty() && !waits(0)) break;
    read();
  }
  std::vector<std::string> lines;
  for (; lines.size() < most && !ready_.empty(); ready_.pop_front())
    lines.push_back(std::move(ready_.front()));
  check_io(!lines.empty() || too_long_ == 0, "line {} is longer than {} bytes; is this text?",
           too_long_, datasets::kLongestLine);
  return lines;
}

bool LineReader::waits(int milliseconds) const {
  pollfd file{.fd = file_, .events = POLLIN, .revents = 0};
  return ::poll(&file, 1, milliseconds) > 0;
}

void LineReader::read() {
  constexpr size_t kAtOnce = 1 << 16;
  std::string bytes(kAtOnce, '\0'), text;
  ssize_t count = 0;
  while ((count = ::read(file_, bytes.data(), kAtOnce)) < 0) {
    if (errno != EINTR && errno != EAGAIN)
      throw StreamError(
          fmt::format("standard input cannot be read to its end: {}", std::strerror(errno)));
    waits(-1);
  }
  ended_ = count == 0;
  if (ended_)
    decoder_.finish(text);
  else
    decoder_.add(std::string_view(bytes).substr(0, static_cast<size_t>(count)), text);
  const auto visit = [this](std::string_view line) { add(line); };
  cutter_.add(text, visit);
  if (ended_)
    cutter_.finish(visit);
  else if (cutter_.waiting() > datasets::kLongestLine && too_long_ == 0)
    too_long_ = number_ + 1;
  if (too_long_ > 0) ended_ = true;
}

void LineReader::add(std::string_view line) {
  if (too_long_ > 0) return;
  ++number_;
  if (std::ssize(line) > datasets::kLongestLine)
    too_long_ = number_;
  else
    ready_.emplace_back(line);
}

InputLines::InputLines(const Translator& t, std::function<void(const std::string&)> say)
    : tokenizers_(t.tokenizers),
      coverage_(t.tokenizers.source),
      longest_(t.config.max_length > 0 ? t.config.max_length : kUntold),
      say_(std::move(say)) {}

std::vector<std::string> InputLines::prepare(const std::string& line, int64_t number) {
  if (datasets::find_invalid_utf8(line))
    note(Kind::invalid,
         fmt::format("line {} is not valid UTF-8; wrong bytes are read as U+FFFD", number));
  const datasets::Unseen unseen = coverage_.look(line);
  if (unseen.any()) note(Kind::unseen, fmt::format("line {}: {}", number, unseen.summary()));
  const int64_t size = std::ssize(tokenizers_.source.encode(line));
  if (size <= longest_) return {line};
  std::vector<std::string> parts;
  for (std::string_view sentence : datasets::split_sentences(line)) parts.emplace_back(sentence);
  note(Kind::cut,
       fmt::format("line {} has {} tokens, but the training pairs have at most {}{}", number, size,
                   longest_,
                   parts.size() > 1
                       ? fmt::format("; its {} sentences are translated one by one", parts.size())
                       : "; it cannot be cut into sentences, so the translation may be poor"));
  if (parts.empty()) parts.push_back(line);
  for (std::string& part : parts) part = shortened(std::move(part), number);
  return parts;
}

Translations InputLines::translate(
    const Search& search, std::span<const std::string> lines, int64_t first, int64_t n,
    const TranslationProgress& progress,
    const std::function<void(const std::string&, const TranslatedText&)>& took) {
  std::vector<std::string> sentences;
  std::vector<size_t> counts;  // sentences per line
  for (const std::string& line : lines) {
    const auto prepared = prepare(line, first + std::ssize(counts));
    sentences.insert(sentences.end(), prepared.begin(), prepared.end());
    counts.push_back(prepared.size());
  }
  const Translations found = translate_lines(search, tokenizers_, sentences, progress);
  if (found.empty()) return {};
  for (size_t i = 0; took && i < found.size(); ++i) took(sentences[i], found[i][0]);
  Translations best;
  size_t at = 0;
  for (const size_t count : counts) {
    best.push_back(join_translations(std::span(found).subspan(at, count), n));
    at += count;
  }
  return best;
}

std::string InputLines::shortened(std::string sentence, int64_t number) {
  const std::vector<int64_t> ids = tokenizers_.source.encode(sentence);
  if (std::ssize(ids) <= kLongestSentence) return sentence;
  note(Kind::too_long, fmt::format("line {} has a sentence of {} tokens; only the first {} are "
                                   "translated",
                                   number, ids.size(), kLongestSentence));
  return tokenizers_.source.decode(std::span(ids).first(kLongestSentence));
}

void InputLines::note(Kind kind, const std::string& text) {
  if (++notes_[kind] <= kNotes) say_(text);
}

void InputLines::finish() {
  int64_t more = 0;
  for (const auto& [kind, count] : notes_) more += std::max<int64_t>(0, count - kNotes);
  if (more > 0) say_(fmt::format("{} more notes of these kinds", more));
}

std::vector<TranslatedText> join_translations(
    std::span<const std::vector<TranslatedText>> sentences, int64_t n) {
  std::vector<TranslatedText> best = {TranslatedText{}};
  for (const std::vector<TranslatedText>& sentence : sentences) {
    std::vector<TranslatedText> longer;
    for (const TranslatedText& head : best)
      for (const TranslatedText& tail : sentence) longer.push_back(joined(head, tail));
    std::stable_sort(longer.begin(), longer.end(),
                     [](const auto& a, const auto& b) { return a.score > b.score; });
    if (std::ssize(longer) > n) longer.resize(static_cast<size_t>(n));
    best = std::move(longer);
  }
  return best;
}

}  // namespace tern::apps::translate

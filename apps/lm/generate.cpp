// Generation past the model's context, several texts in parallel, shown in order; stop texts; and
// chat.
#include "tern/apps/lm/generate.h"

#include <algorithm>
#include <numeric>

#include "tern/apps/lm/corpus.h"
#include "tern/core/base/error.h"
#include "tern/core/tape/autograd.h"
#include "tern/data/text/unicode/unicode.h"
#include "tern/decode/sampling.h"

namespace tern::apps::lm {
namespace {

/// The number of bytes at the end of `bytes` that could begin a character.
size_t unfinished(std::string_view bytes) {
  for (size_t n = 1; n <= std::min<size_t>(3, bytes.size()); ++n) {
    const auto lead = static_cast<unsigned char>(bytes[bytes.size() - n]);
    if ((lead & 0xC0) == 0x80) continue;  // a continuation byte
    const size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;
    return length > n ? n : 0;
  }
  return 0;
}

/// Thrown by `show` through decoding::sample to stop it.
struct Interrupted {};

/// Continues texts for decode/sampling.h, also beyond the model's context.
class Writer final : public decoding::Stepper {
 public:
  /// `known`: the tokens of each text except the last one, which its first step gets. Each group of
  /// `same` consecutive texts has the same tokens (GenerateOptions::samples).
  Writer(const LanguageModel& model, std::vector<std::vector<int64_t>> known, int64_t same = 1)
      : context_(model.config().context),
        same_(same),
        known_(std::move(known)),
        texts_(model.texts()) {}

  int64_t batch() const override { return std::ssize(known_); }
  const std::vector<int64_t>& known(int64_t text) const { return known_[text]; }
  bool forgot() const { return forgot_; }

  /// The model reads texts with the same beginning once.
  void begin(std::span<const int64_t> sentences) override {
    std::vector<int64_t> rows(rows_.size());
    std::iota(rows.begin(), rows.end(), 0);
    std::vector<std::vector<int64_t>> texts;
    const int64_t before = std::ssize(rows);
    for (const int64_t s : sentences) {
      std::vector<int64_t> text = start(s, context_ - 1);
      if (texts.empty() || s % same_ == 0) texts.push_back(std::move(text));
      rows.push_back(before + std::ssize(texts) - 1);
    }
    texts_->add(texts);
    if (texts.size() < sentences.size()) texts_->select_rows(tensor(rows, {std::ssize(rows)}));
  }
  /// Appends tokens to the only text, after begin().
  void extend(std::span<const int64_t> tokens) {
    known_[0].insert(known_[0].end(), tokens.begin(), tokens.end());
    if (rows_[0].length + std::ssize(tokens) >= context_) return restart(0, std::ssize(tokens));
    texts_->extend(0, tokens);
    rows_[0].length += std::ssize(tokens);
  }
  void select_rows(const Tensor& rows) override {
    texts_->select_rows(rows);
    std::vector<Row> picked;
    for (const int64_t row : rows.to_vector<int64_t>()) picked.push_back(rows_[row]);
    rows_ = std::move(picked);
  }
  Tensor step(const Tensor& tokens) override {
    for (int64_t r = 0; r < std::ssize(rows_); ++r)
      if (rows_[r].length == context_) restart(r);
    for (size_t r = 0; r < rows_.size(); ++r) {
      known_[rows_[r].text].push_back(tokens.data<int64_t>()[r]);
      ++rows_[r].length;
    }
    return texts_->step(tokens);
  }

 private:
  struct Row {
    int64_t text, length;  ///< number of the text, and tokens of it in the model's cache
  };

  /// Adds a row that begins with the last tokens of a text, at most `most`. Returns these tokens.
  std::vector<int64_t> start(int64_t text, int64_t most) {
    const std::vector<int64_t>& all = known_[text];
    const int64_t count = std::min(most, std::ssize(all));
    rows_.push_back({text, count});
    return {all.end() - count, all.end()};
  }

  /// Restarts the full row r: the model reads the last half of the context again, or the last
  /// `least` tokens if that is more, as far as they fit.
  void restart(int64_t r, int64_t least = 0) {
    const int64_t half = std::max<int64_t>(context_ / 2, 1) - 1;
    const int64_t count = std::min(std::max(half, least), context_ - 1);
    forgot_ = true;
    const std::vector<int64_t> last = start(rows_[r].text, count);
    texts_->add(std::span(&last, 1));
    Tensor order = arange(0, std::ssize(rows_) - 1);
    order.mutable_data<int64_t>()[r] = std::ssize(rows_) - 1;
    select_rows(order);
  }

  int64_t context_, same_;
  std::vector<std::vector<int64_t>> known_;
  std::unique_ptr<decoding::TextStepper> texts_;
  std::vector<Row> rows_;
  bool forgot_ = false;
};

/// Collects the generated texts, and shows them in order.
class Shown {
 public:
  Shown(std::vector<Generated> texts, const datasets::LanguageTokenizer& tokenizer,
        const GenerateOptions& options, const TextStream& stream,
        const std::function<bool(int64_t, std::string_view)>& show)
      : tokenizer_(tokenizer),
        most_(options.max_tokens),
        show_(show),
        texts_(std::move(texts)),
        streams_(texts_.size(), stream),
        pending_(texts_.size()),
        done_(texts_.size()) {}

  /// Adds a token to a text. Returns false at the end of the text.
  bool add(int64_t text, int64_t token) {
    const bool end = tokenizer_.is_end(token);
    if (!end) {
      ++texts_[text].tokens;
      put(text, streams_[text].add(tokenizer_.decode(std::span(&token, 1))));
    }
    const bool stopped = end || streams_[text].stopped();
    texts_[text].limited = !stopped && texts_[text].tokens == most_;
    if (!stopped && !texts_[text].limited) return true;
    finish(text);
    return false;
  }
  std::vector<Generated>& texts() { return texts_; }

 private:
  void finish(int64_t text) {
    put(text, streams_[text].finish());
    done_[text] = true;
    for (; now_ < std::ssize(done_) && done_[now_]; ++now_)
      if (now_ + 1 < std::ssize(done_)) tell(now_ + 1, std::exchange(pending_[now_ + 1], {}));
  }
  void put(int64_t text, const std::string& piece) {
    texts_[text].text += piece;
    if (text == now_)
      tell(text, piece);
    else
      pending_[text] += piece;
  }
  void tell(int64_t text, const std::string& piece) {
    if (piece.empty() || !show_ || show_(text, piece)) return;
    texts_[text].interrupted = true;
    throw Interrupted();
  }

  const datasets::LanguageTokenizer& tokenizer_;
  int64_t most_;
  const std::function<bool(int64_t, std::string_view)>& show_;
  std::vector<Generated> texts_;
  std::vector<TextStream> streams_;
  std::vector<std::string> pending_;  // not yet shown: output of the texts after now_
  std::vector<bool> done_;
  int64_t now_ = 0;  // the text that is being shown
};

/// Ids of the model that the tokenizer does not have.
std::vector<int64_t> unknown_ids(const LanguageModel& model,
                                 const datasets::LanguageTokenizer& tokenizer) {
  std::vector<int64_t> out;
  for (int64_t id = 0; id < model.config().vocab; ++id)
    if (!tokenizer.has(id)) out.push_back(id);
  return out;
}

/// The tokens, or the boundary of documents if there are none.
std::vector<int64_t> or_boundary(std::vector<int64_t> tokens,
                                 const datasets::LanguageTokenizer& tokenizer) {
  if (!tokens.empty()) return tokens;
  check(tokenizer.boundary().has_value(),
        "the prompt is empty, and the tokenizer has no token to begin with");
  return {*tokenizer.boundary()};
}

decoding::SampleOptions sample_options(const LanguageModel& model,
                                       const datasets::LanguageTokenizer& tokenizer,
                                       const GenerateOptions& o) {
  return {.temperature = o.temperature,
          .top_k = o.top_k,
          .top_p = o.top_p,
          .min_p = o.min_p,
          .repetition_penalty = o.repetition_penalty,
          .repetition_window = o.repetition_window,
          .max_length = o.max_tokens,
          .forbid = unknown_ids(model, tokenizer)};
}

}  // namespace

TextStream::TextStream(std::vector<std::string> stops, bool skip)
    : stops_(std::move(stops)), skip_(skip) {
  for (const std::string& stop : stops_)
    check(!stop.empty(), "a text that ends the output must not be empty");
}

std::string TextStream::take_characters(bool all) {
  const size_t held = all ? 0 : unfinished(bytes_);
  const std::string whole =
      datasets::replace_invalid_utf8(std::string_view(bytes_).substr(0, bytes_.size() - held));
  bytes_.erase(0, bytes_.size() - held);
  return whole;
}

std::string TextStream::take_text(bool all) {
  size_t first = std::string::npos, length = 0, held = 0;
  for (const std::string& stop : stops_) {
    if (const size_t at = text_.find(stop); at < first) first = at, length = stop.size();
    for (size_t n = std::min(stop.size() - 1, text_.size()); n > held && !all; --n)
      if (std::string_view(text_).ends_with(std::string_view(stop).substr(0, n))) held = n;
  }
  if (skip_ && first == 0) {
    text_.erase(0, length);
    return take_text(all);
  }
  stopped_ = first != std::string::npos;
  const std::string shown = text_.substr(0, stopped_ ? first : text_.size() - held);
  text_.erase(0, stopped_ ? text_.size() : shown.size());
  skip_ = skip_ && shown.empty();
  return shown;
}

std::string TextStream::add(std::string_view bytes) {
  if (stopped_) return "";
  bytes_ += bytes;
  text_ += take_characters(false);
  return take_text(false);
}

std::string TextStream::finish() {
  if (stopped_) return "";
  text_ += take_characters(true);
  return take_text(true);
}

Generated generate(const LanguageModel& model, const datasets::LanguageTokenizer& tokenizer,
                   const std::string& prompt, const GenerateOptions& o,
                   const std::function<bool(std::string_view)>& show) {
  std::function<bool(int64_t, std::string_view)> one;
  if (show) one = [&](int64_t, std::string_view piece) { return show(piece); };
  return generate_all(model, tokenizer, std::span(&prompt, 1), o, one).front();
}

std::vector<Generated> generate_all(
    const LanguageModel& model, const datasets::LanguageTokenizer& tokenizer,
    std::span<const std::string> prompts, const GenerateOptions& o,
    const std::function<bool(int64_t text, std::string_view)>& show) {
  // Twice as many slots give a fifth more tokens per second, but take twice the memory.
  constexpr int64_t kPackedSlots = 32;
  NoGradGuard no_grad;
  std::vector<std::vector<int64_t>> known;
  std::vector<int64_t> begin;
  std::vector<Generated> texts;
  for (const std::string& prompt : prompts) {
    std::vector<int64_t> tokens = or_boundary(tokenizer.encode_prompt(prompt), tokenizer);
    const int64_t last = tokens.back(), unread = std::ssize(tokens) - model.config().context;
    tokens.pop_back();
    known.insert(known.end(), static_cast<size_t>(o.samples), tokens);
    begin.insert(begin.end(), static_cast<size_t>(o.samples), last);
    texts.insert(texts.end(), static_cast<size_t>(o.samples),
                 {.unread = std::max<int64_t>(0, unread)});
  }
  Shown shown(std::move(texts), tokenizer, o, TextStream(o.stop), show);
  decoding::SampleOptions s = sample_options(model, tokenizer, o);
  s.begin = begin;
  if (o.repetition_penalty != 1) s.prompts = known;
  s.batch_slots = model.is_packed() ? kPackedSlots : 1;
  s.on_token = [&](int64_t text, int64_t token) { return shown.add(text, token); };
  try {
    Writer writer(model, std::move(known), o.samples);
    Rng rng(o.seed);
    decoding::sample(writer, s, rng);
  } catch (const Interrupted&) {
  }
  return std::move(shown.texts());
}

struct Chat::State {
  State(const LanguageModel& m, const datasets::LanguageTokenizer& t, const GenerateOptions& o)
      : model(m), tokenizer(t), options(o), sampling(sample_options(m, t, o)), rng(o.seed) {
    begin_anew();
  }
  void begin_anew() {
    NoGradGuard no_grad;
    writer.emplace(model, std::vector<std::vector<int64_t>>(1));
    writer->begin(std::vector<int64_t>{0});
  }
  /// Reads the tokens, the last of which is the first step's, and continues them.
  Generated write(std::vector<int64_t> tokens, TextStream stream,
                  const std::function<bool(std::string_view)>& show);

  const LanguageModel& model;
  const datasets::LanguageTokenizer tokenizer;  // a copy: a ByteBpe would become a temporary
  GenerateOptions options;
  decoding::SampleOptions sampling;
  Rng rng;
  std::optional<Writer> writer;
  std::vector<int64_t> unread;  // the last tokens of the text, which the model has not read yet
  bool cut_off = false;         // whether the last answer was cut off
};

Chat::Chat(const LanguageModel& model, const datasets::LanguageTokenizer& tokenizer,
           const GenerateOptions& o)
    : state_(std::make_unique<State>(model, tokenizer, o)) {}
Chat::~Chat() = default;

bool Chat::forgot() const { return state_->writer->forgot(); }

void Chat::begin_with(const std::string& text) {
  State& s = *state_;
  const bool begins = s.unread.empty() && s.writer->known(0).empty();
  const std::vector<int64_t> tokens =
      begins ? s.tokenizer.encode_prompt(text) : s.tokenizer.encode(text);
  s.unread.insert(s.unread.end(), tokens.begin(), tokens.end());
}

Generated Chat::State::write(std::vector<int64_t> tokens, TextStream stream,
                             const std::function<bool(std::string_view)>& show) {
  NoGradGuard no_grad;
  sampling.begin = tokens.back();
  tokens.pop_back();
  writer->extend(tokens);
  if (options.repetition_penalty != 1) sampling.prompts = {writer->known(0)};
  std::function<bool(int64_t, std::string_view)> one;
  if (show) one = [&](int64_t, std::string_view piece) { return show(piece); };
  Shown shown(std::vector<Generated>(1), tokenizer, options, stream, one);
  sampling.on_token = [&](int64_t, int64_t token) {
    unread = {token};
    return shown.add(0, token);
  };
  try {
    decoding::sample(*writer, sampling, rng);
  } catch (const Interrupted&) {
  }
  return std::move(shown.texts()[0]);
}

Generated Chat::answer(const std::string& line, const std::function<bool(std::string_view)>& show) {
  State& s = *state_;
  begin_with((s.cut_off ? "\n" : "") + line);
  Generated answer = s.write(or_boundary(std::exchange(s.unread, {}), s.tokenizer),
                             TextStream(s.options.stop, /*skip=*/true), show);
  s.cut_off = answer.limited || answer.interrupted;
  return answer;
}

Generated Chat::reply(std::vector<int64_t> text,
                      const std::function<bool(std::string_view)>& show) {
  State& s = *state_;
  check(!text.empty() && std::ssize(text) <= s.model.config().context,
        "the text has {} tokens; the model takes 1 to {}", text.size(), s.model.config().context);
  const std::vector<int64_t>& known = s.writer->known(0);
  const bool goes_on = known.size() < text.size() &&
                       std::equal(known.begin(), known.end(), text.begin()) && !forgot();
  if (!goes_on) s.begin_anew();
  text.erase(text.begin(), text.begin() + std::ssize(s.writer->known(0)));
  return s.write(std::move(text), TextStream(s.options.stop), show);
}

}  // namespace tern::apps::lm

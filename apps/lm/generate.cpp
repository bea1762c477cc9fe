#include "tern/apps/lm/generate.h"

#include <algorithm>

#include "tern/apps/lm/corpus.h"
#include "tern/core/base/error.h"
#include "tern/core/tape/autograd.h"
#include "tern/data/text/unicode.h"
#include "tern/decode/sampling.h"

namespace tern::apps::lm {
namespace {

/// How many bytes at the end of `bytes` could be the beginning of a character.
size_t unfinished(std::string_view bytes) {
  for (size_t n = 1; n <= std::min<size_t>(3, bytes.size()); ++n) {
    const auto lead = static_cast<unsigned char>(bytes[bytes.size() - n]);
    if ((lead & 0xC0) == 0x80) continue;  // inside of one
    const size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;
    return length > n ? n : 0;
  }
  return 0;
}

/// Thrown out of a step: enough was written.
struct Enough {};

Tensor row(std::span<const int64_t> tokens) {
  return tensor(tokens, {1, static_cast<int64_t>(tokens.size())});
}

/// One text that is written on, for the algorithms of decode/sampling.h.
class Writer final : public decoding::Stepper {
 public:
  /// `written` is called with each token as soon as it is chosen, but for the last one.
  Writer(const LanguageModel& model, std::vector<int64_t> known,
         std::function<void(int64_t)> written)
      : model_(model),
        context_(model.config().context),
        known_(std::move(known)),
        written_(std::move(written)) {
    const int64_t most = context_ - 1;
    read(std::min<int64_t>(most, std::ssize(known_)));
  }

  int64_t batch() const override { return 1; }
  void select_rows(const Tensor&) override {}
  Tensor step(const Tensor& tokens) override {
    const int64_t token = tokens.item<int64_t>();
    if (begun_) written_(token);
    begun_ = true;
    if (length_ == context_)
      read(std::min(std::max<int64_t>(context_ / 2, 1) - 1, std::ssize(known_)));
    known_.push_back(token);
    ++length_;
    return continue_(tokens);
  }

 private:
  /// Starts anew from the last `count` tokens.
  void read(int64_t count) {
    continue_ = model_.start(row(std::span(known_).last(static_cast<size_t>(count))));
    length_ = count;
  }

  const LanguageModel& model_;
  int64_t context_, length_ = 0;  // tokens that the model has read
  std::vector<int64_t> known_;
  std::function<void(int64_t)> written_;
  Continue continue_;
  bool begun_ = false;
};

/// Ids that the model knows and the tokenizer does not.
std::vector<int64_t> unknown_ids(const LanguageModel& model, const data::ByteBpe& tokenizer) {
  std::vector<int64_t> out;
  for (int64_t id = 0; id < model.config().vocab; ++id)
    if (!tokenizer.has(id)) out.push_back(id);
  return out;
}

}  // namespace

TextStream::TextStream(std::vector<std::string> stops) : stops_(std::move(stops)) {
  for (const std::string& stop : stops_)
    check(!stop.empty(), "a text that stops must not be empty");
}

std::string TextStream::take_characters(bool all) {
  const size_t held = all ? 0 : unfinished(bytes_);
  const std::string whole =
      data::replace_invalid_utf8(std::string_view(bytes_).substr(0, bytes_.size() - held));
  bytes_.erase(0, bytes_.size() - held);
  return whole;
}

std::string TextStream::take_text(bool all) {
  size_t first = std::string::npos, held = 0;
  for (const std::string& stop : stops_) {
    first = std::min(first, text_.find(stop));
    for (size_t n = std::min(stop.size() - 1, text_.size()); n > held && !all; --n)
      if (std::string_view(text_).ends_with(std::string_view(stop).substr(0, n))) held = n;
  }
  stopped_ = first != std::string::npos;
  const std::string shown = text_.substr(0, stopped_ ? first : text_.size() - held);
  text_.erase(0, stopped_ ? text_.size() : shown.size());
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

Generated generate(const LanguageModel& model, const data::ByteBpe& tokenizer,
                   const std::string& prompt, const GenerateOptions& o,
                   const std::function<bool(std::string_view)>& show) {
  NoGradGuard no_grad;
  const std::optional<int64_t> end = tokenizer.id(kEndOfText);
  std::vector<int64_t> known = tokenizer.encode(prompt);
  if (known.empty()) {
    check(end.has_value(), "the prompt is empty, and the tokenizer has no {} to begin with",
          kEndOfText);
    known.push_back(*end);
  }
  const int64_t begin = known.back();
  known.pop_back();
  Generated out;
  TextStream stream(o.stop);
  auto put = [&](const std::string& text) {
    out.text += text;
    if (!text.empty() && show && !show(text)) out.interrupted = true;
    if (stream.stopped() || out.interrupted) throw Enough();
  };
  auto written = [&](int64_t token) {
    ++out.tokens;
    put(stream.add(tokenizer.decode(std::span(&token, 1))));
  };
  try {
    Writer writer(model, std::move(known), written);
    Rng rng(o.seed);
    const decoding::SampleOptions sampling{.temperature = o.temperature,
                                           .top_k = o.top_k,
                                           .top_p = o.top_p,
                                           .begin = begin,
                                           .end = end.value_or(-1),
                                           .max_length = o.max_tokens,
                                           .forbid = unknown_ids(model, tokenizer)};
    const decoding::Hypothesis h = decoding::sample(writer, sampling, rng).front();
    // The last token was chosen, but no step came after it.
    if (std::ssize(h.tokens) > out.tokens) written(h.tokens.back());
    put(stream.finish());
  } catch (const Enough&) {
  }
  return out;
}

}  // namespace tern::apps::lm

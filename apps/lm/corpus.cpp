#include "tern/apps/lm/corpus.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>

#include "tern/apps/lm/folder.h"
#include "tern/apps/lm/grammar.h"
#include "tern/core/base/error.h"
#include "tern/data/text/lines.h"

namespace tern::apps::lm {
namespace {

constexpr int64_t kDemoTrain = 600'000, kDemoValid = 30'000;  // bytes

/// Where a text is cut that `share` of it is behind: behind the last line end in the tenth before,
/// else between two characters.
size_t cut_place(const std::string& text, double share) {
  auto at = static_cast<size_t>(static_cast<double>(text.size()) * (1 - share));
  const size_t line = text.rfind('\n', at);
  if (line != std::string::npos && line + 1 > at - at / 10) return line + 1;
  while (at < text.size() && (text[at] & 0xC0) == 0x80) ++at;
  return at;
}

uLong add_ids(uLong crc, const std::vector<int64_t>& ids) {
  return crc32_z(crc, reinterpret_cast<const Bytef*>(ids.data()), ids.size() * sizeof(int64_t));
}

}  // namespace

Texts read_texts(const TrainConfig& c) {
  if (is_demo(c))
    return {{generate_stories(kDemoTrain, c.seed)},
            {generate_stories(kDemoValid, c.seed + 1)},
            "generated stories"};
  Texts texts;
  for (const std::string& path : c.text) texts.train.push_back(data::read_text(path));
  for (const std::string& path : c.valid) texts.valid.push_back(data::read_text(path));
  texts.description = fmt::format("{}", fmt::join(c.text, ", "));
  if (!c.valid.empty() || c.hold_out == 0) return texts;
  for (std::string& text : texts.train) {
    const size_t at = cut_place(text, c.hold_out);
    if (at < text.size()) texts.valid.push_back(text.substr(at));
    text.resize(at);
  }
  return texts;
}

data::ByteBpe make_tokenizer(const TrainConfig& c, const Texts& texts) {
  if (!c.from.empty()) return load_tokenizer(ModelFiles{c.from});
  if (!c.tokenizer.empty()) return load_tokenizer(ModelFiles{c.tokenizer});
  return data::ByteBpe::learn(texts.train, {.size = c.vocab_size, .specials = {kEndOfText}});
}

EncodedTexts encode_texts(const std::vector<std::string>& texts, const data::ByteBpe& tokenizer) {
  const std::optional<int64_t> end = tokenizer.id(kEndOfText);
  EncodedTexts encoded;
  for (const std::string& text : texts) {
    std::vector<int64_t> ids = tokenizer.encode(text);
    if (ids.empty()) continue;
    encoded.bytes += std::ssize(text);
    if (end)
      ids.insert(ids.begin(), *end);
    else
      encoded.bytes -= std::ssize(tokenizer.decode(std::span(ids).first(1)));
    encoded.tokens += std::ssize(ids) - 1;
    encoded.ids.push_back(std::move(ids));
  }
  return encoded;
}

Corpus encode_corpus(const Texts& texts, const data::ByteBpe& tokenizer) {
  Corpus corpus;
  const EncodedTexts train = encode_texts(texts.train, tokenizer);
  auto stream = std::make_shared<std::vector<int64_t>>();
  for (const std::vector<int64_t>& ids : train.ids)
    stream->insert(stream->end(), ids.begin(), ids.end());
  corpus.bytes_per_token =
      static_cast<double>(train.bytes) / static_cast<double>(std::max<int64_t>(train.tokens, 1));
  corpus.valid = encode_texts(texts.valid, tokenizer);
  uLong crc = add_ids(0, *stream);
  for (const std::vector<int64_t>& ids : corpus.valid.ids) crc = add_ids(crc, ids);
  corpus.checksum = fmt::format("{} + {} tokens, {:08x}", stream->size(), corpus.valid.tokens, crc);
  corpus.train = std::move(stream);
  return corpus;
}

}  // namespace tern::apps::lm

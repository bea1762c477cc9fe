#include "tern/apps/lm/corpus.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <utility>

#include "tern/apps/lm/folder.h"
#include "tern/core/base/error.h"

namespace tern::apps::lm {
namespace {

template <class T>
uLong add_values(uLong crc, const std::vector<T>& values) {
  if (values.empty()) return crc;  // zlib begins anew where there is no address
  return crc32_z(crc, reinterpret_cast<const Bytef*>(values.data()), values.size() * sizeof(T));
}

uLong add_documents(uLong crc, const data::Documents& d) {
  return add_values(add_values(add_values(crc, d.tokens), d.sentence_ends), d.document_ends);
}

void check_pairs(const char* what, const data::Documents& d) {
  check(has_pairs(d),
        "{}: none of {} documents, between blank lines, has two lines, so that there are no pairs "
        "of sentences; --no-pairs trains without them",
        what, d.size());
}

}  // namespace

data::ByteBpe make_tokenizer(const TrainConfig& c, const Texts& texts) {
  if (!c.from.empty()) return load_tokenizer(ModelFiles{c.from});
  if (!c.tokenizer.empty()) return load_tokenizer(ModelFiles{c.tokenizer});
  return data::ByteBpe::learn(texts_to_learn_from(texts.train),
                              {.size = c.vocab_size, .specials = {kEndOfText}});
}

data::Loader<data::WindowBatch> training_batches(const TrainConfig& c, const Corpus& corpus) {
  return data::window_loader(
      corpus.train.ids,
      {.batch = c.batch, .window = c.model.context, .parts = c.parts, .seed = c.seed});
}

bool has_pairs(const data::Documents& text) {
  int64_t begin = 0;
  return std::any_of(text.document_ends.begin(), text.document_ends.end(),
                     [&](int64_t end) { return end - std::exchange(begin, end) >= 2; });
}

data::WordPiece make_pieces(const TrainConfig& c, const Texts& texts) {
  if (!c.from.empty()) return load_pieces({c.from});
  if (!c.tokenizer.empty()) return load_pieces({c.tokenizer});
  // Characters come twice, alone and with ##; half of the pieces is left for merges.
  const int64_t alphabet =
      std::min<int64_t>(data::WordPieceLearnOptions().alphabet, c.vocab_size / 4);
  return data::WordPiece::learn(whole_texts(texts.train),
                                {.size = c.vocab_size, .alphabet = alphabet}, {.lower = !c.cased});
}

BertCorpus encode_documents(const TrainConfig& c, const Texts& texts,
                            const data::WordPiece& pieces) {
  BertCorpus out{pieces, documents_of(whole_texts(texts.train), pieces, c.model.context),
                 documents_of(whole_texts(texts.valid), pieces, c.model.context), ""};
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

std::shared_ptr<const data::Documents> documents_of(const std::vector<std::string>& texts,
                                                    const data::WordPiece& pieces,
                                                    int64_t context) {
  // Half of a pair, so that a line that is longer loses nothing.
  const int64_t longest = std::max<int64_t>(1, (context - 3) / 2);
  return std::make_shared<data::Documents>(
      data::make_documents(texts, pieces, {.longest_sentence = longest}));
}

data::BertLoaderOptions loader_options(const TrainConfig& c) {
  return {.batch = c.batch, .max_tokens = c.model.context, .pairs = c.pairs, .seed = c.seed};
}

data::Loader<data::BertBatch> training_batches(const TrainConfig& c, const BertCorpus& corpus) {
  return data::bert_loader(corpus.train, *corpus.tokenizer, loader_options(c));
}

}  // namespace tern::apps::lm

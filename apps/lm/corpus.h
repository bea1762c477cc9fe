// The text of a training: read, split, tokenised.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tern/apps/lm/config.h"
#include "tern/data/text/byte_bpe.h"

namespace tern::apps::lm {

/// The token that stands between texts and ends them.
inline constexpr const char* kEndOfText = "<|endoftext|>";

/// Whole files as text, before anything is learned from them.
struct Texts {
  std::vector<std::string> train, valid;
  std::string description;  ///< "a.txt, b.txt.gz"
};

/// Reads the files of the configuration, or makes stories up. Without files for validation the last
/// share (hold_out) of each text is held out, cut behind the end of a line where that is near.
Texts read_texts(const TrainConfig& config);

/// That of the configuration's folder, or one learned from the texts of training.
data::ByteBpe make_tokenizer(const TrainConfig& config, const Texts& texts);

/// Texts as ids, <|endoftext|> in front of each where the tokenizer has it.
struct EncodedTexts {
  std::vector<std::vector<int64_t>> ids;
  int64_t bytes = 0;   ///< of what is to be predicted: all but the first token of each
  int64_t tokens = 0;  ///< to be predicted
};
EncodedTexts encode_texts(const std::vector<std::string>& texts, const data::ByteBpe& tokenizer);

struct Corpus {
  std::shared_ptr<const std::vector<int64_t>> train;  ///< all texts, one behind the other
  double bytes_per_token = 1;                         ///< of training
  EncodedTexts valid;
  std::string checksum;  ///< of all ids, so that a run goes on with the same data
};
Corpus encode_corpus(const Texts& texts, const data::ByteBpe& tokenizer);

}  // namespace tern::apps::lm

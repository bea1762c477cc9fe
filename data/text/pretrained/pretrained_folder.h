// The special and added tokens of a folder of transformers with tokenizer.json, or with vocab.json
// and merges.txt. Inside of tern only.
//
// As transformers 5 reads them: tokenizer_config.json has added_tokens_decoder (ids and flags),
// named special tokens (bos_token, pad_token, ...) and further ones (additional_special_tokens).
// Without an added_tokens_decoder, special_tokens_map.json has special tokens, too, and
// added_tokens.json has ids. The flags of an added_tokens_decoder replace those of tokenizer.json.
// Tokens with ids come first, in their order, then named and further ones. The tokenizer's class is
// in tokenizer_config.json or config.json, or follows from the model_type there.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tern/data/text/pretrained/pretrained_tokenizer.h"

namespace tern::datasets::detail {

struct FolderTokens {
  std::vector<AddedToken> added;
  std::string front;  ///< the token in front of each text; empty: none
  std::string file;   ///< the path of the file that gives the ids
  std::string kind;   ///< the class of transformers, without "Fast"; empty: no file names it
  std::optional<bool> begins;  ///< add_bos_token
};
/// `whole` is the folder's tokenizer.json, whose added tokens come first. Without it `end` is
/// bos_token, eos_token and unk_token where no file says otherwise. IoError with the file: it is
/// damaged, wants a token behind each text (without `whole`), or names a special token in a way
/// that leaves its id open.
FolderTokens read_folder_tokens(const std::string& folder, const std::string& end,
                                const PretrainedTokenizer* whole = nullptr);

/// The texts of the special tokens that the files name, by their members: bos_token, pad_token, ...
/// The text is empty where a file says that there is none. IoError with the file: it is damaged.
std::map<std::string, std::string> read_special_texts(const std::string& folder);

}  // namespace tern::datasets::detail

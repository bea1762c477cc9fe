// The tokenizers in GGUF files, as tokenizer.json. Inside of tern only.
//
// Known values of tokenizer.ggml.model: "gpt2" (byte-level BPE), "llama" (SentencePiece's BPE with
// scores and byte tokens), "bert" (WordPiece). A byte-level BPE cuts texts by a pattern, of which
// the file has only the name, tokenizer.ggml.pre. Unknown names are refused: other patterns give
// other tokens.
#pragma once

#include <string>

#include "tern/core/io/gguf.h"
#include "tern/pretrained/gpt_config.h"

namespace tern::pretrained {

/// The text of tokenizer.json for PretrainedTokenizer. Control tokens are special; they and the
/// user's tokens are found in texts, with the white space behind them if general.name says Phi-3,
/// as in llama.cpp. IoError: an unknown kind, or metadata that contradict each other.
std::string gguf_tokenizer(const GgufFile& file);

/// The chat template and its special tokens; empty if the file lacks them.
ChatTexts gguf_chat(const GgufFile& file);

}  // namespace tern::pretrained

// Files of vocabularies, BPE and tokenizers: JSON with the keys format, version, content, and crc32
// of the content written without spaces. Inside of data only.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tern/data/text/words/normalize.h"

namespace tern::datasets::detail {

/// The content of such files; each kind leaves some members empty.
struct TokenTable {
  std::string unit = {};
  NormalizeOptions normalize = {};
  std::vector<std::string> words = {};
  std::vector<std::pair<int32_t, int32_t>> merges = {};
};

void write_token_file(const std::string& path, const std::string& format, const TokenTable& table);

/// Reads a file and calls `use` with its table. IoError with the path: the file is not JSON, has
/// another format or a later version, is damaged, or `use` throws an Error.
void read_token_file(const std::string& path, const std::string& format,
                     const std::function<void(TokenTable&)>& use);

}  // namespace tern::datasets::detail

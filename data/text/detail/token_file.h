// Inside of data only: the files of vocabularies, BPE and tokenizers. JSON with four keys: format
// (what it is), version, content, and crc32 of the content as it is written without spaces.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tern/data/text/normalize.h"

namespace tern::data::detail {

/// What the files hold; each kind of file leaves some of it empty.
struct TokenTable {
  std::string unit = {};
  NormalizeOptions normalize = {};
  std::vector<std::string> words = {};
  std::vector<std::pair<int32_t, int32_t>> merges = {};
};

void write_token_file(const std::string& path, const std::string& format, const TokenTable& table);

/// Gives the table to `use`. IoError with the path: the file is no JSON, another format, of a
/// later version, damaged, or `use` throws an Error.
void read_token_file(const std::string& path, const std::string& format,
                     const std::function<void(TokenTable&)>& use);

}  // namespace tern::data::detail

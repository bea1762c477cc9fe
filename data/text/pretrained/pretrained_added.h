// The added tokens of tokenizer.json, which are found in a text before it is cut.
// Inside of data only.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "tern/data/text/pretrained/pretrained_parts.h"
#include "tern/data/text/pretrained/pretrained_tokenizer.h"

namespace tern::datasets::detail {

class AddedTokens {
 public:
  /// Error: an invalid id, an empty token.
  AddedTokens(const JsonValue& list, const Normalizer& normalize);

  /// In the order of the list; each has its id.
  const std::vector<AddedToken>& all() const { return all_; }
  bool is_special(int64_t id) const { return special_.contains(id); }
  bool may_begin_with(char c) const;

  struct Wanted {
    bool specials, others;
  };
  /// Finds tokens in the text, and `normalized` tokens in the normalised rest; the longest where
  /// several begin. Which tokens are found is `wanted`. In text order, appends their ids
  /// to `ids` and calls use(part) for each normalised part between them.
  void cut(std::string_view text, const Normalizer& normalize,
           const std::function<void(Fragment)>& use, std::vector<int64_t>& ids,
           const Wanted& wanted) const;

 private:
  using Tokens = std::vector<AddedToken>;
  static void cut_by(const Tokens& tokens, std::string_view text,
                     const std::function<void(size_t begin, size_t size)>& use,
                     std::vector<int64_t>& ids, const Wanted& wanted);
  static const AddedToken* find(const Tokens& tokens, std::string_view text, size_t& at);

  Tokens all_;
  std::unordered_set<int64_t> special_;
  Tokens raw_, normalized_;  // sorted
};

}  // namespace tern::datasets::detail

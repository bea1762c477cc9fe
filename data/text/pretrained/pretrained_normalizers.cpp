// The normalizers of tokenizer.json, and the patterns that decoders and pre-tokenizers share with
// them.
#include <utf8proc.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "tern/core/base/error.h"
#include "tern/data/text/bpe/byte_bpe_chunks.h"
#include "tern/data/text/pretrained/pretrained_charsmap.h"
#include "tern/data/text/pretrained/pretrained_parts.h"
#include "tern/data/text/tokenizer/limits.h"
#include "tern/data/text/unicode/unicode.h"
#include "tern/data/text/wordpiece/bert_text.h"

namespace tern::datasets::detail {

void check_length(int64_t bytes) {
  check(bytes <= kMostNormalBytes, "the parts of the tokenizer make a text of more than {} bytes",
        kMostNormalBytes);
}

namespace {

std::string without_marks_of_any_kind(const std::string& text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const char32_t c = next_code_point(text, at);
    const auto k = utf8proc_category(static_cast<utf8proc_int32_t>(c));
    if (k < UTF8PROC_CATEGORY_MN || k > UTF8PROC_CATEGORY_ME) append_utf8(out, c);
  }
  return out;
}

Fragment stripped(const Fragment& whole, bool left, bool right) {
  const std::string& text = whole.text;
  size_t begin = 0, end = text.size();
  for (size_t at = 0; left && at < text.size(); begin = at)
    if (!is_white_space(next_code_point(text, at))) break;
  size_t last = begin;  // end of the last character that is no space
  for (size_t at = begin; at < text.size();)
    if (!is_white_space(next_code_point(text, at))) last = at;
  if (right) end = last;
  return fragment_of(whole, begin, end - begin);
}

/// Applies `change`, which works character by character: the first character of the text becomes
/// what `change` makes of it alone. `inherits`: if it is removed, the next character takes its
/// place.
Normalizer changing(const std::function<std::string(const std::string&)>& change,
                    bool inherits = false) {
  return [=](const Fragment& f) {
    Fragment out{change(f.text), 0};
    const std::string head = change(f.text.substr(0, f.first));
    if (f.first == 0 || out.text.empty() || (head.empty() && !inherits)) return out;
    if (!head.empty() && out.text.starts_with(head))
      out.first = head.size();
    else
      next_code_point(out.text, out.first);
    return out;
  };
}

/// The decomposition of a text, in canonical order. The first part of a character stands for it;
/// the parts behind that count as inserted.
class Decomposition {
 public:
  /// compat: UTF8PROC_COMPAT or 0.
  Decomposition(std::string_view text, int compat) : text_(text), compat_(compat) {}

  /// Takes the parts that c is composed of. Returns how many characters of the text they stand for,
  /// or nothing if a part is missing.
  std::optional<int64_t> take(char32_t c) {
    int64_t characters = 0;
    for (const utf8proc_int32_t piece : pieces_of(c, 0)) {
      size_t i = begin_;
      for (; i < parts_.size() || read_sequence(); ++i)
        if (!parts_[i].taken && parts_[i].c == piece) break;
      if (i == parts_.size()) return std::nullopt;
      parts_[i].taken = true;
      characters += parts_[i].stands;
    }
    while (begin_ < parts_.size() && parts_[begin_].taken) ++begin_;
    return characters;
  }

 private:
  struct Part {
    utf8proc_int32_t c;
    int order;
    bool stands, taken = false;
  };

  static std::vector<utf8proc_int32_t> pieces_of(char32_t c, int compat) {
    std::vector<utf8proc_int32_t> pieces(32);
    int boundary = 0;
    const auto n = utf8proc_decompose_char(
        static_cast<utf8proc_int32_t>(c), pieces.data(), std::ssize(pieces),
        static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | compat), &boundary);
    check(n >= 0, "normalizer: {}", utf8proc_errmsg(n));
    pieces.resize(static_cast<size_t>(n));
    return pieces;
  }

  /// Reads a character and those that combine with it. Returns false at the end.
  bool read_sequence() {
    const size_t begin = parts_.size();
    while (at_ < text_.size()) {
      size_t end = at_;
      bool stands = true;
      const size_t before = parts_.size();
      for (const utf8proc_int32_t piece : pieces_of(next_code_point(text_, end), compat_)) {
        parts_.push_back({piece, utf8proc_get_property(piece)->combining_class, stands});
        stands = false;
      }
      if (before > begin && parts_.size() > before && parts_[before].order == 0) {
        parts_.resize(before);
        break;
      }
      at_ = end;
    }
    const auto first = parts_.begin() + static_cast<std::ptrdiff_t>(begin);
    for (auto run = first; run != parts_.end();) {
      const auto end =
          std::find_if(run, parts_.end(), [](const Part& part) { return part.order == 0; });
      std::stable_sort(run, end, [](const Part& a, const Part& b) { return a.order < b.order; });
      run = end == parts_.end() ? end : end + 1;
    }
    return parts_.size() > begin;
  }

  std::string_view text_;
  int compat_;
  size_t at_ = 0, begin_ = 0;  // bytes read; parts taken from the front
  std::vector<Part> parts_;
};

/// A Unicode normal form. Finds what the first character becomes by the alignment of the
/// `tokenizers` package: characters align in order, a composed one with all that it is made of, an
/// inserted one with the character before it.
Normalizer normal_form(const std::function<std::string(const std::string&)>& form, int compat) {
  return [=](const Fragment& f) {
    Fragment out{form(f.text), 0};
    int64_t left = 0;  // characters still to align; negative if later ones are aligned too
    for (size_t at = 0; at < f.first; ++left) next_code_point(f.text, at);
    Decomposition parts(f.text, compat);
    for (size_t at = 0; f.first > 0 && at < out.text.size(); out.first = at) {
      const auto characters = parts.take(next_code_point(out.text, at));
      if (!characters || left < (*characters > 0 ? 1 : 0)) break;
      left -= *characters;
    }
    return out;
  };
}

Normalizer bert_normalizer(const JsonValue& part) {
  const bool lower = part.at("lowercase").boolean();
  const bool accents = part.get("strip_accents", lower);
  const BertCleaning cleaning{.clean = part.at("clean_text").boolean(),
                              .split_cjk = part.at("handle_chinese_chars").boolean()};
  return changing([=](const std::string& text) {
    std::string out = bert_clean(text, cleaning);
    if (accents) out = without_accents(out);
    return lower ? lower_letters(out) : out;
  });
}

Normalizer replacing(const JsonValue& part) {
  const Matcher find = read_pattern(part.at("pattern"));
  const std::string by = part.at("content").text();
  return [=](const Fragment& text) { return replace_matches(text, find, by); };
}

Normalizer one_normalizer(const JsonValue& part) {
  const std::string type = type_of(part);
  if (type == "BertNormalizer") return bert_normalizer(part);
  if (type == "NFC") return normal_form(nfc, 0);
  if (type == "NFD") return normal_form(nfd, 0);
  if (type == "NFKC") return normal_form(nfkc, UTF8PROC_COMPAT);
  if (type == "NFKD") return normal_form(nfkd, UTF8PROC_COMPAT);
  if (type == "Lowercase")
    return changing([](const std::string& text) { return lower_letters(text); });
  if (type == "StripAccents") return changing(without_marks_of_any_kind);
  if (type == "Strip") {
    const bool left = part.at("strip_left").boolean(), right = part.at("strip_right").boolean();
    return [=](const Fragment& text) { return stripped(text, left, right); };
  }
  if (type == "Prepend") {
    const std::string front = part.at("prepend").text();
    return changing([=](const std::string& text) {
      return text.empty() ? text : std::string(front).append(text);
    });
  }
  if (type == "Replace") return replacing(part);
  if (type == "Precompiled") {
    const auto map = std::make_shared<const CharsMap>(part.at("precompiled_charsmap").text());
    return changing([=](const std::string& text) { return map->apply(text); }, true);
  }
  fail(fmt::format("the normalizer {} is not supported", type));
}

}  // namespace

std::string type_of(const JsonValue& part) { return part.at("type").text(); }

void for_each_part(const JsonValue& part, const char* list,
                   const std::function<void(const JsonValue&)>& read) {
  if (part.is_null()) return;
  if (type_of(part) != "Sequence") return read(part);
  for (const JsonValue& inner : part.at(list).elements()) for_each_part(inner, list, read);
}

Normalizer read_normalizer(const JsonValue& part) {
  std::vector<Normalizer> all;
  for_each_part(part, "normalizers", [&](const JsonValue& p) { all.push_back(one_normalizer(p)); });
  return [all](Fragment text) {
    for (const Normalizer& n : all) {
      text = n(std::move(text));
      check_length(std::ssize(text.text));
    }
    return text;
  };
}

namespace {

/// Matches runs of at least `least` copies of the literal; 1: every copy by itself.
Matcher repeated(const std::string& literal, size_t least) {
  return [=](std::string_view text) {
    std::vector<Match> found;
    if (literal.empty()) return found;
    for (size_t at = text.find(literal); at != text.npos;) {
      size_t end = at + literal.size();
      while (least > 1 && text.substr(end).starts_with(literal)) end += literal.size();
      if (end - at >= least * literal.size() || least == 1) found.push_back({at, end});
      at = text.find(literal, end);
    }
    return found;
  };
}

}  // namespace

Matcher literal_pattern(const std::string& literal) { return repeated(literal, 1); }

Matcher read_pattern(const JsonValue& pattern) {
  if (const JsonValue literal = pattern.find("String"); !literal.is_null())
    return literal_pattern(literal.text());
  const std::string regex = pattern.at("Regex").text();
  if (regex == " {2,}") return repeated(" ", 2);
  check(regex.find_first_of("\\^$.|?*+()[]{}") == regex.npos,
        "the regular expression '{}' is not supported", regex);
  return literal_pattern(regex);
}

Fragment fragment_of(const Fragment& whole, size_t begin, size_t size) {
  return {whole.text.substr(begin, size),
          whole.first > begin ? std::min(whole.first - begin, size) : 0};
}

// A replacement counts as part of the last character of its match.
Fragment replace_matches(const Fragment& text, const Matcher& find, std::string_view by) {
  Fragment out;
  size_t at = 0;
  auto keep = [&](size_t end) {
    const Fragment between = fragment_of(text, at, end - at);
    out.text += between.text;
    out.first += between.first;
  };
  for (const Match& m : find(text.text)) {
    keep(m.begin);
    out.text += by;
    if (m.end <= text.first) out.first += by.size();
    at = m.end;
    check_length(std::ssize(out.text));
  }
  keep(text.text.size());
  return out;
}

}  // namespace tern::datasets::detail

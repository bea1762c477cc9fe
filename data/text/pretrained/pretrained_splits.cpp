// The pre-tokenizers of tokenizer.json: each finds matches in a text and cuts the text at them.
#include <utf8proc.h>

#include <algorithm>

#include "tern/core/base/error.h"
#include "tern/data/text/bpe/byte_bpe_chunks.h"
#include "tern/data/text/pretrained/pretrained_parts.h"
#include "tern/data/text/unicode/unicode.h"
#include "tern/data/text/wordpiece/bert_text.h"

namespace tern::datasets::detail {
namespace {

using Test = std::function<bool(char32_t)>;

/// A part of a text that is a match, or lies between two.
struct Piece {
  size_t begin, end;
  bool match;
};

std::vector<Piece> pieces_of(std::string_view text, const std::vector<Match>& matches) {
  std::vector<Piece> out;
  size_t at = 0;
  for (const Match& m : matches) {
    if (m.begin > at) out.push_back({at, m.begin, false});
    out.push_back({m.begin, m.end, true});
    at = m.end;
  }
  if (at < text.size()) out.push_back({at, text.size(), false});
  return out;
}

/// Each character that passes is a match.
Matcher characters(const Test& test) {
  return [test](std::string_view text) {
    std::vector<Match> out;
    for (size_t at = 0; at < text.size();) {
      const size_t begin = at;
      if (test(next_code_point(text, at))) out.push_back({begin, at});
    }
    return out;
  };
}

void merge_equal(std::vector<Piece>& pieces) {
  std::vector<Piece> out;
  for (const Piece& p : pieces)
    if (!out.empty() && out.back().match == p.match)
      out.back().end = p.end;
    else
      out.push_back(p);
  pieces = std::move(out);
}

/// Joins each match to the piece before it, unless that is a match too.
void merge_with_previous(std::vector<Piece>& pieces) {
  std::vector<Piece> out;
  bool before = false;
  for (const Piece& p : pieces) {
    if (p.match && !before && !out.empty())
      out.back().end = p.end;
    else
      out.push_back(p);
    before = p.match;
  }
  pieces = std::move(out);
}

void merge_with_next(std::vector<Piece>& pieces) {
  std::vector<Piece> out;
  bool behind = false;
  for (auto p = pieces.rbegin(); p != pieces.rend(); ++p) {
    if (p->match && !behind && !out.empty())
      out.back().begin = p->begin;
    else
      out.push_back(*p);
    behind = p->match;
  }
  std::reverse(out.begin(), out.end());
  pieces = std::move(out);
}

void apply_behavior(const std::string& behavior, std::vector<Piece>& pieces) {
  if (behavior == "Removed")
    return void(std::erase_if(pieces, [](const Piece& p) { return p.match; }));
  if (behavior == "Contiguous") return merge_equal(pieces);
  if (behavior == "MergedWithPrevious") return merge_with_previous(pieces);
  if (behavior == "MergedWithNext") return merge_with_next(pieces);
  check(behavior == "Isolated", "the split behavior '{}' is not supported", behavior);
}

PreTokenizer splitting(const Matcher& find, const std::string& behavior, bool invert = false) {
  std::vector<Piece> none;
  apply_behavior(behavior, none);  // refuses an unknown behavior
  return [=](const std::vector<Fragment>& fragments) {
    std::vector<Fragment> out;
    for (const Fragment& f : fragments) {
      std::vector<Piece> pieces = pieces_of(f.text, find(f.text));
      if (invert)
        for (Piece& p : pieces) p.match = !p.match;
      apply_behavior(behavior, pieces);
      for (const Piece& p : pieces) out.push_back(fragment_of(f, p.begin, p.end - p.begin));
    }
    return out;
  };
}

PreTokenizer after(const PreTokenizer& first, const PreTokenizer& second) {
  return [=](std::vector<Fragment> fragments) { return second(first(std::move(fragments))); };
}

using Chunker = std::function<std::vector<std::string_view>(std::string_view)>;

Matcher chunks(const Chunker& cut) {
  return [cut](std::string_view text) {
    std::vector<Match> out;
    size_t at = 0;
    for (std::string_view chunk : cut(text)) {
      out.push_back({at, at + chunk.size()});
      at += chunk.size();
    }
    return out;
  };
}

/// Cuts into runs of \w, and runs of characters that are neither \w nor white space.
PreTokenizer words() {
  auto find = [](std::string_view text) {
    std::vector<Match> out;
    int before = 0;  // 0: white space, 1: \w, 2: others
    for (size_t at = 0; at < text.size();) {
      const size_t begin = at;
      const char32_t c = next_code_point(text, at);
      const int kind = is_regex_word(c) ? 1 : is_white_space(c) ? 0 : 2;
      if (kind != 0 && kind == before)
        out.back().end = at;
      else if (kind != 0)
        out.push_back({begin, at});
      before = kind;
    }
    return out;
  };
  return splitting(find, "Removed", true);
}

void prepend(Fragment& f, const std::string& front) {
  f.text.insert(0, front);
  if (f.first > 0) f.first += front.size();
}

PreTokenizer byte_level(const JsonValue& part) {
  const bool prefix = part.get("add_prefix_space", true), cut = part.get("use_regex", true);
  part.ignore("trim_offsets");
  const PreTokenizer split = splitting(chunks(byte_bpe_chunks), "Isolated");
  return [=](std::vector<Fragment> fragments) {
    for (Fragment& f : fragments)
      if (prefix && !f.text.empty() && !f.text.starts_with(' ')) prepend(f, " ");
    if (cut) fragments = split(fragments);
    for (Fragment& f : fragments)
      f = {spelt(f.text), spelt(std::string_view(f.text).substr(0, f.first)).size()};
    return fragments;
  };
}

PreTokenizer metaspace_splitter(const JsonValue& part) {
  part.ignore("str_rep");
  const std::string mark = part.at("replacement").text();
  check(code_points(mark).size() == 1, "Metaspace: '{}' is not one character", mark);
  const std::string before = part.get("add_prefix_space", true) ? "always" : "never";
  const std::string scheme = part.get("prepend_scheme", before);
  check(scheme == "always" || scheme == "first" || scheme == "never",
        "Metaspace: the prepend_scheme '{}' is not supported", scheme);
  const bool cut = part.get("split", true);
  const Matcher spaces = literal_pattern(" "), marks = literal_pattern(mark);
  const PreTokenizer split = splitting(marks, "MergedWithNext");
  return [=](std::vector<Fragment> fragments) {
    for (Fragment& f : fragments) {
      f = replace_matches(f, spaces, mark);
      const bool wanted = scheme == "always" || (scheme == "first" && f.first > 0);
      if (wanted && !f.text.empty() && !f.text.starts_with(mark)) prepend(f, mark);
    }
    return cut ? split(fragments) : fragments;
  };
}

bool is_number(char32_t c) { return classify(c) == CharacterClass::digit; }

constexpr std::string_view kGpt2 =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kLinesFront =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|)";
constexpr std::string_view kLinesBack = R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

std::string lines_pattern(std::string_view digits) {
  return std::string(kLinesFront) + std::string(digits) + std::string(kLinesBack);
}

/// The chunks by the pattern of a byte-level BPE; empty for another pattern.
Matcher chunk_pattern(const std::string& regex) {
  if (regex == kGpt2) return chunks(byte_bpe_chunks);
  for (const auto& [digits, most] : {std::pair(R"(\p{N}{1,3})", 3), {R"(\p{N})", 1}})
    if (regex == lines_pattern(digits))
      return chunks([most = most](std::string_view t) { return line_bpe_chunks(t, most); });
  return {};
}

Matcher split_pattern(const JsonValue& pattern) {
  const std::string text = pattern.get("Regex", "");
  if (Matcher found = chunk_pattern(text)) return found;
  if (text == R"(\s+)" || text == R"(\d+)") {  // runs
    const Matcher one = characters(text == R"(\s+)" ? Test(is_white_space) : Test([](char32_t c) {
      return utf8proc_category(static_cast<utf8proc_int32_t>(c)) == UTF8PROC_CATEGORY_ND;
    }));
    return [one](std::string_view t) {
      std::vector<Match> runs;
      for (const Match& m : one(t))
        if (!runs.empty() && runs.back().end == m.begin)
          runs.back().end = m.end;
        else
          runs.push_back(m);
      return runs;
    };
  }
  if (text == "[0-9][0-9][0-9]")  // Falcon's
    return [](std::string_view t) {
      auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
      std::vector<Match> found;
      for (size_t at = 0; at + 3 <= t.size();)
        if (std::ranges::all_of(t.substr(at, 3), is_digit))
          found.push_back({at, at + 3}), at += 3;
        else
          ++at;
      return found;
    };
  return read_pattern(pattern);
}

PreTokenizer one_pre_tokenizer(const JsonValue& part) {
  const std::string type = type_of(part);
  const PreTokenizer spaces = splitting(characters(is_white_space), "Removed");
  if (type == "BertPreTokenizer")
    return after(spaces, splitting(characters(is_bert_mark), "Isolated"));
  if (type == "ByteLevel") return byte_level(part);
  if (type == "Whitespace") return words();
  if (type == "WhitespaceSplit") return spaces;
  if (type == "Metaspace") return metaspace_splitter(part);
  if (type == "Punctuation")
    return splitting(characters(is_bert_mark), part.get("behavior", "Isolated"));
  if (type == "Digits")
    return splitting(characters(is_number),
                     part.at("individual_digits").boolean() ? "Isolated" : "Contiguous");
  if (type == "CharDelimiterSplit")
    return splitting(literal_pattern(part.at("delimiter").text()), "Removed");
  if (type == "Split")
    return splitting(split_pattern(part.at("pattern")), part.at("behavior").text(),
                     part.get("invert", false));
  fail(fmt::format("the pre-tokenizer {} is not supported", type));
}

}  // namespace

bool is_regex_word(char32_t c) {
  const auto k = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  if ((k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_NL) || k == UTF8PROC_CATEGORY_PC)
    return true;
  return c == 0x200C || c == 0x200D || (c >= 0x24B6 && c <= 0x24E9) ||
         (c >= 0x1F130 && c <= 0x1F149) || (c >= 0x1F150 && c <= 0x1F169) ||
         (c >= 0x1F170 && c <= 0x1F189);
}

std::string qwen2_pattern() { return lines_pattern(R"(\p{N})"); }

PreTokenizer read_pre_tokenizer(const JsonValue& part) {
  PreTokenizer all = [](std::vector<Fragment> fragments) { return fragments; };
  for_each_part(part, "pretokenizers",
                [&](const JsonValue& p) { all = after(all, one_pre_tokenizer(p)); });
  return all;
}

// NFC joins no character with a line end. The first pattern decides how a line ends.
LineCuts read_line_cuts(const JsonValue& normalizer, const JsonValue& pre_tokenizer) {
  bool any = true, bytes = false, digits = false;
  std::optional<LineCuts> first;
  const auto add_pattern = [&](bool gpt2) {
    if (!first) first = {.leaves_last = gpt2, .digits_apart = digits};
  };
  for_each_part(normalizer, "normalizers",
                [&](const JsonValue& p) { any = any && type_of(p) == "NFC"; });
  for_each_part(pre_tokenizer, "pretokenizers", [&](const JsonValue& p) {
    const std::string type = type_of(p);
    if (type == "ByteLevel") {
      bytes = true, any = any && !p.get("add_prefix_space", true);
      if (p.get("use_regex", true)) add_pattern(true);
    } else if (type == "Split") {
      const std::string regex = p.at("pattern").get("Regex", "");
      any = any && chunk_pattern(regex) != nullptr;
      add_pattern(regex == kGpt2);
    } else {
      any = any && type == "Digits", digits = true;
    }
  });
  LineCuts out = first.value_or(LineCuts{});
  out.any = any && bytes && first;
  return out;
}

}  // namespace tern::datasets::detail

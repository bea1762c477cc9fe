// The normalizers of tokenizer.json, and what decoders share with them.
#include <utf8proc.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "tern/core/base/error.h"
#include "tern/data/text/detail/bert_text.h"
#include "tern/data/text/detail/byte_bpe_chunks.h"
#include "tern/data/text/detail/canonical_order.h"
#include "tern/data/text/detail/pretrained_charsmap.h"
#include "tern/data/text/detail/pretrained_parts.h"
#include "tern/data/text/unicode.h"

namespace tern::data::detail {
namespace {

using nlohmann::json;

/// Replacing may make a text any number of times longer, and once more with each step.
void check_length(const std::string& text) {
  constexpr size_t kMost = 1 << 28;
  check(text.size() <= kMost, "the normalizers make a text of more than {} bytes", kMost);
}

std::string compatible(const std::string& text, int form) {
  utf8proc_uint8_t* out = nullptr;
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPAT | form);
  const std::string ordered = canonical_order(text);
  const auto n = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(ordered.data()),
                              static_cast<utf8proc_ssize_t>(ordered.size()), &out, options);
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(out, std::free);
  check(n >= 0, "normalizer: {}", utf8proc_errmsg(n));
  return {reinterpret_cast<const char*>(out), static_cast<size_t>(n)};
}

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
  size_t last = begin;  // behind the last character that is no space
  for (size_t at = begin; at < text.size();)
    if (!is_white_space(next_code_point(text, at))) last = at;
  if (right) end = last;
  return fragment_of(whole, begin, end - begin);
}

/// `change` of texts. What comes of the first character is what that is changed to by itself, or
/// where it is put together with what follows, the first character then. `inherits`: if it is
/// removed, the next character takes its place.
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

Normalizer bert_normalizer(const json& part) {
  const bool lower = part.at("lowercase");
  const json& strip = part.at("strip_accents");
  const bool accents = strip.is_null() ? lower : strip.get<bool>();
  const BertCleaning cleaning{.clean = part.at("clean_text"),
                              .split_cjk = part.at("handle_chinese_chars")};
  return changing([=](const std::string& text) {
    std::string out = bert_clean(text, cleaning);
    if (accents) out = without_accents(out);
    return lower ? lower_letters(out) : out;
  });
}

Normalizer replacing(const json& part) {
  const Matcher find = read_pattern(part.at("pattern"));
  const std::string by = part.at("content");
  return [=](const Fragment& text) { return replace_matches(text, find, by); };
}

Normalizer one_normalizer(const json& part) {
  const std::string type = type_of(part);
  if (type == "BertNormalizer") return bert_normalizer(part);
  if (type == "NFC") return changing([](const std::string& text) { return nfc(text); });
  if (type == "NFD") return changing([](const std::string& text) { return nfd(text); });
  if (type == "NFKC")
    return changing([](const std::string& text) { return compatible(text, UTF8PROC_COMPOSE); });
  if (type == "NFKD")
    return changing([](const std::string& text) { return compatible(text, UTF8PROC_DECOMPOSE); });
  if (type == "Lowercase")
    return changing([](const std::string& text) { return lower_letters(text); });
  if (type == "StripAccents") return changing(without_marks_of_any_kind);
  if (type == "Strip") {
    const bool left = part.at("strip_left"), right = part.at("strip_right");
    return [=](const Fragment& text) { return stripped(text, left, right); };
  }
  if (type == "Prepend") {
    const std::string front = part.at("prepend");
    return changing([=](const std::string& text) {
      return text.empty() ? text : std::string(front).append(text);
    });
  }
  if (type == "Replace") return replacing(part);
  if (type == "Precompiled") {
    const auto map = std::make_shared<const CharsMap>(
        part.at("precompiled_charsmap").get_ref<const std::string&>());
    return changing([=](const std::string& text) { return map->apply(text); }, true);
  }
  fail(fmt::format("the normalizer {} is not supported", type));
}

}  // namespace

std::string type_of(const json& part) {
  check(part.is_object() && part.contains("type"), "a part has no type");
  return part.at("type");
}

void for_each_part(const json& part, const char* list,
                   const std::function<void(const json&)>& read) {
  if (part.is_null()) return;
  if (type_of(part) != "Sequence") return read(part);
  for (const json& inner : part.at(list)) for_each_part(inner, list, read);
}

Normalizer read_normalizer(const json& part) {
  std::vector<Normalizer> all;
  for_each_part(part, "normalizers", [&](const json& p) { all.push_back(one_normalizer(p)); });
  return [all](Fragment text) {
    for (const Normalizer& n : all) {
      text = n(std::move(text));
      check_length(text.text);
    }
    return text;
  };
}

Matcher read_pattern(const json& pattern) {
  std::string literal;
  size_t least = 1;  // copies of one character that are a match together; 1: a literal
  if (pattern.contains("String")) {
    literal = pattern.at("String");
  } else {
    const std::string regex = pattern.at("Regex");
    if (regex == " {2,}") {
      literal.assign(1, ' ');
      least = 2;
    } else {
      check(regex.find_first_of("\\^$.|?*+()[]{}") == regex.npos,
            "the regular expression '{}' is not supported", regex);
      literal = regex;
    }
  }
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

Fragment fragment_of(const Fragment& whole, size_t begin, size_t size) {
  return {whole.text.substr(begin, size),
          whole.first > begin ? std::min(whole.first - begin, size) : 0};
}

// What replaces a match belongs to the match's last character.
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
    check_length(out.text);
  }
  keep(text.text.size());
  return out;
}

}  // namespace tern::data::detail

// The decoders and post-processors of tokenizer.json.
#include <algorithm>
#include <array>
#include <charconv>

#include "tern/core/base/error.h"
#include "tern/data/text/bpe/byte_bpe_chunks.h"
#include "tern/data/text/pretrained/pretrained_parts.h"
#include "tern/data/text/unicode/unicode.h"

namespace tern::datasets::detail {
namespace {

using Tokens = std::vector<std::string>;

std::string replaced(std::string text, std::string_view part, std::string_view by) {
  size_t at = 0;
  while (!part.empty() && (at = text.find(part, at)) != text.npos) {
    text.replace(at, part.size(), by);
    at += by.size();
  }
  return text;
}

/// Removes spaces before marks and English clitics.
std::string clean(std::string text) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 11> kRules = {
      {{" .", "."},
       {" ?", "?"},
       {" !", "!"},
       {" ,", ","},
       {" ' ", "'"},
       {" n't", "n't"},
       {" 'm", "'m"},
       {" do not", " don't"},
       {" 's", "'s"},
       {" 've", "'ve"},
       {" 're", "'re"}}};
  for (const auto& [part, by] : kRules) text = replaced(std::move(text), part, by);
  return text;
}

Decoder joined_word_pieces(const JsonValue& part) {
  const std::string prefix = part.get("prefix", "##");
  const bool cleanup = part.get("cleanup", true);
  return [=](Tokens tokens) {
    for (size_t i = 0; i < tokens.size(); ++i) {
      if (i > 0 && tokens[i].starts_with(prefix))
        tokens[i].erase(0, prefix.size());
      else if (i > 0)
        tokens[i].insert(0, 1, ' ');
      if (cleanup) tokens[i] = clean(std::move(tokens[i]));
    }
    return tokens;
  };
}

Tokens bytes_to_text(const Tokens& tokens) {
  std::string bytes;
  for (const std::string& token : tokens) bytes += unspelt(token).value_or(token);
  return {lossy_utf8(bytes)};
}

Decoder metaspace_decoder(const JsonValue& part) {
  part.ignore("split str_rep");
  const std::string mark = part.at("replacement").text();
  const std::string before = part.get("add_prefix_space", true) ? "always" : "never";
  const bool never = part.get("prepend_scheme", before) == "never";
  return [=](Tokens tokens) {
    for (size_t i = 0; i < tokens.size(); ++i)
      tokens[i] = replaced(std::move(tokens[i]), mark, i == 0 && !never ? "" : " ");
    return tokens;
  };
}

Decoder pairs(const JsonValue& part) {
  const std::string suffix = part.get("suffix", "</w>");
  return [=](Tokens tokens) {
    for (size_t i = 0; i < tokens.size(); ++i)
      tokens[i] = replaced(std::move(tokens[i]), suffix, i + 1 == tokens.size() ? "" : " ");
    return tokens;
  };
}

std::optional<char> byte_of(const std::string& token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return std::nullopt;
  unsigned value = 0;
  const auto [end, error] = std::from_chars(token.data() + 3, token.data() + 5, value, 16);
  if (error != std::errc() || end != token.data() + 5) return std::nullopt;
  return static_cast<char>(value);
}

/// Runs of byte tokens such as <0xE9> become text if they are UTF-8, else one U+FFFD per byte.
Tokens fallen_back(const Tokens& tokens) {
  Tokens out;
  std::string bytes;
  auto flush = [&] {
    if (bytes.empty()) return;
    if (find_invalid_utf8(bytes))
      out.insert(out.end(), bytes.size(), "\uFFFD");
    else
      out.push_back(bytes);
    bytes.clear();
  };
  for (const std::string& token : tokens) {
    if (const std::optional<char> byte = byte_of(token)) {
      bytes += *byte;
      continue;
    }
    flush();
    out.push_back(token);
  }
  flush();
  return out;
}

Decoder strip(const JsonValue& part) {
  const std::string content = part.at("content").text();
  const int64_t start = part.at("start").integer(), stop = part.at("stop").integer();
  check(!content.empty() && start >= 0 && stop >= 0,
        "Strip: content '{}', start {} and stop {} are not valid", content, start, stop);
  return [=](Tokens tokens) {
    for (std::string& token : tokens) {
      for (int64_t n = 0; n < start && token.starts_with(content); ++n)
        token.erase(0, content.size());
      for (int64_t n = 0; n < stop && token.ends_with(content); ++n)
        token.resize(token.size() - content.size());
    }
    return tokens;
  };
}

Decoder one_decoder(const JsonValue& part) {
  const std::string type = type_of(part);
  if (type == "WordPiece") return joined_word_pieces(part);
  if (type == "ByteLevel") {
    part.ignore("add_prefix_space trim_offsets use_regex");
    return bytes_to_text;
  }
  if (type == "Metaspace") return metaspace_decoder(part);
  if (type == "BPEDecoder") return pairs(part);
  if (type == "ByteFallback") return fallen_back;
  if (type == "Strip") return strip(part);
  if (type == "Fuse")
    return [](const Tokens& tokens) {
      std::string all;
      for (const std::string& token : tokens) all += token;
      return Tokens{all};
    };
  if (type == "Replace") {
    const Matcher find = read_pattern(part.at("pattern"));
    const std::string by = part.at("content").text();
    return [=](Tokens tokens) {
      int64_t bytes = 0;
      for (std::string& token : tokens) {
        token = replace_matches({token}, find, by).text;
        check_length(bytes += std::ssize(token));
      }
      return tokens;
    };
  }
  fail(fmt::format("the decoder {} is not supported", type));
}

std::vector<TemplatePiece> pieces_of(const JsonValue& list, const JsonValue& specials) {
  using Kind = TemplatePiece::Kind;
  std::vector<TemplatePiece> out;
  for (const JsonValue& item : list.elements()) {
    if (const JsonValue text = item.find("Sequence"); !text.is_null()) {
      const std::string id = text.at("id").text();
      check(id == "A" || id == "B", "TemplateProcessing: there is no text '{}'", id);
      out.push_back({id == "A" ? Kind::first : Kind::second, text.at("type_id").integer(), {}});
    } else {
      const JsonValue token = item.at("SpecialToken");
      const std::string name = token.at("id").text();
      check(specials.has(name), "TemplateProcessing: there is no token '{}'", name);
      out.push_back(
          {Kind::special, token.at("type_id").integer(), specials.at(name).at("ids").integers()});
    }
  }
  return out;
}

/// One text: cls A sep. A pair: cls A sep B sep with segments (BERT), or cls A sep sep B sep
/// without (RoBERTa).
PretrainedTemplate bert_template(const JsonValue& part, bool roberta) {
  using Kind = TemplatePiece::Kind;
  part.ignore("trim_offsets add_prefix_space");
  const std::vector<int64_t> cls = {part.at("cls").at(1).integer()};
  const std::vector<int64_t> sep = {part.at("sep").at(1).integer()};
  const int64_t b = roberta ? 0 : 1;
  PretrainedTemplate out;
  out.single = {{Kind::special, 0, cls}, {Kind::first, 0, {}}, {Kind::special, 0, sep}};
  out.pair = out.single;
  if (roberta) out.pair.push_back({Kind::special, 0, sep});
  out.pair.push_back({Kind::second, b, {}});
  out.pair.push_back({Kind::special, b, sep});
  return out;
}

}  // namespace

Decoder read_decoder(const JsonValue& part) {
  if (part.is_null())
    return [](Tokens tokens) {
      for (size_t i = 1; i < tokens.size(); ++i) tokens[i].insert(0, 1, ' ');
      return tokens;
    };
  std::vector<Decoder> all;
  for_each_part(part, "decoders", [&](const JsonValue& p) { all.push_back(one_decoder(p)); });
  return [all](Tokens tokens) {
    for (const Decoder& d : all) tokens = d(std::move(tokens));
    return tokens;
  };
}

TokenBytes read_token_bytes(const JsonValue& decoder) {
  bool byte_level = false, fallback = false;
  std::vector<std::pair<std::string, std::string>> marks;
  for_each_part(decoder, "decoders", [&](const JsonValue& p) {
    const std::string type = type_of(p);
    byte_level = byte_level || type == "ByteLevel";
    fallback = fallback || type == "ByteFallback";
    if (type == "Metaspace") marks.emplace_back(p.at("replacement").text(), " ");
    if (type == "BPEDecoder") marks.emplace_back(p.get("suffix", "</w>"), " ");
    if (type == "Replace")
      marks.emplace_back(p.at("pattern").get("String", ""), p.at("content").text());
  });
  return [=](const std::string& token) {
    if (byte_level) return unspelt(token).value_or(token);
    if (fallback)
      if (const std::optional<char> byte = byte_of(token)) return std::string(1, *byte);
    std::string text = token;
    for (const auto& [mark, by] : marks) text = replaced(std::move(text), mark, by);
    return text;
  };
}

PretrainedTemplate read_template(const JsonValue& part) {
  using Kind = TemplatePiece::Kind;
  std::optional<PretrainedTemplate> out;
  for_each_part(part, "processors", [&](const JsonValue& p) {
    const std::string type = type_of(p);
    if (type == "ByteLevel")  // it only moves offsets, which tern does not have
      return p.ignore("add_prefix_space trim_offsets use_regex");
    check(!out, "a second post-processor, {}, is not supported", type);
    if (type == "TemplateProcessing") {
      for (const JsonMember& m : p.at("special_tokens").members()) m.value.ignore("id ids tokens");
      out = {pieces_of(p.at("single"), p.at("special_tokens")),
             pieces_of(p.at("pair"), p.at("special_tokens"))};
    } else if (type == "BertProcessing" || type == "RobertaProcessing") {
      out = bert_template(p, type == "RobertaProcessing");
    } else {
      fail(fmt::format("the post-processor {} is not supported", type));
    }
  });
  if (out) return *out;
  return {{{Kind::first, 0, {}}}, {{Kind::first, 0, {}}, {Kind::second, 1, {}}}};
}

std::string lossy_utf8(std::string_view bytes) {
  std::string out;
  for (size_t at = 0; at < bytes.size();) {
    size_t end = at;
    const char32_t c = next_code_point(bytes, end);
    if (c != kReplacementCharacter || end - at > 1) {
      out.append(bytes.substr(at, end - at));
      at = end;
      continue;
    }
    // Counts the bytes that could begin a character, since some tail would complete it.
    const std::string_view rest = bytes.substr(at);
    size_t length = 1;
    for (const std::string_view tail : {"\x80", "\x9F", "\xBF", "\x80\x80", "\xBF\x80", "\x90\x80"})
      for (size_t n = std::min<size_t>(3, rest.size()); n > length; --n)
        if (!find_invalid_utf8(std::string(rest.substr(0, n)).append(tail))) length = n;
    out += "\uFFFD";
    at += length;
  }
  return out;
}

}  // namespace tern::datasets::detail

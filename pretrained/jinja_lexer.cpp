// The rules of jinja2/lexer.py, with trim_blocks and lstrip_blocks.
#include "tern/pretrained/jinja_lexer.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>

#include "tern/core/base/error.h"
#include "tern/core/base/parse_number.h"
#include "tern/core/base/utf8.h"
#include "tern/pretrained/jinja_value.h"

namespace tern::pretrained::jinja {
namespace {

using Kind = Token::Kind;

/// With "\n" as the only end of a line, and without the last one.
std::string one_kind_of_newline(std::string_view source) {
  std::string out;
  for (size_t i = 0; i < source.size(); ++i) {
    const bool both = source.substr(i, 2) == "\r\n";
    out += source[i] == '\r' ? '\n' : source[i];
    i += both;
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c & 0x80);
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(one_kind_of_newline(source)) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) {
      const size_t open = next_tag();
      const std::string_view mark = view(open, 2);
      const char sign = open + 2 < source_.size() ? source_[open + 2] : ' ';
      add_text(open, mark, sign);
      if (open == source_.npos) break;
      move_to(open + (sign == '-' || sign == '+' ? 3 : 2));
      if (mark == "{#") {
        find_end('#');
      } else if (mark != "{%" || !raw()) {
        add(mark == "{%" ? Kind::tag : Kind::print, std::string(mark));
        tokens_of_tag(mark == "{%" ? '%' : '}');
      }
    }
    add(Kind::end, "the end of the template");
    return std::move(tokens_);
  }

 private:
  std::string_view view(size_t from, size_t size = std::string::npos) const {
    return std::string_view(source_).substr(std::min(from, source_.size()), size);
  }
  void add(Kind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }
  void move_to(size_t to) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<ptrdiff_t>(at_),
                                         source_.begin() + static_cast<ptrdiff_t>(to), '\n'));
    at_ = to;
  }

  size_t next_tag() const {
    size_t open = at_;
    while ((open = source_.find('{', open)) != source_.npos) {
      const char next = open + 1 < source_.size() ? source_[open + 1] : ' ';
      if (next == '{' || next == '%' || next == '#') break;
      ++open;
    }
    return open;
  }

  /// The text before a tag, without the white space that the tag takes away.
  void add_text(size_t end, std::string_view mark, char sign) {
    const std::string_view all = view(at_, end - at_);
    std::string_view text = all;
    if (end != source_.npos && sign == '-') {
      text = strip(text, nullptr, false, true);
    } else if (end != source_.npos && sign != '+' && mark != "{{") {
      const size_t line = text.rfind('\n') + 1;
      if ((line > 0 || starts_line_) && strip(text.substr(line), nullptr, true, false).empty())
        text = text.substr(0, line);
    }
    if (!text.empty()) add(Kind::text, std::string(text));
    move_to(at_ + all.size());
  }

  /// Moves behind the end of a tag at this place; false if there is none. `mark` is the first
  /// character of the end: % of "%}".
  bool take_end(char mark) {
    const std::string_view rest = view(at_);
    const bool minus = rest.starts_with('-'), plus = rest.starts_with('+') && mark != '}';
    const size_t from = minus || plus;
    if (rest.substr(from, 2) != std::string({mark, '}'})) return false;
    const size_t behind = at_ + from + 2, begin = at_;
    size_t to = behind;
    if (minus)
      to = source_.size() - strip(view(behind), nullptr, true, false).size();
    else if (!plus && mark != '}' && view(behind).starts_with('\n'))
      ++to;
    move_to(to);
    starts_line_ = view(begin, to - begin).ends_with('\n');
    return true;
  }

  void find_end(char mark) {
    const int begin = line_;
    while (at_ < source_.size()) {
      if (take_end(mark)) return;
      move_to(at_ + 1);
    }
    fail_at(begin, "a comment does not end");
  }

  /// Reads {% raw %} to its end. False if the tag is another one.
  bool raw() {
    const size_t begin = at_;
    const int line = line_;
    skip_space();
    if (!view(at_).starts_with("raw")) return move_back(begin, line);
    at_ += 3;
    skip_space();
    // Raw text keeps its first newline: trim_blocks does not apply here.
    const bool minus = view(at_).starts_with("-%}");
    if (!minus && !view(at_).starts_with("%}")) return move_back(begin, line);
    move_to(at_ + (minus ? 3 : 2));
    if (minus) skip_space();
    starts_line_ = view(0, at_).ends_with('\n');
    for (size_t open = at_; (open = source_.find("{%", open)) != source_.npos; ++open) {
      const char sign = open + 2 < source_.size() ? source_[open + 2] : ' ';
      const size_t name = open + (sign == '-' || sign == '+' ? 3 : 2);
      const std::string_view rest = strip(view(name), nullptr, true, false);
      if (!rest.starts_with("endraw")) continue;
      const std::string_view end = strip(rest.substr(6), nullptr, true, false);
      if (!end.starts_with("%}") && !end.starts_with("-%}") && !end.starts_with("+%}")) continue;
      add_text(open, "{%", sign);
      move_to(source_.size() - end.size());
      return take_end('%');
    }
    fail_at(line, "a raw block does not end");
  }
  bool move_back(size_t to, int line) {
    at_ = to;
    line_ = line;
    return false;
  }

  void skip_space() { move_to(source_.size() - strip(view(at_), nullptr, true, false).size()); }

  void tokens_of_tag(char mark) {
    const int begin = line_;
    int open = 0;  // brackets: "}}" in one ends two dicts
    for (;;) {
      if (open == 0 && take_end(mark)) return add(Kind::close, "the end of the tag");
      if (at_ >= source_.size()) fail_at(begin, "a tag does not end");
      const char c = source_[at_];
      if (is_space(characters(view(at_, 4)).front()))
        skip_space();
      else if (is_digit(c))
        number();
      else if (is_letter(c))
        name();
      else if (c == '\'' || c == '"')
        string(c);
      else
        symbol(open);
    }
  }

  void name() {
    size_t end = at_;
    while (end < source_.size() && (is_letter(source_[end]) || is_digit(source_[end]))) ++end;
    constexpr size_t kMostName = 200;
    if (end - at_ > kMostName) fail_at(line_, fmt::format("a name has {} bytes", end - at_));
    add(Kind::name, std::string(view(at_, end - at_)));
    at_ = end;
  }

  void number() {
    std::string digits;
    bool real = false;
    const bool index = at_ > 0 && source_[at_ - 1] == '.';  // of a list: pair.0.1
    auto take_digits = [&] {
      while (at_ < source_.size() && (is_digit(source_[at_]) || source_[at_] == '_')) {
        if (source_[at_] != '_') digits += source_[at_];
        ++at_;
      }
    };
    auto digit_at = [&](size_t at) { return at < source_.size() && is_digit(source_[at]); };
    take_digits();
    if (!index && view(at_).starts_with('.') && digit_at(at_ + 1)) {
      real = true;
      digits += source_[at_++];
      take_digits();
    }
    const bool sign =
        at_ + 1 < source_.size() && (source_[at_ + 1] == '-' || source_[at_ + 1] == '+');
    if (!index && (view(at_).starts_with('e') || view(at_).starts_with('E')) &&
        digit_at(at_ + 1 + sign)) {
      real = true;
      digits += view(at_, 1 + sign);
      at_ += 1 + sign;
      take_digits();
    }
    add(real ? Kind::real : Kind::integer, digits);
    const char *from = digits.data(), *to = from + digits.size();
    const auto result = real ? tern::detail::parse_number(from, to, tokens_.back().real)
                             : std::from_chars(from, to, tokens_.back().integer);
    if (result.ec != std::errc() || result.ptr != to) fail_at(line_, "the number " + digits);
  }

  void string(char quote) {
    const int begin = line_;
    std::string out;
    for (move_to(at_ + 1); at_ < source_.size() && source_[at_] != quote;) {
      if (source_[at_] == '\\' && at_ + 1 < source_.size()) {
        escape(out);
      } else {
        out += source_[at_];
        move_to(at_ + 1);
      }
    }
    if (at_ >= source_.size()) fail_at(begin, "a string does not end");
    ++at_;
    tokens_.push_back({Kind::string, std::move(out), begin});
  }

  /// An escape as in Python; an unknown one stays as it is written.
  void escape(std::string& out) {
    static constexpr std::string_view kLetters = "\\'\"abfnrtv", kBytes = "\\'\"\a\b\f\n\r\t\v";
    const char c = source_[at_ + 1];
    const size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    const std::string_view hex = view(at_ + 2, digits);
    uint32_t code = 0;
    if (const size_t letter = kLetters.find(c); letter != kLetters.npos) {
      out += kBytes[letter];
    } else if (digits) {
      const auto end = std::from_chars(hex.data(), hex.data() + hex.size(), code, 16).ptr;
      if (end != hex.data() + digits || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000))
        fail_at(line_, fmt::format("the escape {}", view(at_, 2 + digits)));
      append_utf8(out, code);
    } else if (c >= '0' && c <= '7') {
      size_t n = 1;
      while (n < 3 && n < view(at_ + 1).size() && view(at_ + 1)[n] >= '0' &&
             view(at_ + 1)[n] <= '7')
        ++n;
      std::from_chars(&source_[at_ + 1], &source_[at_ + 1] + n, code, 8);
      append_utf8(out, code);
      return move_to(at_ + 1 + n);
    } else if (c != '\n') {
      (out += '\\') += c;
    }
    move_to(at_ + 2 + digits);
  }

  void symbol(int& open) {
    static constexpr std::string_view kDouble[] = {"//", "**", "==", "!=", ">=", "<="};
    const std::string_view two = view(at_, 2);
    const bool is_double =
        std::find(std::begin(kDouble), std::end(kDouble), two) != std::end(kDouble);
    const std::string_view text = is_double ? two : view(at_, 1);
    static constexpr std::string_view kSingle = "+-/*%~[](){}><=.:|,;";
    if (!is_double && kSingle.find(text[0]) == kSingle.npos)
      fail_at(line_, fmt::format("unexpected '{}'", characters(view(at_, 4)).front()));
    if (text == "(" || text == "[" || text == "{") ++open;
    if (text == ")" || text == "]" || text == "}")
      if (--open < 0) fail_at(line_, fmt::format("unexpected '{}'", text));
    add(Kind::symbol, std::string(text));
    at_ += text.size();
  }

  std::string source_;
  size_t at_ = 0;
  int line_ = 1;
  bool starts_line_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> cut_template(std::string_view source) { return Lexer(source).run(); }

void fail_at(int line, const std::string& reason) {
  fail(fmt::format("chat template, line {}: {}", line, reason));
}

}  // namespace tern::pretrained::jinja

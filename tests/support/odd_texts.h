// Texts as other programs and systems write them: line ends, byte order marks, encodings, and files
// that are not text. `lines` is what Python reads with list(open(path, encoding=E)), without line
// ends; E is utf-16 if the bytes begin with its mark, else utf-8-sig.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tern::test {

struct OddText {
  const char* name;
  std::string bytes;
  std::vector<std::string> lines;
};

/// The text in UTF-16, big or little endian, with or without a byte order mark.
inline std::string utf16(std::u16string_view text, bool big, bool mark = true) {
  std::string out;
  const auto put = [&](char16_t c) {
    const char low = static_cast<char>(c & 0xFF), high = static_cast<char>(c >> 8);
    out += big ? high : low;
    out += big ? low : high;
  };
  if (mark) put(0xFEFF);
  for (char16_t c : text) put(c);
  return out;
}

inline std::vector<OddText> odd_texts() {
  const std::u16string_view wide = u"\u00e9t\u00e9\r\n\u0416\u4e2d\U0001F600\tx\rlast\n";
  const std::vector<std::string> narrow = {"\u00e9t\u00e9", "\u0416\u4e2d\U0001F600\tx", "last"};
  return {
      {"LF", "a\nb\n", {"a", "b"}},
      {"CRLF", "a\r\nb\r\n", {"a", "b"}},
      {"CR", "a\rb\rc", {"a", "b", "c"}},
      {"CR at the end", "a\rb\r", {"a", "b"}},
      {"mixed",
       "a\rb\nc\r\nd\r\re\n\nf\r\n\rg\n\rh",
       {"a", "b", "c", "d", "", "e", "", "f", "", "g", "", "h"}},
      {"CR CR LF", "a\r\r\nb", {"a", "", "b"}},
      {"empty lines", "\n\r\n\r", {"", "", ""}},
      {"no end", "a", {"a"}},
      {"UTF-8 with a mark", "\xEF\xBB\xBF\u00e9\r\nb", {"\u00e9", "b"}},
      {"a mark inside",
       "a\n\xEF\xBB\xBF"
       "b\n",
       {"a",
        "\xEF\xBB\xBF"
        "b"}},
      {"UTF-16, little", utf16(wide, false), narrow},
      {"UTF-16, big", utf16(wide, true), narrow},
      {"UTF-16 of Excel", utf16(u"a\tb\r\n1\t2\r\n", false), {"a\tb", "1\t2"}},
      {"separators of Unicode end no line",
       "a\u2028b\u0085c\x0b"
       "d\x0c"
       "e\x1c"
       "f\n",
       {"a\u2028b\u0085c\x0b"
        "d\x0c"
        "e\x1c"
        "f"}},
  };
}

/// Files that users mistake for text, and part of the error about each.
struct NoText {
  std::string bytes;
  const char* said;
};
inline std::vector<NoText> no_texts() {
  std::string tar = "notes.txt" + std::string(248, '\0') + "ustar" + std::string(250, '\0');
  return {
      {"%PDF-1.7\n%\xE2\xE3\xCF\xD3\n", "is not text but a PDF file"},
      {std::string("PK\3\4\x14\0\6\0", 8), "is not text but a zip archive, as docx"},
      {"\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1 of Word", "is not text but a Word, Excel or Outlook file"},
      {"{\\rtf1\\ansi hello}", "is not text but an RTF file"},
      {"\x89PNG\r\n\x1a\n", "is not text but a PNG file"},
      {"\xFF\xD8\xFF\xE0 JFIF", "is not text but a JPEG file"},
      {std::string("\xFD"
                   "7zXZ\0",
                   6),
       "is not text but an xz file"},
      {tar, "is not text but a tar archive"},
      {std::string("\xFF\xFE\0\0a\0\0\0", 8), "is UTF-32"},
      {utf16(u"letters", false, false),
       "is UTF-16 without a byte order mark; convert it with iconv "
       "-f utf-16le"},
      {utf16(u"letters", true, false), "iconv -f utf-16be"},
      {utf16(u"a", false) + "b", "byte 5 is not valid UTF-16"},  // half a code unit
      {utf16(u"a\xD83D", false), "byte 7 is not valid UTF-16"},  // half a surrogate pair
      {utf16(u"a\xD83D"
             u"b",
             false),
       "byte 7 is not valid UTF-16"},
      {utf16(u"a\xDE00", true), "byte 5 is not valid UTF-16"},
      {"caf\xE9", "is not valid UTF-8"},
  };
}

}  // namespace tern::test

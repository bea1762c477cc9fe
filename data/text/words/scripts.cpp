// The table of Unicode blocks with their scripts, and the scripts without spaces between words.
#include "tern/data/text/words/scripts.h"

#include <algorithm>
#include <array>
#include <iterator>

namespace tern::datasets::detail {
namespace {

struct Block {
  char32_t first, last;
  std::string_view script;
};

// Sorted by code point.
constexpr Block kBlocks[] = {
    {0x0041, 0x024F, "Latin"},     {0x0370, 0x03FF, "Greek"},      {0x0400, 0x052F, "Cyrillic"},
    {0x0531, 0x058F, "Armenian"},  {0x0591, 0x05FF, "Hebrew"},     {0x0600, 0x06FF, "Arabic"},
    {0x0700, 0x074F, "Syriac"},    {0x0750, 0x077F, "Arabic"},     {0x0780, 0x07BF, "Thaana"},
    {0x0870, 0x08FF, "Arabic"},    {0x0900, 0x097F, "Devanagari"}, {0x0980, 0x09FF, "Bengali"},
    {0x0A00, 0x0A7F, "Gurmukhi"},  {0x0A80, 0x0AFF, "Gujarati"},   {0x0B00, 0x0B7F, "Oriya"},
    {0x0B80, 0x0BFF, "Tamil"},     {0x0C00, 0x0C7F, "Telugu"},     {0x0C80, 0x0CFF, "Kannada"},
    {0x0D00, 0x0D7F, "Malayalam"}, {0x0D80, 0x0DFF, "Sinhala"},    {0x0E00, 0x0E7F, "Thai"},
    {0x0E80, 0x0EFF, "Lao"},       {0x0F00, 0x0FFF, "Tibetan"},    {0x1000, 0x109F, "Burmese"},
    {0x10A0, 0x10FF, "Georgian"},  {0x1100, 0x11FF, "Hangul"},     {0x1200, 0x139F, "Ethiopic"},
    {0x13A0, 0x13FF, "Cherokee"},  {0x1780, 0x17FF, "Khmer"},      {0x1800, 0x18AF, "Mongolian"},
    {0x1C90, 0x1CBF, "Georgian"},  {0x1E00, 0x1EFF, "Latin"},      {0x1F00, 0x1FFF, "Greek"},
    {0x2C60, 0x2C7F, "Latin"},     {0x2DE0, 0x2DFF, "Cyrillic"},   {0x2E80, 0x2FDF, "Han"},
    {0x3005, 0x3007, "Han"},       {0x3021, 0x3029, "Han"},        {0x3038, 0x303B, "Han"},
    {0x3041, 0x30FF, "Japanese"},  {0x3105, 0x312F, "Bopomofo"},   {0x3131, 0x318F, "Hangul"},
    {0x31A0, 0x31BF, "Bopomofo"},  {0x31F0, 0x31FF, "Japanese"},   {0x3400, 0x4DBF, "Han"},
    {0x4E00, 0x9FFF, "Han"},       {0xA640, 0xA69F, "Cyrillic"},   {0xA720, 0xA7FF, "Latin"},
    {0xA960, 0xA97F, "Hangul"},    {0xAC00, 0xD7FF, "Hangul"},     {0xF900, 0xFAFF, "Han"},
    {0xFB00, 0xFB06, "Latin"},     {0xFB1D, 0xFB4F, "Hebrew"},     {0xFB50, 0xFDFF, "Arabic"},
    {0xFE70, 0xFEFC, "Arabic"},    {0xFF21, 0xFF5A, "Latin"},      {0xFF66, 0xFF9F, "Japanese"},
    {0xFFA0, 0xFFDC, "Hangul"},    {0x1B000, 0x1B16F, "Japanese"}, {0x20000, 0x323AF, "Han"}};

constexpr std::array<std::string_view, 7> kUnspaced = {"Han", "Japanese", "Bopomofo", "Thai",
                                                       "Lao", "Burmese",  "Khmer"};

}  // namespace

std::string_view script_of(char32_t c) {
  const auto* after = std::upper_bound(std::begin(kBlocks), std::end(kBlocks), c,
                                       [](char32_t l, const Block& b) { return l < b.first; });
  if (after == std::begin(kBlocks) || c > (after - 1)->last) return "";
  return (after - 1)->script;
}

bool is_unspaced(char32_t c) {
  if (c < 0x0E00) return false;
  return std::find(kUnspaced.begin(), kUnspaced.end(), script_of(c)) != kUnspaced.end();
}

}  // namespace tern::datasets::detail

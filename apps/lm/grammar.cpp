#include "tern/apps/lm/grammar.h"

#include <fmt/format.h>

#include <array>
#include <string_view>

#include "tern/core/base/error.h"
#include "tern/core/base/rng.h"

namespace tern::apps::lm {
namespace {

struct Person {
  const char *name, *he, *him, *his;
};
constexpr Person kPeople[] = {
    {"Anna", "she", "her", "her"}, {"Tom", "he", "him", "his"},    {"Maria", "she", "her", "her"},
    {"Paul", "he", "him", "his"},  {"Nadia", "she", "her", "her"}, {"Omar", "he", "him", "his"},
    {"Lucy", "she", "her", "her"}, {"Ben", "he", "him", "his"},
};
constexpr const char* kThings[] = {"apple", "book", "ball",   "stone", "key",
                                   "coin",  "pear", "candle", "shell", "cup"};
constexpr const char* kColours[] = {"red",   "green", "blue",  "yellow",
                                    "white", "black", "small", "old"};
constexpr const char* kPlaces[] = {"the garden", "the kitchen", "the park",  "the old house",
                                   "the market", "the school",  "the forest"};
constexpr const char* kAnimals[] = {"dog", "cat", "bird", "horse", "fox"};
constexpr const char* kFeelings[] = {"happy", "sad", "tired", "hungry", "proud"};
constexpr std::array kNumbers = {"no",  "one",   "two",   "three", "four", "five",
                                 "six", "seven", "eight", "nine",  "ten"};

template <class T, size_t n>
const T& pick(Rng& rng, const T (&from)[n]) {
  return from[static_cast<size_t>(rng.below(static_cast<int64_t>(n)))];
}

/// "three red apples", "one red apple".
std::string counted(int64_t n, const std::string& thing) {
  return fmt::format("{} {}{}", kNumbers[static_cast<size_t>(n)], thing, n == 1 ? "" : "s");
}

std::string with_article(const std::string& thing) {
  return (std::string_view("aeiou").find(thing[0]) == std::string_view::npos ? "a " : "an ") +
         thing;
}

std::string capital(std::string s) {
  s[0] = static_cast<char>(s[0] - 'a' + 'A');
  return s;
}

struct Cast {
  Person first, second;
  std::string thing, place, other_place;
};

Cast draw_cast(Rng& rng) {
  Cast c{pick(rng, kPeople), pick(rng, kPeople), "", pick(rng, kPlaces), pick(rng, kPlaces)};
  while (c.second.name == c.first.name) c.second = pick(rng, kPeople);
  while (c.other_place == c.place) c.other_place = pick(rng, kPlaces);
  c.thing = fmt::format("{} {}", pick(rng, kColours), pick(rng, kThings));
  return c;
}

std::string giving(Rng& rng) {
  const Cast c = draw_cast(rng);
  const int64_t has = 2 + rng.below(9), gives = 1 + rng.below(has), left = has - gives;
  std::string s = fmt::format("{} has {}. {} meets {} in {}. {} gives {} {}.", c.first.name,
                              counted(has, c.thing), capital(c.first.he), c.second.name, c.place,
                              c.first.name, c.second.him, counted(gives, c.thing));
  s += fmt::format(" Now {} has {} and {} has {}.", c.first.name, counted(left, c.thing),
                   c.second.name, counted(gives, c.thing));
  return s;
}

std::string searching(Rng& rng) {
  const Cast c = draw_cast(rng);
  std::string s =
      fmt::format("{} lost {} {} in {}. {} looked for it in {}, but it was not there.",
                  c.first.name, c.first.his, c.thing, c.place, capital(c.first.he), c.other_place);
  s +=
      fmt::format(" Then {} came and said: \"Your {} is in {}!\" So {} went to {} and found {} {}.",
                  c.second.name, c.thing, c.place, c.first.name, c.place, c.first.his, c.thing);
  return s;
}

std::string animal(Rng& rng) {
  const Cast c = draw_cast(rng);
  const std::string beast = fmt::format("{} {}", pick(rng, kColours), pick(rng, kAnimals));
  const std::string feeling = pick(rng, kFeelings);
  std::string s = fmt::format("There was {} in {}. It was {}, because it had no friend. ",
                              with_article(beast), c.place, feeling);
  s += fmt::format(
      "One day {} came to {} with {} {}. The {} liked {}, and the {} was not {} any "
      "more.",
      c.first.name, c.place, c.first.his, c.thing, beast, c.first.him, beast, feeling);
  return s;
}

std::string talking(Rng& rng) {
  const Cast c = draw_cast(rng);
  const std::string other = fmt::format("{} {}", pick(rng, kColours), pick(rng, kThings));
  std::string s = fmt::format("\"Where is the {}?\" asked {}. \"It is in {},\" said {}. ", c.thing,
                              c.first.name, c.place, c.second.name);
  s += fmt::format(
      "\"And the {}?\" \"That is in {}.\" So {} took the {} from {} and the {} from {}.", other,
      c.other_place, c.first.he, c.thing, c.place, other, c.other_place);
  return s;
}

}  // namespace

std::string generate_stories(int64_t bytes, uint64_t seed) {
  check(bytes >= 0, "generate_stories: {} bytes", bytes);
  constexpr std::string (*kStories[])(Rng&) = {giving, searching, animal, talking};
  Rng rng(seed);
  std::string text;
  while (static_cast<int64_t>(text.size()) < bytes) text += pick(rng, kStories)(rng) + "\n";
  return text;
}

}  // namespace tern::apps::lm

// Templates of the stories, their vocabulary, and the random choices that fill them.
#include "tern/apps/lm/grammar.h"

#include <fmt/format.h>

#include <algorithm>
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

// "|" separates sentences. {A} is a person ({he}, {him}, {his}); {B} is another person ({b_him}).
constexpr const char* kStories[] = {
    "{A} has {had}.|{He} meets {B} in {place}.|{A} gives {b_him} {given}.|Now {A} has {left} and "
    "{B} has {given}.",
    "{A} lost {his} {thing} in {place}.|{He} looked for it in {elsewhere}, but it was not there.|"
    "Then {B} came and said: \"Your {thing} is in {place}!\"|So {A} went to {place} and found "
    "{his} "
    "{thing}.",
    "There was {a_beast} in {place}.|It was {feeling}, because it had no friend.|One day {A} came "
    "to {place} with {his} {thing}.|The {beast} liked {him}, and the {beast} was not {feeling} any "
    "more.",
    "\"Where is the {thing}?\" asked {A}.|\"It is in {place},\" said {B}.|\"And the {other}?\"|"
    "\"That is in {elsewhere}.\"|So {he} took the {thing} from {place} and the {other} from "
    "{elsewhere}."};
enum Story { giving, searching, animal, talking };

std::string tell(Rng& rng) {
  const int64_t kind = rng.below(std::ssize(kStories));
  Person a = pick(rng, kPeople), b = pick(rng, kPeople);
  const char *place = pick(rng, kPlaces), *elsewhere = pick(rng, kPlaces);
  while (b.name == a.name) b = pick(rng, kPeople);
  while (elsewhere == place) elsewhere = pick(rng, kPlaces);
  auto coloured = [&](const auto& things) {
    const std::string thing = pick(rng, things);
    return pick(rng, kColours) + (" " + thing);
  };
  const std::string thing = coloured(kThings);
  int64_t has = 0, gives = 0;
  if (kind == giving) has = 2 + rng.below(9), gives = 1 + rng.below(has);
  const std::string beast = kind == animal ? coloured(kAnimals) : "";
  const std::string feeling = kind == animal ? pick(rng, kFeelings) : "";
  const std::string other = kind == talking ? coloured(kThings) : "";
  using fmt::arg;
  return fmt::format(fmt::runtime(kStories[kind]), arg("A", a.name), arg("he", a.he),
                     arg("him", a.him), arg("his", a.his), arg("He", a.he[0] == 's' ? "She" : "He"),
                     arg("B", b.name), arg("b_him", b.him), arg("place", place),
                     arg("elsewhere", elsewhere), arg("thing", thing),
                     arg("had", counted(has, thing)), arg("given", counted(gives, thing)),
                     arg("left", counted(has - gives, thing)), arg("a_beast", with_article(beast)),
                     arg("beast", beast), arg("feeling", feeling), arg("other", other));
}

}  // namespace

std::string generate_stories(int64_t bytes, uint64_t seed, bool by_sentence) {
  check(bytes >= 0, "generate_stories: {} bytes", bytes);
  Rng rng(seed);
  std::string text;
  for (int64_t made = 0; made < bytes;) {
    std::string story = tell(rng);
    made += std::ssize(story) + 1;
    std::replace(story.begin(), story.end(), '|', by_sentence ? '\n' : ' ');
    text += story + (by_sentence ? "\n\n" : "\n");
  }
  return text;
}

}  // namespace tern::apps::lm

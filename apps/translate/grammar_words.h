// The words of grammar.h, and sentences before they are English or French.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "tern/core/base/rng.h"
#include "tern/data/text/pairs.h"

namespace tern::apps::translate::grammar {

enum class Gender { masculine, feminine };

/// What a noun stands for; sets of kinds say what goes with what.
enum Kind : unsigned { kPerson = 1, kAnimal = 2, kFood = 4, kThing = 8, kText = 16, kPlace = 32 };
inline constexpr unsigned kAlive = kPerson | kAnimal;
inline constexpr unsigned kGoods = kFood | kThing | kText;
inline constexpr unsigned kAny = kAlive | kGoods | kPlace;

struct Noun {
  std::string_view english, english_plural, french, french_plural;
  Gender gender;
  Kind kind;
};

struct Adjective {
  std::string_view english;
  std::string_view masculine, before_vowel, feminine, masculine_plural, feminine_plural;
  bool before;       ///< stands before its noun in French
  unsigned kinds;    ///< of nouns that can be so
  bool predicative;  ///< "X is ADJECTIVE" is said with the same French word
};

enum class Past { composed, imperfect };  ///< how French says the English simple past
enum class Auxiliary { avoir, etre };

struct Verb {
  std::string_view english, third, past, progressive;  ///< look, looks, looked, looking
  std::string_view after;                              ///< ends each of them: for, back
  std::array<std::string_view, 5> present;             ///< je, il, nous, vous, ils
  std::string_view future;                             ///< stem
  std::string_view participle;
  unsigned subjects;       ///< kinds that can do it
  unsigned objects;        ///< kinds it is done to; 0: no object
  bool continuous = true;  ///< "is ...ing" is said
  Past past_form = Past::composed;
  Auxiliary auxiliary = Auxiliary::avoir;
  bool to_places = false;      ///< needs "to the ..."
  bool only_definite = false;  ///< "likes apples" is said otherwise in French: aime les pommes
};

struct Phrase {
  std::string_view english, french;
};

enum class Determiner { the, a, my, your, his, our, their, this_, number };
enum class Pronoun { none, i, you, he, she, we, they };
enum class Tense { present, progressive, past, past_progressive, future };

struct NounPhrase {
  const Noun* noun = nullptr;
  bool plural = false;
  Determiner determiner = Determiner::the;
  int number = 2;  ///< 2 to 12, where the determiner is a number; the noun is plural then
  const Adjective* adjective = nullptr;
};

struct Place {
  const Phrase* preposition = nullptr;
  NounPhrase where;
};

/// Subject, verb, object, place, time. Without a verb it is "subject is predicate".
struct Clause {
  Pronoun subject_pronoun = Pronoun::none;
  NounPhrase subject = {};  ///< if there is no pronoun
  const Verb* verb = nullptr;
  const Adjective* predicate = nullptr;
  Tense tense = Tense::present;
  bool negated = false, question = false;
  Pronoun object_pronoun = Pronoun::none;
  std::optional<NounPhrase> object = {};
  std::optional<Place> place = {};
  const Phrase* time = nullptr;
};

/// One clause, or two with a word between.
struct Sentence {
  Clause first = {};
  const Phrase* link = nullptr;
  std::optional<Clause> second = {};
};

std::span<const Noun> nouns();
std::span<const Adjective> adjectives();
std::span<const Verb> verbs();
std::span<const Phrase> prepositions();  ///< of places; the last is for verbs with to_places
std::span<const Phrase> links();         ///< and, but, because

bool is_plural(const Clause& clause);  ///< the subject
std::string english(const Sentence& sentence);
std::string french(const Sentence& sentence);
Sentence random_sentence(Rng& rng);

}  // namespace tern::apps::translate::grammar

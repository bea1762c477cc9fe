// Generates English sentences with their French translations, for trying models without a file:
// "Did these birds sing in my school?", "Est-ce que ces oiseaux ont chanté dans mon école ?"
// French needs gender and number, adjectives before or after the noun, tenses, and elision.
#include <string_view>
#include <unordered_set>

#include "tern/apps/translate/corpus.h"
#include "tern/core/base/error.h"
#include "tern/core/base/rng.h"

namespace tern::apps::translate {
namespace {

enum Gender { m, f };
enum Kind { being, thing, place };

struct Noun {
  const char *english, *english_plural, *french, *french_plural;
  Gender gender;
  Kind kind;
};
constexpr Noun kNouns[] = {
    {"man", "men", "homme", "hommes", m, being},
    {"girl", "girls", "fille", "filles", f, being},
    {"child", "children", "enfant", "enfants", m, being},
    {"cat", "cats", "chat", "chats", m, being},
    {"dog", "dogs", "chien", "chiens", m, being},
    {"horse", "horses", "cheval", "chevaux", m, being},
    {"bird", "birds", "oiseau", "oiseaux", m, being},
    {"mouse", "mice", "souris", "souris", f, being},
    {"apple", "apples", "pomme", "pommes", f, thing},
    {"egg", "eggs", "œuf", "œufs", m, thing},
    {"orange", "oranges", "orange", "oranges", f, thing},
    {"book", "books", "livre", "livres", m, thing},
    {"house", "houses", "maison", "maisons", f, place},
    {"garden", "gardens", "jardin", "jardins", m, place},
    {"school", "schools", "école", "écoles", f, place},
    {"hotel", "hotels", "hôtel", "hôtels", m, place},
    {"forest", "forests", "forêt", "forêts", f, place},
};

struct Adjective {
  const char *english, *masculine, *before_vowel, *feminine, *masculine_plural;
  bool before;  ///< stands before its noun in French
};
constexpr Adjective kAdjectives[] = {
    {"big", "grand", "grand", "grande", "grands", true},
    {"small", "petit", "petit", "petite", "petits", true},
    {"old", "vieux", "vieil", "vieille", "vieux", true},
    {"beautiful", "beau", "bel", "belle", "beaux", true},
    {"strange", "étrange", "étrange", "étrange", "étranges", false},
    {"quiet", "silencieux", "silencieux", "silencieuse", "silencieux", false},
};

struct Article {
  const char *english, *english_plural;
  const char *masculine, *masculine_vowel, *feminine, *feminine_vowel, *plural;
};
constexpr Article kArticles[] = {
    {"the", "the", "le ", "l'", "la ", "l'", "les "},
    {"my", "my", "mon ", "mon ", "ma ", "mon ", "mes "},
    {"this", "these", "ce ", "cet ", "cette ", "cette ", "ces "},
    {"a", nullptr, "un ", "un ", "une ", "une ", nullptr},  // must be last: it has no plural
};

struct Verb {
  const char *english[2], *past, *present[2], *future, *participle;  // [2]: singular, plural
  bool has_object;
};
constexpr Verb kVerbs[] = {
    {{"sleeps", "sleep"}, "slept", {"dort", "dorment"}, "dormir", "dormi", false},
    {{"sings", "sing"}, "sang", {"chante", "chantent"}, "chanter", "chanté", false},
    {{"sees", "see"}, "saw", {"voit", "voient"}, "verr", "vu", true},
    {{"loses", "lose"}, "lost", {"perd", "perdent"}, "perdr", "perdu", true},
    {{"draws", "draw"}, "drew", {"dessine", "dessinent"}, "dessiner", "dessiné", true},
    {{"hears", "hear"}, "heard", {"entend", "entendent"}, "entendr", "entendu", true},
    {{"forgets", "forget"}, "forgot", {"oublie", "oublient"}, "oublier", "oublié", true},
    {{"looks for", "look for"},
     "looked for",
     {"cherche", "cherchent"},
     "chercher",
     "cherché",
     true},
};
enum Tense { present, past, future };
// By tense; singular and plural.
constexpr const char* kBe[][2] = {{"is", "are"}, {"was", "were"}, {"will", "will"}};
constexpr const char* kDo[][2] = {{"does", "do"}, {"did", "did"}, {"will", "will"}};
constexpr const char* kEtre[][2] = {{"est", "sont"}, {"était", "étaient"}, {"sera", "seront"}};
constexpr const char* kAvoir[] = {"a", "ont"};  // also the endings of every future

struct Phrase {
  std::string english, french;
};
const Phrase kNumbers[] = {{"two", "deux"}, {"three", "trois"}, {"six", "six"}, {"ten", "dix"}};
const Phrase kPlaces[] = {{"in", "dans"}, {"behind", "derrière"}, {"in front of", "devant"}};
const Phrase kDays[][2] = {{{"every day", "tous les jours"}, {"on Sundays", "le dimanche"}},
                           {{"yesterday", "hier"}, {"last week", "la semaine dernière"}},
                           {{"tomorrow", "demain"}, {"tonight", "ce soir"}}};

struct NounPhrase {
  Phrase words;
  bool plural = false;
  Gender gender = m;
};
const NounPhrase kPronouns[] = {
    {{"he", "il"}}, {{"she", "elle"}, false, f}, {{"they", "ils"}, true}};

bool chance(Rng& rng, double p) { return rng.uniform() < p; }

template <class T, size_t n>
const T& pick(Rng& rng, const T (&from)[n]) {
  return from[static_cast<size_t>(rng.below(static_cast<int64_t>(n)))];
}

// Joins words with spaces; leaves out empty ones.
std::string join(std::initializer_list<std::string_view> words) {
  std::string line;
  for (const std::string_view word : words)
    if (!word.empty()) line.append(line.empty() ? "" : " ").append(word);
  return line;
}

Phrase join(const Phrase& a, const Phrase& b) {
  return {join({a.english, b.english}), join({a.french, b.french})};
}

// Whether a word begins with a vowel, by its first byte. The h of these French nouns is silent.
bool vowel(std::string_view word) {
  return std::string_view("aehioéœ").find(word[0]) != std::string_view::npos;
}

// Elision: ne + a = n'a. REQUIRES: the first word ends in e.
std::string elide(std::string word, const std::string& next) {
  if (!vowel(next)) return word + " " + next;
  word.back() = '\'';
  return word + next;
}

std::string agree(const Adjective& a, const NounPhrase& noun, bool before_vowel = false) {
  if (noun.gender == f) return std::string(a.feminine) + (noun.plural ? "s" : "");
  return noun.plural ? a.masculine_plural : before_vowel ? a.before_vowel : a.masculine;
}

// A noun phrase with its article. After a negation, "a" becomes "de": Il ne voit pas d'œuf.
Phrase with_article(const Article& a, const NounPhrase& noun, bool negated) {
  const auto& [english, french] = noun.words;
  if (noun.plural) return {join({a.english_plural, english}), a.plural + french};
  const bool last = &a == std::end(kArticles) - 1;
  const bool an = last && vowel(english) && english[0] != 'h', short_form = vowel(french);
  const char* article = noun.gender == f ? (short_form ? a.feminine_vowel : a.feminine)
                                         : (short_form ? a.masculine_vowel : a.masculine);
  return {join({an ? "an" : a.english, english}),
          last && negated ? elide("de", french) : article + french};
}

NounPhrase random_noun(Rng& rng, Kind from, Kind to, bool negated = false) {
  const Noun* noun = nullptr;
  do noun = &pick(rng, kNouns);
  while (noun->kind < from || noun->kind > to);
  NounPhrase p{{noun->english, noun->french}, chance(rng, 0.4), noun->gender};
  if (p.plural) p.words = {noun->english_plural, noun->french_plural};
  if (chance(rng, 0.4)) {
    const Adjective& a = pick(rng, kAdjectives);
    const auto& [english, french] = p.words;
    const std::string form = agree(a, p, a.before && vowel(french));
    p.words = {join({a.english, english}), a.before ? join({form, french}) : join({french, form})};
  }
  if (p.plural && chance(rng, 0.3))
    p.words = join(pick(rng, kNumbers), p.words);
  else
    p.words = with_article(kArticles[rng.below(p.plural ? 3 : 4)], p, negated);
  return p;
}

datasets::SentencePair random_pair(Rng& rng) {
  const Verb* verb = chance(rng, 0.8) ? &pick(rng, kVerbs) : nullptr;  // nullptr: the verb "be"
  const auto tense = static_cast<Tense>(rng.below(3));
  const bool negated = chance(rng, 0.25), question = !negated && chance(rng, 0.15);
  const NounPhrase subject =
      chance(rng, 0.3) ? pick(rng, kPronouns) : random_noun(rng, being, verb ? being : place);
  const bool plural = subject.plural;
  Phrase rest;
  if (verb == nullptr) {
    const Adjective* a = nullptr;
    do a = &pick(rng, kAdjectives);
    while (subject.words.english.find(a->english) != std::string::npos);
    rest = {a->english, agree(*a, subject)};
  } else {
    if (verb->has_object) rest = random_noun(rng, being, thing, negated).words;
    if (chance(rng, verb->has_object ? 0.2 : 0.6)) {
      rest = join(rest, pick(rng, kPlaces));
      rest = join(rest, random_noun(rng, place, place).words);
    }
    if (chance(rng, 0.3)) rest = join(rest, pick(rng, kDays[tense]));
  }

  std::string auxiliary, main, finite;
  if (verb == nullptr) {
    auxiliary = kBe[tense][plural];
    main = tense == future ? "be" : "";
    finite = kEtre[tense][plural];
  } else {
    const bool asks = negated || question || tense == future;
    auxiliary = asks ? kDo[tense][plural] : "";
    main = asks ? verb->english[1] : tense == past ? verb->past : verb->english[plural];
    finite = tense == present ? verb->present[plural]
                              : std::string(tense == future ? verb->future : "") + kAvoir[plural];
    if (tense == past) rest.french = join({verb->participle, rest.french});
  }
  if (negated) finite = elide("ne", finite) + " pas";
  const std::string french = join({subject.words.french, finite, rest.french});
  if (question)
    return {join({auxiliary, subject.words.english, main, rest.english}) + "?",
            elide("est-ce que", french) + " ?"};
  const char* no = negated ? "not" : "";
  return {join({subject.words.english, auxiliary, no, main, rest.english}) + ".", french + "."};
}

}  // namespace

std::vector<datasets::SentencePair> generate_pairs(int64_t n, uint64_t seed) {
  check(n >= 0 && n <= 1'000'000, "generate_pairs: {} pairs; 0 to 1,000,000", n);
  Rng rng(seed);
  std::vector<datasets::SentencePair> pairs;
  std::unordered_set<std::string> seen;
  while (std::ssize(pairs) < n) {
    datasets::SentencePair pair = random_pair(rng);
    for (std::string* line : {&pair.source, &pair.target}) line->front() += 'A' - 'a';
    if (seen.insert(pair.source).second) pairs.push_back(std::move(pair));
  }
  return pairs;
}

}  // namespace tern::apps::translate

#include "tern/apps/translate/grammar.h"

#include <algorithm>

#include "tern/apps/translate/grammar_words.h"
#include "tern/core/base/error.h"

namespace tern::apps::translate {
namespace grammar {
namespace {

constexpr Phrase kTimes[][2] = {
    {{"every day", "tous les jours"}, {"on Sundays", "le dimanche"}},
    {{"now", "maintenant"}, {"at the moment", "en ce moment"}},
    {{"yesterday", "hier"}, {"last week", "la semaine dernière"}},
    {{"this morning", "ce matin"}, {"last night", "la nuit dernière"}},
    {{"tomorrow", "demain"}, {"tonight", "ce soir"}},
};

bool chance(Rng& rng, double p) { return rng.uniform() < p; }

template <class T>
const T& pick(Rng& rng, std::span<const T> from) {
  return from[static_cast<size_t>(rng.below(std::ssize(from)))];
}

// One that fits; there must be one.
template <class T, class Fits>
const T& pick_if(Rng& rng, std::span<const T> from, Fits fits) {
  while (true) {
    const T& one = pick(rng, from);
    if (fits(one)) return one;
  }
}

enum class Role { subject, object, negated_object, place };

// Every determiner but "a" and numbers is definite.
Determiner random_determiner(Rng& rng, bool definite) {
  constexpr Determiner kOwn[] = {Determiner::my,  Determiner::your,  Determiner::his,
                                 Determiner::our, Determiner::their, Determiner::this_};
  const double u = rng.uniform();
  if (u < 0.4) return Determiner::the;
  if (u < 0.7 && !definite) return Determiner::a;
  return kOwn[rng.below(std::ssize(kOwn))];
}

NounPhrase random_noun_phrase(Rng& rng, unsigned kinds, Role role, bool definite = false) {
  NounPhrase np;
  np.noun = &pick_if(rng, nouns(), [&](const Noun& n) { return (n.kind & kinds) != 0; });
  np.plural = chance(rng, role == Role::place ? 0.2 : 0.4);
  np.determiner = random_determiner(rng, definite);
  if (np.plural && !definite && role != Role::negated_object && chance(rng, 0.3)) {
    np.determiner = Determiner::number;
    np.number = static_cast<int>(2 + rng.below(11));
  }
  // "Cats sleep" are all cats, in French with the article.
  if (np.plural && np.determiner == Determiner::a && role == Role::subject)
    np.determiner = Determiner::the;
  if (chance(rng, 0.35))
    np.adjective = &pick_if(rng, adjectives(),
                            [&](const Adjective& a) { return (a.kinds & np.noun->kind) != 0; });
  return np;
}

// Of I, you, we the gender is not known, which some French forms would show.
Pronoun random_subject_pronoun(Rng& rng, bool third_person) {
  constexpr Pronoun kAll[] = {Pronoun::he, Pronoun::she, Pronoun::they,
                              Pronoun::i,  Pronoun::you, Pronoun::we};
  return kAll[rng.below(third_person ? 3 : 6)];
}

Pronoun random_object_pronoun(Rng& rng, Pronoun subject) {
  constexpr Pronoun kAll[] = {Pronoun::i,   Pronoun::you, Pronoun::he,
                              Pronoun::she, Pronoun::we,  Pronoun::they};
  const auto is_own = [](Pronoun p) {
    return p == Pronoun::i || p == Pronoun::you || p == Pronoun::we;
  };
  // "I ... me" and "I ... us" would be reflexive.
  return pick_if(rng, std::span<const Pronoun>(kAll),
                 [&](Pronoun p) { return !is_own(p) || !is_own(subject); });
}

void add_predicate(Clause& c, Rng& rng) {
  constexpr Tense kTenses[] = {Tense::present, Tense::past, Tense::future};
  c.tense = kTenses[rng.below(3)];
  unsigned kind = kPerson;
  if (chance(rng, 0.3)) {
    c.subject_pronoun = random_subject_pronoun(rng, true);
  } else {
    c.subject = random_noun_phrase(rng, kAlive | kGoods | kPlace, Role::subject);
    kind = c.subject.noun->kind;
  }
  c.predicate = &pick_if(rng, adjectives(), [&](const Adjective& a) {
    return a.predicative && (a.kinds & kind) != 0 && &a != c.subject.adjective;
  });
}

void add_object(Clause& c, Rng& rng) {
  const Verb& verb = *c.verb;
  if ((verb.objects & kPerson) != 0 && chance(rng, 0.25)) {
    c.object_pronoun = random_object_pronoun(rng, c.subject_pronoun);
    // The participle would have to agree with someone whose gender is not known.
    const bool known = c.object_pronoun == Pronoun::he || c.object_pronoun == Pronoun::she ||
                       c.object_pronoun == Pronoun::they;
    if (c.tense == Tense::past && !known) c.tense = Tense::present;
  } else {
    c.object = random_noun_phrase(
        rng, verb.objects, c.negated ? Role::negated_object : Role::object, verb.only_definite);
  }
}

void add_verb(Clause& c, Rng& rng) {
  c.verb = &pick(rng, verbs());
  const Verb& verb = *c.verb;
  constexpr Tense kTenses[] = {Tense::present, Tense::past, Tense::future, Tense::progressive,
                               Tense::past_progressive};
  c.tense = kTenses[rng.below(verb.continuous ? 5 : 3)];
  const bool agrees = verb.auxiliary == Auxiliary::etre && c.tense == Tense::past;
  if (chance(rng, 0.4))
    c.subject_pronoun = random_subject_pronoun(rng, agrees);
  else
    c.subject = random_noun_phrase(rng, verb.subjects, Role::subject);
  if (verb.objects != 0) add_object(c, rng);
  const auto& places = prepositions();
  if (verb.to_places)
    c.place = Place{&places.back(), random_noun_phrase(rng, kPlace, Role::place)};
  else if (chance(rng, verb.objects != 0 ? 0.15 : 0.5))
    c.place = Place{&pick(rng, places.first(places.size() - 1)),
                    random_noun_phrase(rng, kPlace, Role::place)};
  if (verb.past_form == Past::composed && chance(rng, 0.25))
    c.time = &kTimes[c.tense == Tense::present       ? 0
                     : c.tense == Tense::progressive ? 1
                     : c.tense == Tense::past        ? 2
                     : c.tense == Tense::future      ? 4
                                                     : 3][rng.below(2)];
}

Clause random_clause(Rng& rng, bool may_ask) {
  Clause c;
  c.negated = chance(rng, 0.2);
  c.question = may_ask && !c.negated && chance(rng, 0.15);
  if (chance(rng, 0.2))
    add_predicate(c, rng);
  else
    add_verb(c, rng);
  return c;
}

}  // namespace

Sentence random_sentence(Rng& rng) {
  Sentence s;
  const bool two = chance(rng, 0.15);
  s.first = random_clause(rng, !two);
  if (two) {
    s.link = &pick(rng, links());
    s.second = random_clause(rng, false);
  }
  return s;
}

}  // namespace grammar

std::vector<data::SentencePair> generate_pairs(int64_t n, uint64_t seed) {
  check(n >= 0, "generate_pairs: {} pairs", n);
  Rng rng(seed);
  std::vector<data::SentencePair> pairs;
  pairs.reserve(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) {
    const grammar::Sentence sentence = grammar::random_sentence(rng);
    pairs.push_back({grammar::english(sentence), grammar::french(sentence)});
  }
  return pairs;
}

}  // namespace tern::apps::translate

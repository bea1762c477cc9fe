#include <array>

#include "tern/apps/translate/grammar_words.h"
#include "tern/core/base/error.h"
#include "tern/data/text/unicode.h"

namespace tern::apps::translate::grammar {
namespace {

using std::string_view;

void append(std::string& to, string_view word) {
  if (word.empty()) return;
  // Nothing stands between an elided word and the next one.
  if (!to.empty() && !to.ends_with('\'')) to += ' ';
  to += word;
}

// Whether the word makes the one before it elide; the h of our words is silent, but for huit.
bool elides(string_view word) {
  if (word.starts_with("huit") || word.starts_with("onze")) return false;
  size_t at = 0;
  const char32_t first = data::next_code_point(word, at);
  return std::u32string_view(U"aehiouéêâîôœ").find(first) != std::u32string_view::npos;
}

// "le" or "l'" and the like, before the word; the short form ends with the apostrophe.
std::string elided(string_view full, string_view next) {
  if (!elides(next)) return std::string(full);
  return std::string(full.substr(0, full.size() - 1)) + "'";
}

string_view form(const Adjective& a, Gender gender, bool plural) {
  if (gender == Gender::feminine) return plural ? a.feminine_plural : a.feminine;
  return plural ? a.masculine_plural : a.masculine;
}

// mon, ma, mes: the feminine takes the masculine's form before a vowel.
string_view possessive(std::array<string_view, 3> forms, const NounPhrase& np, bool vowel) {
  if (np.plural) return forms[2];
  return np.noun->gender == Gender::feminine && !vowel ? forms[1] : forms[0];
}

std::string the(const NounPhrase& np, string_view next) {
  if (np.plural) return "les";
  return elided(np.noun->gender == Gender::feminine ? "la" : "le", next);
}

string_view this_(const NounPhrase& np, bool vowel) {
  if (np.plural) return "ces";
  if (np.noun->gender == Gender::feminine) return "cette";
  return vowel ? "cet" : "ce";
}

// un, une, des; "de" for plurals with the adjective before, and for all after a negation.
std::string a(const NounPhrase& np, string_view next, bool negated) {
  const bool adjective_first = np.adjective && np.adjective->before;
  if (negated || (np.plural && adjective_first)) return elided("de", next);
  if (np.plural) return "des";
  return np.noun->gender == Gender::feminine ? "une" : "un";
}

string_view number(int n) {
  constexpr std::array<string_view, 13> kNumbers = {"",     "",     "deux", "trois", "quatre",
                                                    "cinq", "six",  "sept", "huit",  "neuf",
                                                    "dix",  "onze", "douze"};
  return kNumbers[n];
}

std::string determiner(const NounPhrase& np, string_view next, bool negated) {
  const bool vowel = elides(next);
  switch (np.determiner) {
    case Determiner::the:
      return the(np, next);
    case Determiner::a:
      return a(np, next, negated);
    case Determiner::my:
      return std::string(possessive({"mon", "ma", "mes"}, np, vowel));
    case Determiner::your:
      return np.plural ? "vos" : "votre";
    case Determiner::his:
      return std::string(possessive({"son", "sa", "ses"}, np, vowel));
    case Determiner::our:
      return np.plural ? "nos" : "notre";
    case Determiner::their:
      return np.plural ? "leurs" : "leur";
    case Determiner::this_:
      return std::string(this_(np, vowel));
    case Determiner::number:
      break;
  }
  return std::string(number(np.number));
}

// The noun with its adjective: "vieil homme", "pommes rouges".
std::string noun_and_adjective(const NounPhrase& np) {
  std::string text(np.plural ? np.noun->french_plural : np.noun->french);
  if (!np.adjective) return text;
  string_view adjective = form(*np.adjective, np.noun->gender, np.plural);
  if (!np.adjective->before) {
    append(text, adjective);
    return text;
  }
  if (!np.plural && np.noun->gender == Gender::masculine && elides(text))
    adjective = np.adjective->before_vowel;
  std::string out(adjective);
  append(out, text);
  return out;
}

std::string noun_phrase(const NounPhrase& np, bool negated = false) {
  const std::string rest = noun_and_adjective(np);
  std::string text = determiner(np, rest, negated);
  append(text, rest);
  return text;
}

// à + le = au, de + les = des; "de des" is "de".
std::string place(const Place& p) {
  std::string text(p.preposition->french);
  const bool to = text == "à", of = text.ends_with(" de");
  std::string np = noun_phrase(p.where);
  if (!to && !of) {
    append(text, np);
    return text;
  }
  text.resize(text.size() - (to ? std::string("à").size() : 2));
  const NounPhrase& where = p.where;
  if (where.determiner == Determiner::the && (np.starts_with("le ") || np.starts_with("les "))) {
    const bool plural = np.starts_with("les ");
    np.erase(0, plural ? 4 : 3);
    text += to ? (plural ? "aux" : "au") : (plural ? "des" : "du");
  } else if (of && where.determiner == Determiner::a && where.plural) {
    np = noun_and_adjective(where);
    text += elided("de", np);
  } else {
    const bool elision = of && where.determiner != Determiner::number;
    text += to ? "à" : elision ? elided("de", np) : "de";
  }
  append(text, np);
  return text;
}

// je, il, nous, vous, ils: the columns of Verb::present.
size_t person(const Clause& c) {
  switch (c.subject_pronoun) {
    case Pronoun::i:
      return 0;
    case Pronoun::we:
      return 2;
    case Pronoun::you:
      return 3;
    case Pronoun::none:
    case Pronoun::he:
    case Pronoun::she:
    case Pronoun::they:
      return is_plural(c) ? 4 : 1;
  }
  fail_unhandled("Pronoun", c.subject_pronoun);
}

Gender gender(const Clause& c) {
  if (c.subject_pronoun == Pronoun::none) return c.subject.noun->gender;
  return c.subject_pronoun == Pronoun::she ? Gender::feminine : Gender::masculine;
}

using Forms = std::array<string_view, 5>;
constexpr Forms kAvoir = {"ai", "a", "avons", "avez", "ont"};
constexpr Forms kEtre = {"suis", "est", "sommes", "êtes", "sont"};
constexpr Forms kImperfectEndings = {"ais", "ait", "ions", "iez", "aient"};
constexpr Forms kFutureEndings = {"ai", "a", "ons", "ez", "ont"};

// The stem is the form of nous without -ons; mange-ons keeps its e before a.
std::string imperfect(const Verb* verb, size_t person) {
  const string_view nous = verb ? verb->present[2] : string_view("étons");
  string_view stem = nous.substr(0, nous.size() - 3);
  const string_view ending = kImperfectEndings[person];
  if (stem.ends_with("ge") && ending.starts_with("i")) stem.remove_suffix(1);
  return std::string(stem) + std::string(ending);
}

std::string agreeing(string_view participle, Gender gender, bool plural) {
  std::string text(participle);
  if (gender == Gender::feminine) text += 'e';
  if (plural && !text.ends_with('s')) text += 's';
  return text;
}

// The participle agrees with the subject after être, with an object pronoun before avoir.
std::string participle(const Clause& c) {
  if (c.verb->auxiliary == Auxiliary::etre)
    return agreeing(c.verb->participle, gender(c), is_plural(c));
  const bool her = c.object_pronoun == Pronoun::she, them = c.object_pronoun == Pronoun::they;
  return agreeing(c.verb->participle, her ? Gender::feminine : Gender::masculine, them);
}

/// The conjugated form, and the participle of a composed tense.
struct VerbGroup {
  std::string finite, participle;
};

VerbGroup verb_group(const Clause& c) {
  const size_t p = person(c);
  if (c.tense == Tense::future)
    return {std::string(c.verb ? c.verb->future : "ser") + std::string(kFutureEndings[p]), ""};
  const bool past = c.tense == Tense::past;
  if (c.tense == Tense::past_progressive ||
      (past && (!c.verb || c.verb->past_form == Past::imperfect)))
    return {imperfect(c.verb, p), ""};
  if (past) {
    const Forms& auxiliary = c.verb->auxiliary == Auxiliary::etre ? kEtre : kAvoir;
    return {std::string(auxiliary[p]), participle(c)};
  }
  return {std::string(c.verb ? c.verb->present[p] : kEtre[p]), ""};
}

std::string object_pronoun(Pronoun p, string_view next) {
  constexpr std::array<string_view, 7> kForms = {"", "me", "vous", "le", "la", "nous", "les"};
  const string_view full = kForms[static_cast<size_t>(p)];
  const bool short_form = p == Pronoun::i || p == Pronoun::he || p == Pronoun::she;
  return short_form ? elided(full, next) : std::string(full);
}

// "ne", the object pronoun and the verb, each elided before what follows.
std::string verb_with_clitics(const Clause& c) {
  const VerbGroup group = verb_group(c);
  std::string text = object_pronoun(c.object_pronoun, group.finite);
  append(text, group.finite);
  if (c.negated) {
    std::string ne = elided("ne", text);
    append(ne, text);
    text = ne;
    append(text, "pas");
  }
  append(text, group.participle);
  return text;
}

std::string clause(const Clause& c) {
  constexpr std::array<string_view, 7> kSubjects = {"", "je", "vous", "il", "elle", "nous", "ils"};
  const std::string verb = verb_with_clitics(c);
  std::string text(kSubjects[static_cast<size_t>(c.subject_pronoun)]);
  if (c.subject_pronoun == Pronoun::none) text = noun_phrase(c.subject);
  if (c.subject_pronoun == Pronoun::i) text = elided("je", verb);
  append(text, verb);
  if (c.object) append(text, noun_phrase(*c.object, c.negated));
  if (c.predicate) append(text, form(*c.predicate, gender(c), is_plural(c)));
  if (c.place) append(text, place(*c.place));
  if (c.time) append(text, c.time->french);
  if (!c.question) return text;
  std::string question = elided("est-ce que", text);
  append(question, text);
  return question;
}

}  // namespace

std::string french(const Sentence& s) {
  std::string text = clause(s.first);
  if (s.second) {
    const std::string second = clause(*s.second);
    append(text, s.link->french.ends_with("que") ? elided(s.link->french, second)
                                                 : std::string(s.link->french));
    append(text, second);
  }
  text[0] = static_cast<char>(text[0] >= 'a' && text[0] <= 'z' ? text[0] - 'a' + 'A' : text[0]);
  return text + (s.first.question ? " ?" : ".");
}

}  // namespace tern::apps::translate::grammar

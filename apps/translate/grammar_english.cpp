#include <array>

#include "tern/apps/translate/grammar_words.h"
#include "tern/core/base/error.h"

namespace tern::apps::translate::grammar {
namespace {

using std::string_view;

void append(std::string& to, string_view word) {
  if (word.empty()) return;
  if (!to.empty()) to += ' ';
  to += word;
}

bool begins_with_vowel(string_view word) {
  return string_view("aeiou").find(word[0]) != string_view::npos;
}

string_view determiner(const NounPhrase& np, string_view next) {
  constexpr std::array<string_view, 13> kNumbers = {"",     "",       "two",   "three", "four",
                                                    "five", "six",    "seven", "eight", "nine",
                                                    "ten",  "eleven", "twelve"};
  switch (np.determiner) {
    case Determiner::the:
      return "the";
    case Determiner::a:
      return np.plural ? "" : begins_with_vowel(next) ? "an" : "a";
    case Determiner::my:
      return "my";
    case Determiner::your:
      return "your";
    case Determiner::his:
      return "his";
    case Determiner::our:
      return "our";
    case Determiner::their:
      return "their";
    case Determiner::this_:
      return np.plural ? "these" : "this";
    case Determiner::number:
      break;
  }
  return kNumbers[np.number];
}

std::string noun_phrase(const NounPhrase& np) {
  const string_view noun = np.plural ? np.noun->english_plural : np.noun->english;
  std::string text(determiner(np, np.adjective ? np.adjective->english : noun));
  if (np.adjective) append(text, np.adjective->english);
  append(text, noun);
  return text;
}

string_view subject_pronoun(Pronoun p) {
  constexpr std::array<string_view, 7> kForms = {"", "I", "you", "he", "she", "we", "they"};
  return kForms[static_cast<size_t>(p)];
}

string_view object_pronoun(Pronoun p) {
  constexpr std::array<string_view, 7> kForms = {"", "me", "you", "him", "her", "us", "them"};
  return kForms[static_cast<size_t>(p)];
}

// The form of "to be" for the subject.
string_view be(const Clause& c, bool past) {
  if (is_plural(c) || c.subject_pronoun == Pronoun::you) return past ? "were" : "are";
  if (c.subject_pronoun == Pronoun::i) return past ? "was" : "am";
  return past ? "was" : "is";
}

bool is_third_singular(const Clause& c) {
  return !is_plural(c) && c.subject_pronoun != Pronoun::i && c.subject_pronoun != Pronoun::you;
}

// What comes first in a question and before "not" ("does", "is"), and the verb after it ("eat",
// "eating"); without question and negation some tenses need no auxiliary.
struct VerbGroup {
  string_view auxiliary, main;
};

VerbGroup verb_group(const Clause& c) {
  const bool alone = !c.negated && !c.question;
  if (c.tense == Tense::future) return {"will", c.verb ? c.verb->english : "be"};
  if (!c.verb) return {be(c, c.tense == Tense::past), ""};
  switch (c.tense) {
    case Tense::progressive:
      return {be(c, false), c.verb->progressive};
    case Tense::past_progressive:
      return {be(c, true), c.verb->progressive};
    case Tense::past:
      return alone ? VerbGroup{"", c.verb->past} : VerbGroup{"did", c.verb->english};
    case Tense::present:
    case Tense::future:
      if (!alone) return {is_third_singular(c) ? "does" : "do", c.verb->english};
      return {"", is_third_singular(c) ? c.verb->third : c.verb->english};
  }
  fail_unhandled("Tense", c.tense);
}

std::string clause(const Clause& c) {
  const std::string subject = c.subject_pronoun == Pronoun::none
                                  ? noun_phrase(c.subject)
                                  : std::string(subject_pronoun(c.subject_pronoun));
  const VerbGroup group = verb_group(c);
  std::string text(c.question ? group.auxiliary : "");
  append(text, subject);
  if (!c.question) append(text, group.auxiliary);
  append(text, c.negated ? "not" : "");
  append(text, group.main);
  if (c.verb) append(text, c.verb->after);
  append(text, object_pronoun(c.object_pronoun));
  if (c.object) append(text, noun_phrase(*c.object));
  if (c.predicate) append(text, c.predicate->english);
  if (c.place) {
    append(text, c.place->preposition->english);
    append(text, noun_phrase(c.place->where));
  }
  if (c.time) append(text, c.time->english);
  return text;
}

}  // namespace

bool is_plural(const Clause& c) {
  if (c.subject_pronoun == Pronoun::none) return c.subject.plural;
  return c.subject_pronoun == Pronoun::we || c.subject_pronoun == Pronoun::they;
}

std::string english(const Sentence& s) {
  std::string text = clause(s.first);
  if (s.second) {
    append(text, s.link->english);
    append(text, clause(*s.second));
  }
  text[0] = static_cast<char>(text[0] >= 'a' && text[0] <= 'z' ? text[0] - 'a' + 'A' : text[0]);
  return text + (s.first.question ? "?" : ".");
}

}  // namespace tern::apps::translate::grammar

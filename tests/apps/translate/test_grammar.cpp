#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>

#include "tern/apps/translate/grammar.h"
#include "tern/apps/translate/grammar_words.h"
#include "tern/core/base/error.h"
#include "tern/data/text/unicode.h"
#include "tern/data/text/words.h"

using namespace tern;
using namespace tern::apps::translate;
using namespace tern::apps::translate::grammar;
using namespace tern::data;

namespace {

const Noun* noun(std::string_view english) {
  for (const Noun& n : nouns())
    if (n.english == english) return &n;
  FAIL("no noun ", english);
  return nullptr;
}

const Adjective* adjective(std::string_view english) {
  for (const Adjective& a : adjectives())
    if (a.english == english) return &a;
  FAIL("no adjective ", english);
  return nullptr;
}

const Verb* verb(std::string_view english) {
  for (const Verb& v : verbs())
    if (v.english == english) return &v;
  FAIL("no verb ", english);
  return nullptr;
}

const Phrase* preposition(std::string_view english) {
  for (const Phrase& p : prepositions())
    if (p.english == english) return &p;
  FAIL("no preposition ", english);
  return nullptr;
}

NounPhrase sg(std::string_view n, Determiner d = Determiner::the, std::string_view a = "") {
  return {noun(n), false, d, 2, a.empty() ? nullptr : adjective(a)};
}
NounPhrase pl(std::string_view n, Determiner d = Determiner::the, std::string_view a = "",
              int number = 2) {
  return {noun(n), true, d, number, a.empty() ? nullptr : adjective(a)};
}

/// "English | French" of a clause.
std::string both(const Clause& clause) {
  const Sentence s{clause, nullptr, std::nullopt};
  return english(s) + " | " + french(s);
}

Clause with(const Clause& base, auto change) {
  Clause c = base;
  change(c);
  return c;
}

/// Sentences of "the cat sees NP".
std::string seen(const NounPhrase& np, bool negated = false) {
  Clause c{.subject = sg("cat"), .verb = verb("see"), .negated = negated, .object = np};
  return both(c);
}

}  // namespace

TEST_CASE("grammar: articles, possessives and adjectives agree with the noun") {
  using enum Determiner;
  const std::vector<std::pair<std::string, NounPhrase>> rows = {
      {"the house | la maison", sg("house")},
      {"the horse | le cheval", sg("horse")},
      {"the horses | les chevaux", pl("horse")},
      {"the egg | l'œuf", sg("egg")},
      {"the church | l'église", sg("church")},
      {"a story | une histoire", sg("story", a)},
      {"an orange | une orange", sg("orange", a)},
      {"mice | des souris", pl("mouse", a)},
      {"big houses | de grandes maisons", pl("house", a, "big")},
      {"old men | de vieux hommes", pl("man", a, "old")},
      {"red apples | des pommes rouges", pl("apple", a, "red")},
      {"an old man | un vieil homme", sg("man", a, "old")},
      {"the beautiful bird | le bel oiseau", sg("bird", the, "beautiful")},
      {"the new hotel | le nouvel hôtel", sg("hotel", the, "new")},
      {"an old church | une vieille église", sg("church", a, "old")},
      {"the white flowers | les fleurs blanches", pl("flower", the, "white")},
      {"the happy queen | la reine heureuse", sg("queen", the, "happy")},
      {"my church | mon église", sg("church", my)},
      {"my old church | ma vieille église", sg("church", my, "old")},
      {"his car | sa voiture", sg("car", his)},
      {"his orange | son orange", sg("orange", his)},
      {"your eggs | vos œufs", pl("egg", your)},
      {"our dog | notre chien", sg("dog", our)},
      {"their keys | leurs clés", pl("key", their)},
      {"this child | cet enfant", sg("child", this_)},
      {"this small child | ce petit enfant", sg("child", this_, "small")},
      {"this story | cette histoire", sg("story", this_)},
      {"these newspapers | ces journaux", pl("newspaper", this_)},
      {"eleven black hats | onze chapeaux noirs", pl("hat", number, "black", 11)},
  };
  for (const auto& [expected, np] : rows) {
    const size_t bar = expected.find(" | ");
    CHECK(seen(np) == "The cat sees " + expected.substr(0, bar) + ". | Le chat voit " +
                          expected.substr(bar + 3) + ".");
  }
  CHECK(seen(sg("dog", a), true) == "The cat does not see a dog. | Le chat ne voit pas de chien.");
  CHECK(seen(pl("egg", a), true) == "The cat does not see eggs. | Le chat ne voit pas d'œufs.");
  CHECK(seen(sg("egg"), true) == "The cat does not see the egg. | Le chat ne voit pas l'œuf.");
}

TEST_CASE("grammar: tenses, negation, questions") {
  const Clause eat{.subject_pronoun = Pronoun::we, .verb = verb("eat"), .object = sg("cake")};
  const std::map<Tense, std::vector<std::string>> rows = {
      {Tense::present,
       {"We eat the cake. | Nous mangeons le gâteau.",
        "We do not eat the cake. | Nous ne mangeons pas le gâteau.",
        "Do we eat the cake? | Est-ce que nous mangeons le gâteau ?"}},
      {Tense::progressive,
       {"We are eating the cake. | Nous mangeons le gâteau.",
        "We are not eating the cake. | Nous ne mangeons pas le gâteau.",
        "Are we eating the cake? | Est-ce que nous mangeons le gâteau ?"}},
      {Tense::past,
       {"We ate the cake. | Nous avons mangé le gâteau.",
        "We did not eat the cake. | Nous n'avons pas mangé le gâteau.",
        "Did we eat the cake? | Est-ce que nous avons mangé le gâteau ?"}},
      {Tense::past_progressive,
       {"We were eating the cake. | Nous mangions le gâteau.",
        "We were not eating the cake. | Nous ne mangions pas le gâteau.",
        "Were we eating the cake? | Est-ce que nous mangions le gâteau ?"}},
      {Tense::future,
       {"We will eat the cake. | Nous mangerons le gâteau.",
        "We will not eat the cake. | Nous ne mangerons pas le gâteau.",
        "Will we eat the cake? | Est-ce que nous mangerons le gâteau ?"}},
  };
  for (const auto& row : rows) {
    const auto& tense = row.first;
    const auto& expected = row.second;
    const Clause c = with(eat, [&](Clause& x) { x.tense = tense; });
    CHECK(both(c) == expected[0]);
    CHECK(both(with(c, [](Clause& x) { x.negated = true; })) == expected[1]);
    CHECK(both(with(c, [](Clause& x) { x.question = true; })) == expected[2]);
  }
}

TEST_CASE("grammar: persons, elision, participles") {
  using enum Pronoun;
  const auto say = [](Pronoun p, const char* v, Tense t, Pronoun object, bool negated = false) {
    return both({.subject_pronoun = p,
                 .verb = verb(v),
                 .tense = t,
                 .negated = negated,
                 .object_pronoun = object});
  };
  CHECK(say(i, "like", Tense::present, he) == "I like him. | Je l'aime.");
  CHECK(say(i, "like", Tense::present, none, true) == "I do not like. | Je n'aime pas.");
  CHECK(say(i, "like", Tense::past, none) == "I liked. | J'aimais.");
  CHECK(say(she, "see", Tense::past, they) == "She saw them. | Elle les a vus.");
  CHECK(say(they, "hear", Tense::past, she, true) ==
        "They did not hear her. | Ils ne l'ont pas entendue.");
  CHECK(say(he, "look", Tense::progressive, i) == "He is looking for me. | Il me cherche.");
  CHECK(say(he, "help", Tense::present, i, true) == "He does not help me. | Il ne m'aide pas.");
  CHECK(say(you, "follow", Tense::future, they) == "You will follow them. | Vous les suivrez.");
  CHECK(say(we, "take", Tense::past, they) == "We took them. | Nous les avons pris.");
  CHECK(say(i, "wait", Tense::progressive, none) == "I am waiting. | J'attends.");
  CHECK(say(they, "write", Tense::past_progressive, none) ==
        "They were writing. | Ils écrivaient.");
  CHECK(say(i, "sleep", Tense::past, none, true) == "I did not sleep. | Je n'ai pas dormi.");
}

TEST_CASE("grammar: être and predicates agree with the subject") {
  const Clause go{.subject = pl("girl"),
                  .verb = verb("go"),
                  .tense = Tense::past,
                  .place = Place{preposition("to"), sg("school")}};
  CHECK(both(go) == "The girls went to the school. | Les filles sont allées à l'école.");
  CHECK(both(with(go, [](Clause& c) {
          c.subject = sg("queen");
          c.verb = verb("fall");
          c.place->preposition = preposition("near");
          c.place->where = sg("hotel");
        })) == "The queen fell near the hotel. | La reine est tombée près de l'hôtel.");
  CHECK(both(with(go, [](Clause& c) {
          c.subject_pronoun = Pronoun::they;
          c.verb = verb("come");
          c.place->where = pl("church");
          c.negated = true;
        })) == "They did not come back to the churches. | Ils ne sont pas revenus aux églises.");
  const Clause be{.subject = pl("apple"), .predicate = adjective("expensive")};
  CHECK(both(be) == "The apples are expensive. | Les pommes sont chères.");
  CHECK(both(with(be, [](Clause& c) {
          c.subject_pronoun = Pronoun::she;
          c.predicate = adjective("happy");
          c.tense = Tense::past;
          c.question = true;
        })) == "Was she happy? | Est-ce qu'elle était heureuse ?");
  CHECK(both(with(be, [](Clause& c) {
          c.tense = Tense::future;
          c.negated = true;
        })) == "The apples will not be expensive. | Les pommes ne seront pas chères.");
  CHECK(both(with(be, [](Clause& c) {
          c.subject = sg("man");
          c.predicate = adjective("old");
          c.negated = true;
        })) == "The man is not old. | L'homme n'est pas vieux.");
}

TEST_CASE("grammar: contraction of à and de") {
  const auto at = [](const char* p, const NounPhrase& where) {
    const std::string s =
        both({.subject = sg("cat"), .verb = verb("sleep"), .place = Place{preposition(p), where}});
    return s.substr(s.find("dort") + 5);
  };
  using enum Determiner;
  CHECK(at("near", sg("garden")) == "près du jardin.");
  CHECK(at("near", sg("house")) == "près de la maison.");
  CHECK(at("near", sg("school")) == "près de l'école.");
  CHECK(at("near", pl("house")) == "près des maisons.");
  CHECK(at("near", pl("house", a)) == "près de maisons.");
  CHECK(at("near", pl("church", a)) == "près d'églises.");
  CHECK(at("near", sg("church", a)) == "près d'une église.");
  CHECK(at("near", pl("church", number, "", 11)) == "près de onze églises.");
  CHECK(at("near", sg("church", my)) == "près de mon église.");
  CHECK(at("to", sg("garden")) == "au jardin.");
  CHECK(at("to", pl("hospital")) == "aux hôpitaux.");
  CHECK(at("to", sg("hotel")) == "à l'hôtel.");
  CHECK(at("to", pl("house", a, "big")) == "à de grandes maisons.");
  CHECK(at("in front of", sg("hotel", the, "old")) == "devant le vieil hôtel.");
}

TEST_CASE("grammar: two clauses") {
  const Clause sleeps{.subject = sg("cat"), .verb = verb("sleep")};
  Clause eleven = sleeps;
  eleven.subject = pl("dog", Determiner::number, "", 11);
  Clause they = sleeps;
  they.subject_pronoun = Pronoun::they;
  const Phrase* because = &links()[2];
  CHECK(french({sleeps, because, they}) == "Le chat dort parce qu'ils dorment.");
  CHECK(french({sleeps, because, eleven}) == "Le chat dort parce que onze chiens dorment.");
  CHECK(english({they, &links()[1], sleeps}) == "They sleep but the cat sleeps.");
}

TEST_CASE("grammar: generated pairs") {
  const auto pairs = generate_pairs(20000, 1);
  CHECK(pairs == generate_pairs(20000, 1));
  CHECK(generate_pairs(5, 2) != generate_pairs(5, 1));
  CHECK(generate_pairs(0, 1).empty());
  CHECK_THROWS_AS(generate_pairs(-1, 1), Error);
  std::map<std::string, std::string> french_of;
  std::set<std::string> english_words, french_words;
  size_t longest = 0;
  for (const SentencePair& pair : pairs) {
    const std::string &source = pair.source, &target = pair.target;
    const auto [found, fresh] = french_of.emplace(source, target);
    CHECK_MESSAGE(found->second == target, source);  // one translation
    for (const std::string& text : {source, target}) {
      CHECK(text.find("  ") == std::string::npos);
      CHECK((text.back() == '.' || text.back() == '?'));
      CHECK((text[0] >= 'A' && text[0] <= 'Z'));
    }
    const auto a = split_words(source), b = split_words(target);
    english_words.insert(a.begin(), a.end());
    french_words.insert(b.begin(), b.end());
    longest = std::max({longest, a.size(), b.size()});
  }
  CHECK(french_of.size() > 18000);
  CHECK(english_words.size() > 200);
  CHECK(french_words.size() > 350);
  CHECK(longest < 40);
}

TEST_CASE("grammar: no generated sentence breaks a rule of elision or contraction") {
  const std::set<std::string> short_words = {"le", "la", "je", "ne", "de", "me", "que"};
  const std::string vowels = "aeiou";
  for (const auto& pair : generate_pairs(20000, 3)) {
    std::string line = " " + lower_case(pair.target);
    for (const char* wrong : {" de le ", " de les ", " à le ", " à les ", " ma a", " ma o", " ma é",
                              " ce h", " ce e", " de des ", "h'", " si "})
      CHECK_MESSAGE(line.find(wrong) == std::string::npos, line, wrong);
    const auto words = split_words(line);
    for (size_t i = 0; i + 1 < words.size(); ++i) {
      if (!short_words.contains(words[i])) continue;
      const std::string& next = words[i + 1];
      const bool vowel = vowels.find(next[0]) != std::string::npos || next.starts_with("é") ||
                         next.starts_with("œ") || next.starts_with("hô") ||
                         next.starts_with("ho") || next.starts_with("hi");
      CHECK_MESSAGE((!vowel || next == "onze"), line);
    }
  }
}

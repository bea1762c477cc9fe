#include "tern/apps/translate/grammar_words.h"

namespace tern::apps::translate::grammar {
namespace {

constexpr Gender m = Gender::masculine, f = Gender::feminine;

constexpr Noun kNouns[] = {
    {"man", "men", "homme", "hommes", m, kPerson},
    {"woman", "women", "femme", "femmes", f, kPerson},
    {"boy", "boys", "garçon", "garçons", m, kPerson},
    {"girl", "girls", "fille", "filles", f, kPerson},
    {"child", "children", "enfant", "enfants", m, kPerson},
    {"teacher", "teachers", "professeur", "professeurs", m, kPerson},
    {"doctor", "doctors", "médecin", "médecins", m, kPerson},
    {"king", "kings", "roi", "rois", m, kPerson},
    {"queen", "queens", "reine", "reines", f, kPerson},
    {"student", "students", "étudiant", "étudiants", m, kPerson},
    {"dog", "dogs", "chien", "chiens", m, kAnimal},
    {"cat", "cats", "chat", "chats", m, kAnimal},
    {"horse", "horses", "cheval", "chevaux", m, kAnimal},
    {"bird", "birds", "oiseau", "oiseaux", m, kAnimal},
    {"cow", "cows", "vache", "vaches", f, kAnimal},
    {"mouse", "mice", "souris", "souris", f, kAnimal},
    {"rabbit", "rabbits", "lapin", "lapins", m, kAnimal},
    {"hen", "hens", "poule", "poules", f, kAnimal},
    {"apple", "apples", "pomme", "pommes", f, kFood},
    {"cake", "cakes", "gâteau", "gâteaux", m, kFood},
    {"egg", "eggs", "œuf", "œufs", m, kFood},
    {"orange", "oranges", "orange", "oranges", f, kFood},
    {"pear", "pears", "poire", "poires", f, kFood},
    {"tomato", "tomatoes", "tomate", "tomates", f, kFood},
    {"strawberry", "strawberries", "fraise", "fraises", f, kFood},
    {"table", "tables", "table", "tables", f, kThing},
    {"chair", "chairs", "chaise", "chaises", f, kThing},
    {"car", "cars", "voiture", "voitures", f, kThing},
    {"hat", "hats", "chapeau", "chapeaux", m, kThing},
    {"key", "keys", "clé", "clés", f, kThing},
    {"box", "boxes", "boîte", "boîtes", f, kThing},
    {"bag", "bags", "sac", "sacs", m, kThing},
    {"flower", "flowers", "fleur", "fleurs", f, kThing},
    {"knife", "knives", "couteau", "couteaux", m, kThing},
    {"umbrella", "umbrellas", "parapluie", "parapluies", m, kThing},
    {"book", "books", "livre", "livres", m, kText},
    {"letter", "letters", "lettre", "lettres", f, kText},
    {"newspaper", "newspapers", "journal", "journaux", m, kText},
    {"story", "stories", "histoire", "histoires", f, kText},
    {"house", "houses", "maison", "maisons", f, kPlace},
    {"garden", "gardens", "jardin", "jardins", m, kPlace},
    {"kitchen", "kitchens", "cuisine", "cuisines", f, kPlace},
    {"school", "schools", "école", "écoles", f, kPlace},
    {"church", "churches", "église", "églises", f, kPlace},
    {"forest", "forests", "forêt", "forêts", f, kPlace},
    {"hotel", "hotels", "hôtel", "hôtels", m, kPlace},
    {"village", "villages", "village", "villages", m, kPlace},
    {"hospital", "hospitals", "hôpital", "hôpitaux", m, kPlace},
};

constexpr unsigned kColoured = kAnimal | kThing;

constexpr Adjective kAdjectives[] = {
    {"big", "grand", "grand", "grande", "grands", "grandes", true, kAny & ~(kFood | kText), true},
    {"small", "petit", "petit", "petite", "petits", "petites", true, kAny, true},
    {"old", "vieux", "vieil", "vieille", "vieux", "vieilles", true, kAny & ~kFood, true},
    {"beautiful", "beau", "bel", "belle", "beaux", "belles", true, kAny & ~kText, true},
    {"new", "nouveau", "nouvel", "nouvelle", "nouveaux", "nouvelles", true, kText | kThing | kPlace,
     false},
    {"young", "jeune", "jeune", "jeune", "jeunes", "jeunes", true, kAlive, true},
    {"good", "bon", "bon", "bonne", "bons", "bonnes", true, kFood | kText, true},
    {"red", "rouge", "rouge", "rouge", "rouges", "rouges", false, kThing | kFood, true},
    {"black", "noir", "noir", "noire", "noirs", "noires", false, kColoured, true},
    {"white", "blanc", "blanc", "blanche", "blancs", "blanches", false, kColoured, true},
    {"green", "vert", "vert", "verte", "verts", "vertes", false, kThing | kFood, true},
    {"blue", "bleu", "bleu", "bleue", "bleus", "bleues", false, kThing, true},
    {"happy", "heureux", "heureux", "heureuse", "heureux", "heureuses", false, kAlive, true},
    {"sad", "triste", "triste", "triste", "tristes", "tristes", false, kAlive | kText, true},
    {"tired", "fatigué", "fatigué", "fatiguée", "fatigués", "fatiguées", false, kAlive, true},
    {"expensive", "cher", "cher", "chère", "chers", "chères", false, kGoods, true},
    {"interesting", "intéressant", "intéressant", "intéressante", "intéressants", "intéressantes",
     false, kText, true},
};

constexpr Phrase kPrepositions[] = {
    {"in", "dans"}, {"behind", "derrière"}, {"in front of", "devant"}, {"near", "près de"},
    {"to", "à"},
};

constexpr Phrase kLinks[] = {{"and", "et"}, {"but", "mais"}, {"because", "parce que"}};

}  // namespace

std::span<const Noun> nouns() { return kNouns; }
std::span<const Adjective> adjectives() { return kAdjectives; }
std::span<const Phrase> prepositions() { return kPrepositions; }
std::span<const Phrase> links() { return kLinks; }

}  // namespace tern::apps::translate::grammar

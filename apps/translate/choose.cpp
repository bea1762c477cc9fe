// The preset "own" chooses settings that suit the user's pairs, so that a first run works. The
// other presets are fixed. A flag always overrides the choice.
#include "tern/apps/translate/choose.h"

#include <algorithm>
#include <bit>
#include <map>

#include "tern/apps/translate/training.h"
#include "tern/data/text/unicode/unicode.h"

namespace tern::apps::translate {
namespace {

constexpr int64_t kLarge = 100'000;      // pairs; with this many the model is wider
constexpr int64_t kShown = 1'000'000;    // pairs in a whole training, with repetitions
constexpr int64_t kStepsPerEpoch = 50;   // roughly
constexpr int64_t kMostWarmup = 2000;    // steps
constexpr int64_t kEnoughForBleu = 100;  // pairs for validation
constexpr size_t kLookedAt = 10'000;     // pairs that are examined

template <class T>
void set(const GivenKeys& given, const char* key, T& setting, T value) {
  if (!is_one_of(given, key)) setting = value;
}

using Letters = std::map<char32_t, int64_t>;

void count_letters(const std::string& cased, Letters& letters) {
  const std::string text = datasets::lower_letters(cased);
  for (size_t at = 0; at < text.size();) {
    const char32_t c = datasets::next_code_point(text, at);
    if (datasets::classify(c) == datasets::CharacterClass::letter) ++letters[c];
  }
}

int64_t total(const Letters& letters) {
  int64_t all = 0;
  for (const auto& [letter, count] : letters) all += count;
  return all;
}

// Estimates the tokens of the longer side of all pairs: a token has about 4 bytes.
int64_t tokens_of(const std::vector<datasets::SentencePair>& pairs) {
  size_t bytes = 0;
  for (const datasets::SentencePair& p : pairs) bytes += std::max(p.source.size(), p.target.size());
  return static_cast<int64_t>(bytes / 4);
}

// Muon, whose state has 32 bits, learns more than Adam from as many pairs (docs/choosing.md).
void choose_optimizer(TrainConfig& c, const GivenKeys& given, bool large) {
  if (c.memory_use.optimizer_bits == 32) set(given, "optimizer", c.optimizer, std::string("muon"));
  set(given, "lr", c.lr, c.optimizer == "muon" ? 5e-3 : large ? 1e-3 : 2e-3);
}

void choose_model(TrainConfig& c, const GivenKeys& given, bool large) {
  ModelConfig& m = c.model;
  if (m.model != "transformer") {
    set(given, "model.dim", m.dim, int64_t{256});
    set(given, "model.layers", m.layers, int64_t{1});
    set(given, "model.tie", m.tie, std::string("none"));
    set(given, "lr", c.lr, 1e-3);
    return;
  }
  choose_optimizer(c, given, large);
  if (large) {
    set(given, "model.dim", m.dim, int64_t{256});
    set(given, "model.heads", m.heads, int64_t{8});
    set(given, "model.ffn", m.ffn, int64_t{1024});
  }
}

}  // namespace

bool have_same_letters(const std::vector<datasets::SentencePair>& pairs) {
  Letters source, target;
  for (size_t i = 0; i < std::min(kLookedAt, pairs.size()); ++i) {
    count_letters(pairs[i].source, source);
    count_letters(pairs[i].target, target);
  }
  const int64_t rare = total(source) / 1000;
  int64_t same = 0;
  for (const auto& [letter, count] : target) {
    const auto found = source.find(letter);
    if (found != source.end() && found->second > rare) same += count;
  }
  return 2 * same > total(target);
}

void choose_by_pairs(TrainConfig& c, const GivenKeys& given, const PairFiles& files) {
  const int64_t pairs = std::ssize(files.train);
  const bool large = pairs >= kLarge, new_model = c.from.empty();
  if (new_model) {
    choose_model(c, given, large);
    set(given, "bpe", c.bpe, std::clamp<int64_t>(pairs / 4, 200, 16'000));
    const bool one_table = is_one_of(given, "model.tie") && c.model.tie == "all";
    set(given, "shared", c.shared, one_table || have_same_letters(files.train));
    if (!c.shared && c.model.tie == "all")
      set(given, "model.tie", c.model.tie, std::string("target"));
  } else {
    set(given, "lr", c.lr, 5e-4);
  }
  const int64_t step = std::max<int64_t>(1, tokens_of(files.train) / kStepsPerEpoch);
  const auto power = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(step)));
  const int64_t tokens = std::clamp<int64_t>(power, 256, large ? 4096 : 2048);
  set(given, "batch_tokens", c.batch_tokens, std::max(tokens, c.max_length + 1));
  const int64_t epochs = std::clamp<int64_t>(kShown / std::max<int64_t>(pairs, 1), 3, 40);
  if (!is_one_of(given, "steps"))
    set(given, "epochs", c.epochs, new_model ? epochs : std::max<int64_t>(epochs / 3, 3));
  if (std::ssize(files.valid) < kEnoughForBleu) set(given, "best", c.best, std::string("loss"));
}

void choose_after_encoding(TrainConfig& c, const GivenKeys& given, const Corpus& corpus) {
  if (c.max_length == 0) {  // a batch has room for the longest pair
    int64_t longest = 0;
    for (const datasets::EncodedPair& p : *corpus.train.pairs)
      longest = std::max({longest, std::ssize(p.source), std::ssize(p.target)});
    set(given, "batch_tokens", c.batch_tokens, std::max(c.batch_tokens, longest + 2));
  }
  if (c.schedule == "constant") return;
  set(given, "warmup", c.warmup, std::min(kMostWarmup, run_steps(c, total_steps(c, corpus)) / 10));
}

}  // namespace tern::apps::translate

// Greedy search and sampling: the common loop over steps, and the draw of a token with penalty,
// temperature, top-k, top-p and min-p.
#include "tern/decode/sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>

#include "tern/core/base/simd.h"
#include "tern/core/base/threads.h"
#include "tern/core/base/vmath.h"
#include "tern/core/tape/autograd.h"
#include "tern/decode/step_logits.h"

namespace tern::decoding {
namespace {

using detail::Candidate, detail::Rules, detail::StepLogits;

/// The rows of the next step: their sentences and last tokens.
struct Running {
  std::vector<int64_t> sentences, tokens;
  int64_t next;  ///< the next sentence to begin

  void add(int64_t sentence, int64_t token) {
    sentences.push_back(sentence);
    tokens.push_back(token);
  }
  /// Begins sentences while there are slots.
  void fill(Stepper& stepper, const Rules& rules, int64_t batch) {
    const size_t first = sentences.size();
    for (; next < batch && (rules.batch_slots == 0 || std::ssize(sentences) < rules.batch_slots);
         ++next)
      if (rules.max_length[next] > 0) add(next, rules.begin[next]);
    if (rules.batch_slots > 0 && first < sentences.size())
      stepper.begin(std::span(sentences).subspan(first));
  }
};

/// Decodes one hypothesis per sentence. choose(logits, sentences) returns a token for every row.
template <class Choose>
std::vector<Hypothesis> follow(Stepper& stepper, const Rules& rules, Choose&& choose) {
  NoGradGuard guard;
  const int64_t batch = stepper.batch();
  std::vector<Hypothesis> out(batch);
  Running now{{}, {}, 0};
  now.fill(stepper, rules, batch);
  if (rules.batch_slots == 0 && !now.sentences.empty() && std::ssize(now.sentences) < batch)
    stepper.select_rows(detail::token_tensor(now.sentences));
  while (!now.sentences.empty()) {
    const auto rows = static_cast<int64_t>(now.sentences.size());
    std::vector<int64_t> steps;
    for (const int64_t s : now.sentences) steps.push_back(std::ssize(out[s].tokens) + 1);
    const StepLogits logits(rules, stepper.step(detail::token_tensor(now.tokens)), now.sentences,
                            steps, 1);
    const std::vector<Candidate> chosen = choose(logits, now.sentences);
    Running running{{}, {}, now.next};
    std::vector<int64_t> kept;
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t s = now.sentences[r], token = chosen[r].token;
      Hypothesis& h = out[s];
      h.score = h.log_prob += chosen[r].log_prob;
      h.finished = token == rules.end;
      const bool more = !rules.on_token || rules.on_token(s, token);
      if (h.finished) continue;
      h.tokens.push_back(token);
      if (!more || steps[r] == rules.max_length[s]) continue;
      running.add(s, token);
      kept.push_back(r);
    }
    if (std::ssize(kept) < rows && (!kept.empty() || rules.batch_slots > 0))
      stepper.select_rows(detail::token_tensor(kept));
    now = std::move(running);
    now.fill(stepper, rules, batch);
  }
  return out;
}

std::vector<Candidate> most_likely(const StepLogits& logits) {
  std::vector<Candidate> chosen;
  for (int64_t r = 0; r < logits.rows(); ++r) chosen.push_back(logits.best(r));
  return chosen;
}

/// Logits x (n), and the tokens that may be drawn.
template <class T>
struct Row {
  const T* x;
  int64_t n;
  const uint8_t* allowed;
  double max;  ///< the largest x that is allowed
};

/// exp((x - max) / temperature) of every token, 0 for those that are not allowed.
template <class T>
std::vector<double> weights_of_all(const Row<T>& row, double temperature) {
  std::vector<double> weights(row.n);
  simd([=, w = weights.data()] {
    for (int64_t i = 0; i < row.n; ++i) {
      const double e = vmath::exp((static_cast<double>(row.x[i]) - row.max) / temperature);
      w[i] = row.allowed[i] ? e : 0;
    }
  });
  return weights;
}

/// The same for some tokens, all allowed.
template <class T>
std::vector<double> weights_of(const Row<T>& row, const std::vector<int64_t>& tokens,
                               double temperature) {
  std::vector<double> weights;
  for (int64_t i : tokens)
    weights.push_back(vmath::exp((static_cast<double>(row.x[i]) - row.max) / temperature));
  return weights;
}

double sum_of(const std::vector<double>& weights) {
  return std::accumulate(weights.begin(), weights.end(), 0.0);
}

/// i with probability weights[i] / sum.
size_t draw_index(const std::vector<double>& weights, Rng& rng) {
  std::vector<double> upto(weights.size());
  std::partial_sum(weights.begin(), weights.end(), upto.begin());
  // Stays below the sum even if the product rounds up to it: so the index is in range, and its
  // weight is not 0.
  const double u = std::min(rng.uniform() * upto.back(), std::nextafter(upto.back(), 0.0));
  return std::upper_bound(upto.begin(), upto.end(), u) - upto.begin();
}

/// Keeps the first weights whose sum reaches `share`. Returns false if the sum of all is less.
bool cut_at(std::vector<double>& weights, double share) {
  double sum = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    sum += weights[i];
    if (sum < share) continue;
    weights.resize(i + 1);
    return true;
  }
  return false;
}

/// Zeroes weights below a share of the largest, which is exp(0) = 1.
void drop_below(std::vector<double>& weights, double share) {
  for (double& w : weights)
    if (w < share) w = 0;
}

template <class T>
int64_t draw_token(const Row<T>& row, const SampleOptions& o, Rng& rng) {
  std::vector<double> weights;
  double share = 0;
  if (o.top_k == 0) {
    weights = weights_of_all(row, o.temperature);
    if (o.top_p == 1) {
      drop_below(weights, o.min_p);
      return static_cast<int64_t>(draw_index(weights, rng));
    }
    share = o.top_p * sum_of(weights);
  }
  constexpr int64_t kFirstTry = 64;  // tokens that usually hold top_p of the probability
  std::vector<int64_t> tokens;
  for (int64_t count = o.top_k > 0 ? o.top_k : kFirstTry;; count *= 4) {
    tokens = detail::top_tokens(row.x, row.n, std::min(count, row.n), row.allowed);
    weights = weights_of(row, tokens, o.temperature);
    if (o.top_k > 0 && o.top_p < 1) cut_at(weights, o.top_p * sum_of(weights));
    if (o.top_k > 0 || cut_at(weights, share) || count >= row.n) break;
  }
  drop_below(weights, o.min_p);
  return tokens[draw_index(weights, rng)];
}

/// x (n) with a penalty for tokens that occurred before.
template <class T>
std::vector<T> penalised(const T* x, int64_t n, std::span<const int64_t> before,
                         const SampleOptions& o) {
  std::vector<T> out(x, x + n);
  if (o.repetition_window > 0 && std::ssize(before) > o.repetition_window)
    before = before.last(static_cast<size_t>(o.repetition_window));
  const auto most = static_cast<double>(std::numeric_limits<T>::max());
  for (const int64_t token : before) {
    if (token < 0 || token >= n) continue;  // `begin` may lie outside the vocabulary
    const double logit = x[token];          // penalised once, however often the token occurs
    if (!std::isfinite(logit)) continue;
    const double changed = logit > 0 ? logit / o.repetition_penalty : logit * o.repetition_penalty;
    out[token] = static_cast<T>(std::clamp(changed, -most, most));
  }
  return out;
}

void check_options(const SampleOptions& o, int64_t batch) {
  check(o.temperature >= 0 && std::isfinite(o.temperature),
        "sample: .temperature is {}; give a finite one of 0 or more", o.temperature);
  check(o.top_k >= 0, "sample: .top_k is {}; give 1 or more, or 0 for all tokens", o.top_k);
  check(o.top_p > 0 && o.top_p <= 1, "sample: .top_p is {}, but it must be in (0, 1]", o.top_p);
  check(o.min_p >= 0 && o.min_p <= 1, "sample: .min_p is {}, but it must be in [0, 1]", o.min_p);
  check(o.repetition_penalty > 0 && std::isfinite(o.repetition_penalty),
        "sample: .repetition_penalty is {}; give a finite one above 0, or 1 for none",
        o.repetition_penalty);
  check(o.repetition_window >= 0,
        "sample: .repetition_window is {}; give 1 or more, or 0 for all tokens",
        o.repetition_window);
  check(o.prompts.empty() || std::ssize(o.prompts) == batch,
        "sample: .prompts has {} prompts for {} sentences", o.prompts.size(), batch);
}

}  // namespace

std::vector<Hypothesis> greedy(Stepper& stepper, const GreedyOptions& options) {
  const Rules rules("greedy", options);
  rules.check_batch(stepper.batch());
  return follow(stepper, rules,
                [](const StepLogits& logits, const auto&) { return most_likely(logits); });
}

std::vector<Hypothesis> sample(Stepper& stepper, const SampleOptions& o, Rng& rng) {
  const int64_t batch = stepper.batch();
  check_options(o, batch);
  const Rules rules("sample", o);
  rules.check_batch(batch);
  const Rng own = rng.split();
  std::vector<Rng> streams;
  for (int64_t s = 0; s < batch; ++s) streams.push_back(own.stream(s));
  const bool penalty = o.repetition_penalty != 1;
  std::vector<std::vector<int64_t>> before;  // tokens of each sentence, for the penalty
  if (penalty) {
    before = o.prompts;
    before.resize(static_cast<size_t>(batch));
    for (int64_t s = 0; s < batch; ++s) before[s].push_back(o.begin[s]);
  }

  auto draw = [&](const StepLogits& logits, const std::vector<int64_t>& sentences) {
    std::vector<Candidate> chosen = most_likely(logits);
    if (o.temperature == 0 && !penalty) return chosen;
    dispatch_float(logits.dtype(), "sample", [&]<class T>() {
      const int64_t n = logits.vocab();
      parallel_blocks(logits.rows(), logits.rows() * n * 10, [&](int64_t r) {
        const T* x = logits.template row<T>(r);
        const int64_t sentence = sentences[r];
        std::vector<T> changed;
        int64_t token = chosen[r].token;  // the likeliest
        if (penalty) {
          changed = penalised<T>(x, n, before[sentence], o);
          token = detail::top_tokens(changed.data(), n, 1, logits.allowed())[0];
        }
        const T* from = penalty ? changed.data() : x;
        if (o.temperature > 0)
          token = draw_token<T>({from, n, logits.allowed(), static_cast<double>(from[token])}, o,
                                streams[sentence]);
        chosen[r] = {token, logits.log_prob(r, x[token])};
        if (penalty) before[sentence].push_back(token);
      });
    });
    return chosen;
  };
  return follow(stepper, rules, draw);
}

}  // namespace tern::decoding

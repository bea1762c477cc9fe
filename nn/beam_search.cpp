#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>

#include "tern/core/tape/autograd.h"
#include "tern/nn/decode.h"
#include "tern/nn/decode_rows.h"

namespace tern::nn {
namespace {

using detail::Candidate, detail::Rules, detail::StepLogits;

double penalty(int64_t tokens, double alpha) {
  return std::pow((5 + static_cast<double>(tokens)) / 6, alpha);
}

struct Sentence {
  int64_t id;  ///< its place in the batch
  int64_t max_length;
  std::vector<Hypothesis> running;  ///< by falling log_prob; a row of the state each
  std::vector<Hypothesis> ended;    ///< in the order they ended
};

/// A running hypothesis continued by a token.
struct Extension {
  int64_t parent, token;
  double log_prob;
};

/// The best continuations of a sentence's running hypotheses, enough of them for one step: of a
/// hypothesis no more than beam + 1 count: `beam` that run on, and the end.
std::vector<Extension> extensions(const Sentence& s, const std::vector<Candidate>* rows) {
  std::vector<Extension> all;
  for (size_t p = 0; p < s.running.size(); ++p)
    for (const Candidate& c : rows[p])
      all.push_back({static_cast<int64_t>(p), c.token, s.running[p].log_prob + c.log_prob});
  std::stable_sort(all.begin(), all.end(),
                   [](const Extension& a, const Extension& b) { return a.log_prob > b.log_prob; });
  return all;
}

void end_hypothesis(Sentence& s, Hypothesis h, bool finished, double alpha) {
  h.finished = finished;
  h.score = h.log_prob / penalty(std::ssize(h.tokens) + finished, alpha);
  s.ended.push_back(std::move(h));
}

/// Continues the sentence; gives its running hypotheses' parents.
std::vector<int64_t> advance(Sentence& s, const std::vector<Candidate>* rows,
                             const BeamOptions& o) {
  std::vector<Hypothesis> running;
  std::vector<int64_t> parents;
  int64_t rank = 0;
  for (const Extension& e : extensions(s, rows)) {
    if (std::ssize(running) == o.beam) break;
    Hypothesis h = s.running[e.parent];
    h.log_prob = e.log_prob;
    if (e.token != o.end) {
      h.tokens.push_back(e.token);
      running.push_back(std::move(h));
      parents.push_back(e.parent);
    } else if (rank < o.beam) {
      end_hypothesis(s, std::move(h), true, o.alpha);
    }
    ++rank;
  }
  s.running = std::move(running);
  return parents;
}

/// The stop rules of decode.h, after `step` steps.
bool is_done(const Sentence& s, int64_t step, const BeamOptions& o) {
  if (s.running.empty() || step == s.max_length || std::ssize(s.ended) >= o.beam) return true;
  if (std::ssize(s.ended) < o.n_best) return false;
  std::vector<double> scores;
  for (const Hypothesis& h : s.ended) scores.push_back(h.score);
  auto worst = scores.begin() + (o.n_best - 1);
  std::nth_element(scores.begin(), worst, scores.end(), std::greater<>());
  return *worst >= s.running.front().log_prob / penalty(s.max_length, o.alpha);
}

std::vector<Hypothesis> best_of(Sentence& s, int64_t step, const BeamOptions& o) {
  if (step == s.max_length)
    for (Hypothesis& h : s.running) end_hypothesis(s, std::move(h), false, o.alpha);
  std::stable_sort(s.ended.begin(), s.ended.end(),
                   [](const Hypothesis& a, const Hypothesis& b) { return a.score > b.score; });
  s.ended.resize(std::min<int64_t>(std::ssize(s.ended), o.n_best));
  return std::move(s.ended);
}

bool is_identity(const std::vector<int64_t>& rows, int64_t count) {
  std::vector<int64_t> all(count);
  std::iota(all.begin(), all.end(), int64_t{0});
  return rows == all;
}

/// The sentences that are searched, and the rows of the next step: theirs, in order.
struct Search {
  const BeamOptions& options;
  std::vector<std::vector<Hypothesis>> out;
  std::vector<Sentence> open = {};
  struct Rows {
    std::vector<int64_t> tokens;     ///< the last token of the hypothesis
    std::vector<int64_t> from;       ///< the row of the state before
    std::vector<int64_t> sentences;  ///< whose it is
  } rows = {};

  /// Goes on with a sentence after `step` steps, or ends it; from[i] as in Rows.
  void put(Sentence s, int64_t step, const std::vector<int64_t>& from) {
    if (is_done(s, step, options)) {
      out[s.id] = best_of(s, step, options);
      return;
    }
    for (const Hypothesis& h : s.running) {
      rows.tokens.push_back(h.tokens.empty() ? options.begin[s.id] : h.tokens.back());
      rows.sentences.push_back(s.id);
    }
    rows.from.insert(rows.from.end(), from.begin(), from.end());
    open.push_back(std::move(s));
  }

  void advance_all(const StepLogits& logits, int64_t step) {
    const std::vector<std::vector<Candidate>> top = logits.top(options.beam + 1);
    rows = {};
    int64_t first = 0;  // the sentence's first row
    for (Sentence& s : std::exchange(open, {})) {
      const int64_t next = first + std::ssize(s.running);
      std::vector<int64_t> from = advance(s, top.data() + first, options);
      for (int64_t& row : from) row += first;
      put(std::move(s), step, from);
      first = next;
    }
  }
};

void check_options(const BeamOptions& o) {
  check(o.beam >= 1, "beam_search: .beam is {}; give 1 or more", o.beam);
  check(o.n_best >= 1 && o.n_best <= o.beam,
        "beam_search: .n_best is {}, but it must be in [1, {}], the size of the beam", o.n_best,
        o.beam);
  check(o.alpha >= 0 && std::isfinite(o.alpha),
        "beam_search: .alpha is {}; give a finite one of 0 or more", o.alpha);
}

}  // namespace

std::vector<std::vector<Hypothesis>> beam_search(Stepper& stepper, const BeamOptions& o) {
  NoGradGuard guard;
  check_options(o);
  const Rules rules("beam_search", o);
  const int64_t batch = stepper.batch();
  rules.check_batch(batch);
  Search search{o, std::vector<std::vector<Hypothesis>>(batch)};
  for (int64_t s = 0; s < batch; ++s) search.put({s, o.max_length[s], {Hypothesis{}}, {}}, 0, {s});
  int64_t before = batch;  // rows of the state
  for (int64_t step = 1; !search.open.empty(); ++step) {
    const Search::Rows now = search.rows;
    if (!is_identity(now.from, before)) stepper.select_rows(detail::token_tensor(now.from));
    before = std::ssize(now.from);
    const Tensor logits = stepper.step(detail::token_tensor(now.tokens));
    search.advance_all(StepLogits(rules, logits, now.sentences, step), step);
  }
  return std::move(search.out);
}

}  // namespace tern::nn

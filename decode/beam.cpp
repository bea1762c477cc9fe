// The beam of one sentence: merges the candidates of its hypotheses by falling log probability,
// decides when the search is done, and follows the links back to the tokens.
#include "tern/decode/beam.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace tern::decoding::detail {
namespace {

double penalty(int64_t tokens, double alpha) {
  return std::pow((5 + static_cast<double>(tokens)) / 6, alpha);
}

}  // namespace

void BeamRules::check_values(const char* op) const {
  check(beam >= 1, "{}: .beam is {}; give 1 or more", op, beam);
  check(n_best >= 1 && n_best <= beam,
        "{}: .n_best is {}, but it must be in [1, {}], the size of the beam", op, n_best, beam);
  check(alpha >= 0 && std::isfinite(alpha), "{}: .alpha is {}; give a finite one of 0 or more", op,
        alpha);
}

void Beam::begin(const BeamRules& rules, int64_t max_length) {
  rules_ = rules;
  max_length_ = max_length;
  steps_ = 0;
  running_ = 1;
  const auto beam = static_cast<size_t>(rules.beam);
  trail_.clear();
  // Longer sentences take more memory as they grow, so max_length may be any number.
  constexpr int64_t kReservedSteps = 1024;
  trail_.reserve(beam * static_cast<size_t>(std::min(max_length, kReservedSteps)));
  log_prob_.assign(beam, 0);
  next_log_prob_.assign(beam, 0);
  head_.assign(beam, 0);
  ended_.clear();
  ended_.reserve(3 * beam);  // beam - 1; the last step adds beam that end and beam that run
  scores_.reserve(3 * beam);
  if (max_length == 0) end_hypothesis(0, 0, 0, false);
  done_ = max_length == 0;
}

void Beam::end_hypothesis(double log_prob, int64_t steps, int64_t row, bool finished) {
  ended_.push_back(
      {log_prob, log_prob / penalty(steps + finished, rules_.alpha), steps, row, finished});
}

void Beam::advance(const Candidate* candidates, const int64_t* counts, int64_t stride) {
  const int64_t before = steps_;
  trail_.resize(static_cast<size_t>((before + 1) * rules_.beam));
  std::fill(head_.begin(), head_.end(), 0);
  int64_t kept = 0;
  for (int64_t rank = 0; kept < rules_.beam; ++rank) {
    int64_t parent = -1;
    double best = 0;
    for (int64_t p = 0; p < running_; ++p) {
      if (head_[p] == counts[p]) continue;
      const double log_prob = log_prob_[p] + candidates[p * stride + head_[p]].log_prob;
      if (parent >= 0 && !(log_prob > best)) continue;
      parent = p;
      best = log_prob;
    }
    if (parent < 0) break;
    const int64_t token = candidates[parent * stride + head_[parent]++].token;
    if (token != rules_.end) {
      trail_[static_cast<size_t>(before * rules_.beam + kept)] = {token, parent};
      next_log_prob_[kept++] = best;
    } else if (rank < rules_.beam) {
      end_hypothesis(best, before, parent, true);
    }
  }
  std::swap(log_prob_, next_log_prob_);
  running_ = kept;
  ++steps_;
  done_ = is_done();
  if (done_ && steps_ == max_length_)
    for (int64_t i = 0; i < running_; ++i) end_hypothesis(log_prob_[i], steps_, i, false);
}

bool Beam::is_done() {
  if (running_ == 0 || steps_ == max_length_ || std::ssize(ended_) >= rules_.beam) return true;
  if (std::ssize(ended_) < rules_.n_best) return false;
  scores_.clear();
  for (const Ended& e : ended_) scores_.push_back(e.score);
  const auto worst = scores_.begin() + (rules_.n_best - 1);
  std::nth_element(scores_.begin(), worst, scores_.end(), std::greater<>());
  return *worst >= log_prob_[0] / penalty(max_length_, rules_.alpha);
}

Hypothesis Beam::hypothesis(const Ended& e) const {
  Hypothesis h;
  h.log_prob = e.log_prob;
  h.score = e.score;
  h.finished = e.finished;
  h.tokens.resize(static_cast<size_t>(e.steps));
  int64_t row = e.row;
  for (int64_t s = e.steps - 1; s >= 0; --s) {
    const Link& link = trail_[static_cast<size_t>(s * rules_.beam + row)];
    h.tokens[static_cast<size_t>(s)] = link.token;
    row = link.parent;
  }
  return h;
}

std::vector<Hypothesis> Beam::best() const {
  std::vector<Ended> ranked = ended_;
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const Ended& a, const Ended& b) { return a.score > b.score; });
  ranked.resize(std::min(ranked.size(), static_cast<size_t>(rules_.n_best)));
  std::vector<Hypothesis> out;
  for (const Ended& e : ranked) out.push_back(hypothesis(e));
  return out;
}

}  // namespace tern::decoding::detail

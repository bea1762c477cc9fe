// Beam search over a batch: one Beam per sentence, and the rows of all of them in one step of the
// model.
#include "tern/decode/beam_search.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "tern/core/tape/autograd.h"
#include "tern/decode/beam.h"
#include "tern/decode/step_logits.h"

namespace tern::decoding {
namespace {

using detail::Beam, detail::Rules, detail::StepLogits;

bool is_identity(const std::vector<int64_t>& rows, int64_t count) {
  std::vector<int64_t> all(count);
  std::iota(all.begin(), all.end(), int64_t{0});
  return rows == all;
}

/// The open sentences, and the rows of the next step: their hypotheses, in order.
struct Search {
  struct Sentence {
    int64_t id;  ///< its place in the batch
    Beam beam;
  };
  struct Rows {
    std::vector<int64_t> tokens;     ///< the last token of the hypothesis
    std::vector<int64_t> from;       ///< the row of the state before
    std::vector<int64_t> sentences;  ///< the sentence of the hypothesis
  };
  const detail::BeamRules rules;
  std::vector<std::vector<Hypothesis>> out;
  std::vector<Sentence> open = {};
  Rows rows = {};

  /// Adds the next rows of a sentence whose hypotheses were rows first, first + 1, ... of the
  /// state, or stores its result if it is done.
  void put(Sentence s, int64_t first) {
    if (s.beam.done()) {
      out[s.id] = s.beam.best();
      return;
    }
    for (int64_t i = 0; i < s.beam.running(); ++i) {
      rows.tokens.push_back(s.beam.token(i));
      rows.from.push_back(first + s.beam.parent(i));
      rows.sentences.push_back(s.id);
    }
    open.push_back(std::move(s));
  }

  void begin(int64_t id, int64_t max_length, int64_t token) {
    Sentence s{id, {}};
    s.beam.begin(rules, max_length);
    if (s.beam.done()) {
      out[id] = s.beam.best();
      return;
    }
    rows.tokens.push_back(token);
    rows.from.push_back(id);
    rows.sentences.push_back(id);
    open.push_back(std::move(s));
  }

  void advance_all(const StepLogits& logits, int64_t stride) {
    rows = {};
    int64_t first = 0;  // the sentence's first row
    for (Sentence& s : std::exchange(open, {})) {
      const int64_t next = first + s.beam.running();
      s.beam.advance(logits.candidates() + first * stride, logits.counts() + first, stride);
      put(std::move(s), first);
      first = next;
    }
  }
};

}  // namespace

std::vector<std::vector<Hypothesis>> beam_search(Stepper& stepper, const BeamOptions& o) {
  NoGradGuard guard;
  Search search{{o.beam, o.alpha, o.n_best, o.end}, {}};
  search.rules.check_values("beam_search");
  const Rules rules("beam_search", o);
  const int64_t batch = stepper.batch();
  rules.check_batch(batch);
  search.out.resize(batch);
  for (int64_t s = 0; s < batch; ++s) search.begin(s, o.max_length[s], o.begin[s]);
  int64_t before = batch;  // rows of the state
  for (int64_t step = 1; !search.open.empty(); ++step) {
    const Search::Rows now = search.rows;
    if (!is_identity(now.from, before)) stepper.select_rows(detail::token_tensor(now.from));
    before = std::ssize(now.from);
    const StepLogits logits(rules, stepper.step(detail::token_tensor(now.tokens)), now.sentences,
                            step, search.rules.candidates());
    search.advance_all(logits, std::min(search.rules.candidates(), logits.vocab()));
  }
  return std::move(search.out);
}

}  // namespace tern::decoding

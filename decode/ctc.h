// Symbols out of the log probabilities of a CTC model (Graves et al. 2006; the loss is ctc_loss).
// A path names one class a step; it spells the symbols that are left when repetitions are merged
// and blanks removed: a a _ a b spells a a b.
//
//   Tensor log_probs = log_softmax(model(x), -1);        // (T, N, C)
//   auto best = decoding::ctc_greedy(log_probs, lengths);
//   auto lists = decoding::ctc_beam_search(log_probs, lengths, {.beam = 16, .n_best = 3});
//   lists[0][0].symbols;                                 // of the first sample
//
// log_probs (T, N, C) or (T, C) for one sample, floating, of any layout; lengths are the samples'
// steps, in [0, T], and all T where the list is empty. Steps behind a length are not read. -inf is
// a class that cannot be; NaN and +inf are an Error with sample and step, and so is a step that has
// no class at all. Nothing is recorded for gradients. Sums are made in double; results do not
// depend on the number of threads, nor a sample's on the others.
#pragma once

#include <cstdint>
#include <vector>

#include "tern/core/tensor/tensor.h"

namespace tern::decoding {

struct CtcHypothesis {
  std::vector<int64_t> symbols;
  double log_prob = 0;
};

struct CtcGreedyOptions {
  int64_t blank = 0;  ///< the class of no symbol
};
/// What the most likely path of every sample spells (of equal classes the lower), and the log
/// probability of that path: what is spelt is more likely, by its other paths.
std::vector<CtcHypothesis> ctc_greedy(const Tensor& log_probs,
                                      const std::vector<int64_t>& lengths = {},
                                      const CtcGreedyOptions& options = {});

struct CtcBeamOptions {
  int64_t blank = 0;
  int64_t beam = 10;   ///< prefixes that are kept a step
  int64_t n_best = 1;  ///< hypotheses of a sample at most; 1 to beam
};
/// Prefix beam search (Hannun et al. 2014, algorithm 1, without a language model): the n_best most
/// likely symbols of every sample, best first, no two alike, fewer where there are no more. Paths
/// that spell the same are summed, so log_prob is that of all paths whose prefixes stayed in the
/// beam: a lower bound of -ctc_loss, and equal to it where the beam holds all prefixes.
/// Of equal prefixes the one found first is kept: by the rank of what it continues, an unchanged
/// prefix first, then by the lower symbol.
std::vector<std::vector<CtcHypothesis>> ctc_beam_search(const Tensor& log_probs,
                                                        const std::vector<int64_t>& lengths = {},
                                                        const CtcBeamOptions& options = {});

}  // namespace tern::decoding

// Decodes the log probabilities of a CTC model into symbols (Graves et al. 2006; the loss is
// ctc_loss). A path has one class per step. Its symbols are what remains when repetitions are
// merged and blanks removed: a a _ a b spells a a b.
//
//   Tensor log_probs = log_softmax(model(x), -1);        // (T, N, C)
//   auto best = decoding::ctc_greedy(log_probs, lengths);
//   auto lists = decoding::ctc_beam_search(log_probs, lengths, {.beam = 16, .n_best = 3});
//   lists[0][0].symbols;                                 // of the first sample
//
// log_probs (T, N, C), or (T, C) for one sample, floating, in any layout. lengths has the number of
// steps of each sample, in [0, T]; an empty list means T for all. Steps after a length are not
// read. -inf marks an impossible class. NaN, +inf and a step without a possible class are an Error
// that names sample and step. Nothing is recorded for gradients. Sums are in double. A sample's
// result depends neither on the other samples nor on the number of threads.
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
  int64_t blank = 0;  ///< the class that stands for no symbol
};
/// The symbols of the most likely path of every sample (of equal classes the lower), with the log
/// probability of this path. The symbols themselves are more probable, since other paths spell them
/// too.
std::vector<CtcHypothesis> ctc_greedy(const Tensor& log_probs,
                                      const std::vector<int64_t>& lengths = {},
                                      const CtcGreedyOptions& options = {});

struct CtcBeamOptions {
  int64_t blank = 0;
  int64_t beam = 10;   ///< prefixes kept per step
  int64_t n_best = 1;  ///< largest number of hypotheses per sample, 1 to beam
};
/// Prefix beam search (Hannun et al. 2014, algorithm 1, without a language model): the n_best most
/// likely symbol sequences of every sample, best first, all different, fewer if there are no more.
/// Paths that spell the same are summed, so log_prob is that of all paths whose prefixes stayed in
/// the beam: a lower bound of -ctc_loss, and equal to it if the beam holds all prefixes. Among
/// equally likely prefixes the order is: the rank of the prefix that is continued, then the
/// unchanged prefix, then the lower symbol.
std::vector<std::vector<CtcHypothesis>> ctc_beam_search(const Tensor& log_probs,
                                                        const std::vector<int64_t>& lengths = {},
                                                        const CtcBeamOptions& options = {});

}  // namespace tern::decoding

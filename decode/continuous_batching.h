// Decodes many sentences in few slots: as soon as sentences end, the next take their slots, so that
// every step of the decoder is a full batch (continuous batching). Greedy and beam search as in
// sampling.h and beam_search.h, for decoders that keep their sentences in slots.
//
//   decoding::PackedTransformer packed(model, PackedType::f32);
//   auto lists = decoding::decode_all(
//       [&] { return packed.decoder(); }, sources,
//       {.beam = 5, .alpha = 0.6, .begin = kBegin, .end = kEnd, .max_length = limits});
//   lists[0][0].tokens;   // the best of sources[0], without begin and end
//
// Results are in the order of the sources. The bits of a decoder's row must depend only on its own
// sentence. Then a result depends neither on other sentences nor on the number of threads. Each
// thread has its own decoder and slots. For few sentences there is only one decoder, whose products
// use all threads. After the first sentences a step allocates nothing.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "tern/decode/step_model.h"

namespace tern::decoding {

/// A hypothesis in a step: its slot, the hypothesis that it continues (its number among the slot's
/// hypotheses in the previous step; 0 in the first step), and its last token.
struct SlotRow {
  int64_t slot, parent, token;
};

/// A sentence that takes a slot.
struct SlotStart {
  int64_t slot;
  std::span<const int64_t> source;
  int64_t max_length;  ///< largest number of steps
  int64_t beam;        ///< largest number of hypotheses
  /// Tokens that may be chosen, in rising order; empty: all. Logits are computed only for these,
  /// and their probabilities add up to 1.
  std::span<const int64_t> shortlist = {};
};

/// A token that may follow, with its log probability, or with its logit if NextTokens::log_probs is
/// false.
struct NextToken {
  int64_t token;
  double log_prob;
};

/// The result of a step. The decoder resizes the vectors.
struct NextTokens {
  int64_t count = 1;                   ///< wanted per row, at most the vocabulary
  bool log_probs = true;               ///< false: logits instead, which suffice for greedy search
  const uint8_t* allowed = nullptr;    ///< (V) 0: may not be chosen
  std::vector<NextToken> tokens = {};  ///< (rows, count), best first; of equals the lower
  std::vector<int64_t> found = {};     ///< (rows) number of tokens found
  std::vector<double> largest = {};    ///< (rows) largest logit; not finite if invalid
};

/// A model that decodes sentences in slots. Only one thread may use it at a time.
class SlotDecoder {
 public:
  virtual ~SlotDecoder() = default;
  virtual int64_t vocab() const = 0;
  /// Reads sources. REQUIRES: their slots are free.
  virtual void start(std::span<const SlotStart> sentences) = 0;
  /// Frees a slot.
  virtual void finish(int64_t slot) = 0;
  /// Gives every hypothesis its token and finds the most likely next ones. Rows of a slot are
  /// adjacent.
  virtual void step(std::span<const SlotRow> rows, NextTokens& next) = 0;
};

/// Called once for each working thread, which then uses the decoder.
using MakeSlotDecoder = std::function<std::unique_ptr<SlotDecoder>()>;

struct DecodeAllOptions {
  int64_t beam = 1;  ///< 1: greedy
  double alpha = 0;
  int64_t n_best = 1;
  int64_t begin = -1, end = -1;  ///< as in GreedyOptions, also `forbid`
  PerSentence max_length = 100;  ///< a slot takes memory for all of these steps at once
  std::vector<int64_t> forbid{};
  /// false: greedy search does not compute log_prob and score, which are NaN. Only for beam 1.
  bool log_probs = true;
  int64_t rows = 128;  ///< most hypotheses in a thread's step; at least one sentence's
  /// SlotStart::shortlist of every sentence, or empty.
  std::vector<std::vector<int64_t>> shortlists{};
  /// Called with the number of sentences that were started; false stops decoding. Called by one
  /// thread at a time.
  std::function<bool(int64_t done)> progress = {};
};

/// The n_best hypotheses of every source, best first, as beam_search defines them. Long sources
/// start first. Empty if `progress` stopped it.
std::vector<std::vector<Hypothesis>> decode_all(const MakeSlotDecoder& make,
                                                std::span<const std::vector<int64_t>> sources,
                                                const DecodeAllOptions& options);

}  // namespace tern::decoding

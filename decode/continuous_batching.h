// Decoding many sentences in few slots: as soon as sentences end, the next take their places, so
// that every step of the decoder is a full batch (continuous batching). Greedy and beam search as
// in sampling.h and beam_search.h, for decoders that keep their sentences in slots.
//
//   decoding::PackedTransformer packed(model, PackedType::f32);
//   auto lists = decoding::decode_all(
//       [&] { return packed.decoder(); }, sources,
//       {.beam = 5, .alpha = 0.6, .begin = kBegin, .end = kEnd, .max_length = limits});
//   lists[0][0].tokens;   // the best of sources[0], without begin and end
//
// Results are in the order of the sources. A decoder's row must depend on its own sentence alone,
// to the bit; then so does what is found, whatever other sentences there are and however many
// threads. Threads work side by side, each with a decoder and slots of its own; one alone, for a
// few sentences, leaves the threads to its products. After the first sentences a step allocates
// nothing.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "tern/decode/step_model.h"

namespace tern::decoding {

/// A hypothesis in a step: its slot, what it continues (0, 1, ... of the slot's hypotheses in the
/// step before; 0 in the first), and its last token.
struct SlotRow {
  int64_t slot, parent, token;
};

/// A sentence that takes a slot.
struct SlotStart {
  int64_t slot;
  std::span<const int64_t> source;
  int64_t max_length;  ///< steps at most
  int64_t beam;        ///< hypotheses at most
  /// Tokens that may be chosen, rising; empty: all. Of these alone logits are computed, and their
  /// probabilities add up to 1.
  std::span<const int64_t> shortlist = {};
};

/// A token that may follow, with its log probability; where those are left out, its logit.
struct NextToken {
  int64_t token;
  double log_prob;
};

/// What a step finds; the decoder sets the sizes.
struct NextTokens {
  int64_t count = 1;                   ///< looked for, at most the vocabulary
  bool log_probs = true;               ///< false: for greedy search the logits will do
  const uint8_t* allowed = nullptr;    ///< (V) 0: may not be chosen
  std::vector<NextToken> tokens = {};  ///< (rows, count), best first, the lower of equals first
  std::vector<int64_t> found = {};     ///< (rows) how many there are
  std::vector<double> largest = {};    ///< (rows) logit; not finite where logits are not
};

/// A model that decodes sentences in slots. Not for several threads at a time.
class SlotDecoder {
 public:
  virtual ~SlotDecoder() = default;
  virtual int64_t vocab() const = 0;
  /// Reads sources; their slots are free.
  virtual void start(std::span<const SlotStart> sentences) = 0;
  /// Frees a slot.
  virtual void finish(int64_t slot) = 0;
  /// Gives every hypothesis a token and finds the next ones. Rows of a slot are neighbours.
  virtual void step(std::span<const SlotRow> rows, NextTokens& next) = 0;
};

/// Called in the working threads; what it makes is used by the thread that called.
using MakeSlotDecoder = std::function<std::unique_ptr<SlotDecoder>()>;

struct DecodeAllOptions {
  int64_t beam = 1;  ///< 1: greedy
  double alpha = 0;
  int64_t n_best = 1;
  int64_t begin = -1, end = -1;
  PerSentence max_length = 100;
  std::vector<int64_t> forbid{};
  /// false: greedy search does not compute log_prob and score, they are NaN. For beam 1 alone.
  bool log_probs = true;
  int64_t rows = 128;  ///< hypotheses in a step of one thread, at least one sentence's
  /// (sentences) or none: SlotStart's.
  std::vector<std::vector<int64_t>> shortlists{};
  /// Told how many sentences are begun; false stops. Called by one thread at a time.
  std::function<bool(int64_t done)> progress = {};
};

/// The n_best hypotheses of every source, best first, as beam_search defines them. Long sources are
/// begun first. Stopped by progress: empty.
std::vector<std::vector<Hypothesis>> decode_all(const MakeSlotDecoder& make,
                                                std::span<const std::vector<int64_t>> sources,
                                                const DecodeAllOptions& options);

}  // namespace tern::decoding

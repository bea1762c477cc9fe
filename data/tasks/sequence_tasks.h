// The five tasks of the Neural Turing Machine (Graves, Wayne & Danihelka 2014, section 4): random
// sequences that a network reads and answers, bit by bit. All sequences of a batch have the same
// randomly drawn sizes, so none is padded. T steps; each task describes its input and target
// channels.
//
//   Rng rng(0);
//   SequenceTask task = copy_task();                     // or sequence_task("copy")
//   SequenceBatch b = task.draw(16, rng);                // as in training
//   SequenceBatch longer = task.draw_length(16, 80, rng);
//   Tensor nats = cost_in_nats(model(b.input), b);       // a mean over the batch: a loss
//
// The sequences depend only on the generator.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tern/core/tensor/tensor.h"

namespace tern {
class Rng;
}

namespace tern::datasets {

struct SequenceBatch {
  Tensor input;   ///< (B, T, I)
  Tensor target;  ///< (B, T, O), 0 or 1
  Tensor mask;    ///< (B, T), 1 at the steps whose targets count, else 0
};

/// A uniform range of sizes, both ends included.
struct SizeRange {
  int64_t low, high;
};

struct SequenceTask {
  std::string name;
  int64_t inputs, outputs;  ///< I, O
  SizeRange lengths;        ///< in training
  std::string unit;         ///< unit of length: "vectors", "items", "bits"
  /// Sequences of the given length; other sizes are drawn.
  std::function<SequenceBatch(int64_t batch, int64_t length, Rng& rng)> draw_length;
  /// Sequences of a length drawn once per batch.
  SequenceBatch draw(int64_t batch, Rng& rng) const;
};

/// Reads L vectors of random bits and a mark, then repeats the vectors. I = bits + 1: bits | mark;
/// O = bits; T = 2L + 1.
struct CopyTask {
  int64_t bits = 8;
  SizeRange lengths = {1, 20};
};
SequenceTask copy_task(const CopyTask& task = {});

/// Reads L vectors, then a mark with a number n, then repeats the vectors n times and writes an end
/// mark. I = bits + 2: bits | mark | n, scaled to mean 0 and variance 1 over `scale`; O = bits + 1:
/// bits | end; T = L + 1 + L n + 1. For a fixed n use a range with equal ends; `scale` may stay.
struct RepeatCopyTask {
  int64_t bits = 8;
  SizeRange lengths = {1, 10}, repeats = {1, 10}, scale = {1, 10};
};
SequenceTask repeat_copy_task(const RepeatCopyTask& task = {});

/// Reads K items of V vectors each, then one of them again (not the last), and writes the item that
/// followed it. I = bits + 2: bits | item begins | question begins and ends; O = bits; and T =
/// (V + 1) K + 2 V + 2.
struct RecallTask {
  int64_t bits = 6, vectors = 3;
  SizeRange items = {2, 6};
};
SequenceTask recall_task(const RecallTask& task = {});

/// Bits that each depend on the previous `context` bits by a table, which is drawn for every
/// sequence: 2^context probabilities from Beta(1/2, 1/2). I = 1, the previous bit (0 at first);
/// O = 1, the bit; T = the number of bits. The first `context` bits are uniform.
struct NgramTask {
  int64_t context = 5;
  SizeRange lengths = {200, 200};
};
SequenceTask ngram_task(const NgramTask& task = {});

/// The logits (B, T, 1) of the best predictor that does not know the table (Murphy 2012): P(1) =
/// (n1 + 1/2) / (n0 + n1 + 1), where n0 and n1 count how often 0 and 1 followed this context.
Tensor best_ngram_logits(const SequenceBatch& batch, int64_t context = 5);

/// Reads L random vectors with priorities from U(-1, 1) and a mark, then writes the `share` with
/// the highest priorities, highest first (16 of 20 vectors). I = bits + 2: bits | priority | mark;
/// O = bits; T = (1 + share) L + 1.
struct SortTask {
  int64_t bits = 8;
  SizeRange lengths = {20, 20};
  double share = 0.8;
};
SequenceTask sort_task(const SortTask& task = {});

/// By name: copy, repeat-copy, recall, ngrams, sort. Error for other names.
SequenceTask sequence_task(const std::string& name);
std::vector<std::string> sequence_task_names();

/// -log P(target) per sequence, averaged over the batch, differentiable: the sum of binary cross
/// entropies where the mask is 1. logits (B, T, O).
Tensor cost_in_nats(const Tensor& logits, const SequenceBatch& batch);
/// The same in bits, as a number.
double cost_in_bits(const Tensor& logits, const SequenceBatch& batch);
/// How many target bits of each sequence are predicted wrong: i64 (B).
Tensor wrong_bits(const Tensor& logits, const SequenceBatch& batch);

}  // namespace tern::datasets

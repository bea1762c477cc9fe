// One thread's slots of a PackedTransformer. Inside of decode only.
#pragma once

#include <span>
#include <vector>

#include "tern/decode/layer_rows.h"
#include "tern/decode/packed_weights.h"

namespace tern::decoding {

class PackedDecoder final : public SlotDecoder {
 public:
  explicit PackedDecoder(const PackedTransformer::Weights& weights);

  int64_t vocab() const override { return weights_.generator.vocab(); }
  void start(std::span<const SlotStart> sentences) override;
  void finish(int64_t slot) override;
  void step(std::span<const SlotRow> rows, NextTokens& next) override;

 private:
  struct Slot {
    int64_t source = 0, steps = 0;      ///< tokens of the source, and of the target so far
    int64_t room = 0;                   ///< largest number of steps
    std::vector<float> memory;          ///< (layers, source, keys and values)
    std::vector<int32_t> places, next;  ///< (beam, room) cells of each hypothesis' tokens
    std::vector<int32_t> cells;         ///< all cells that the slot took
    std::span<const int64_t> shortlist;
  };
  /// One row of a step.
  struct Row {
    Slot* slot;
    const int32_t* places;  ///< cells of its tokens, the current one last
  };

  void reserve_positions(int64_t tokens);
  void embed(const Tensor& table, int64_t row, int64_t token, int64_t position);
  /// Attention of one query q to keys_.
  void attend(const PackedAttention& sizes, const float* q, float* out);
  void begin_slot(const SlotStart& sentence);
  void encode(std::span<const SlotStart> sentences);
  void encode_layer(const PackedEncoderLayer& layer, std::span<const SlotStart> sentences);
  void keep_memory(std::span<const SlotStart> sentences);
  void check_rows(std::span<const SlotRow> rows) const;
  void give_places(std::span<const SlotRow> rows);
  void decode_layer(int64_t l);
  void attend_self(const PackedAttention& self, int64_t l, const float* input);
  void attend_memory(const PackedAttention& memory, int64_t l, const float* input);

  const PackedTransformer::Weights& weights_;
  CellPool pool_;
  std::vector<Slot> slots_;
  std::vector<Row> rows_;
  LayerRows layers_;
  std::vector<float> positions_;  // (tokens, D)
  std::vector<float> scores_;     // scores of a query's head
  std::vector<const float*> keys_;
  std::vector<std::span<const int64_t>> lists_;
  PackedGenerator::Room room_;
};

}  // namespace tern::decoding

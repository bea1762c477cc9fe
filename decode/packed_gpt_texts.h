// The weights of a PackedGpt, and the texts that it continues. Inside of decode only.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <vector>

#include "tern/core/ops/attention/query_attention.h"
#include "tern/decode/embedding_table.h"
#include "tern/decode/layer_rows.h"
#include "tern/decode/packed_gpt.h"

namespace tern::decoding {

struct PackedGptLayer {
  PackedNorm norm1, norm2;
  PackedAttention attention;
  PackedFfn ffn;
  std::optional<PackedNorm> q_norm, k_norm, post_norm1, post_norm2;
  int turn;        ///< which rotary positions; -1: none
  int64_t window;  ///< tokens that a token sees; 0: all
};

struct PackedGpt::Weights {
  PackedType type;
  models::GptOptions options;
  EmbeddingTable table;                    ///< undefined if the head's rows are used
  Tensor positions;                        ///< (context, D), or a row of zeros for all
  std::array<nn::RotaryOptions, 2> turns;  ///< of layers that see all, and of those with a window
  std::vector<PackedGptLayer> layers;
  PackedNorm norm;
  PackedLinear head;

  /// All but the layers, the table and the head.
  Weights(const models::Gpt& model, PackedType type);
  /// Packs the layers and frees them. Calls fill(i) before it packs layer i.
  void take_layers(models::Gpt& model, const std::function<void(int64_t)>& fill);
  /// Packs the table and the head (read if not tied). If they are tied, the head's rows are the
  /// table, except in bf16 if that would round them.
  void read_ends(const RowReader& embeddings, const RowReader& head_rows);
  PackedType head_type() const { return type == PackedType::int4 ? PackedType::int8 : type; }
};

class PackedGptTexts final : public TextStepper {
 public:
  explicit PackedGptTexts(const PackedGpt::Weights& weights);

  int64_t batch() const override { return std::ssize(texts_); }
  void add(std::span<const std::vector<int64_t>> texts) override;
  void extend(int64_t row, std::span<const int64_t> tokens) override;
  Tensor step(const Tensor& tokens) override;
  void select_rows(const Tensor& rows) override;

  /// Adds one text. Writes the logits (T, V) for the token after each of its tokens.
  void score(std::span<const int64_t> tokens, float* logits);

 private:
  struct Text {
    std::vector<int32_t> cells;      ///< one per token
    std::vector<const float*> keys;  ///< addresses of their keys in the first layer
  };
  /// A token of the current run.
  struct Row {
    size_t text;
    int64_t token, position;
  };

  void check_next(int64_t position, std::span<const int64_t> tokens) const;
  void push(size_t text, int64_t token);
  void push_all(size_t text, std::span<const int64_t> tokens);
  void run();
  void attend(const PackedGptLayer& layer, int64_t l, const float* input);
  void reserve_turns(int64_t tokens);
  void turn(const PackedGptLayer& layer, float* heads, int64_t count, int64_t position) const;

  const PackedGpt::Weights& weights_;
  CellPool pool_;
  std::vector<int32_t> uses_;  // per cell: the number of texts that use it
  std::vector<Text> texts_;
  std::vector<Row> rows_;
  LayerRows layers_;
  // (tokens, channels) for the positions so far: the cosines of a head's pairs, then the sines.
  std::array<Tensor, 2> turns_;
  std::vector<tern::detail::Query> queries_;  // of the rows
  std::vector<int64_t> parts_;  // first rows of the parts that read keys together, and the end
  std::vector<float> scores_;
};

}  // namespace tern::decoding

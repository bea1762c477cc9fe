// Tables of embeddings as packed models keep them: in bf16 until a number does not fit.
#include <doctest/doctest.h>

#include <vector>

#include "tern/core/ops/ops.h"
#include "tern/decode/embedding_table.h"

namespace tern::test_embedding_table {

TEST_CASE("embedding table: rows are the same numbers, in half the memory if bf16 holds them") {
  const Tensor small = tensor({{1.0f, 0.5f, 7.0f}}), fine = tensor({{1.0f, 0.1f, 7.0f}});
  const Tensor even = tensor({{1.0f, -2.5f, 0.0f}, {0.0f, -0.0f, 0.75f}});
  for (const bool compact : {true, false})
    for (const bool fine_first : {true, false}) {
      const Tensor third = compact ? small : fine;
      const std::vector<Tensor> blocks =
          fine_first ? std::vector{third, even, small} : std::vector{even, third, small};
      decoding::EmbeddingTable table(4, 3);
      for (const Tensor& rows : blocks) table.append(rows);
      CHECK(table.bytes() == (compact ? 24 : 48));
      const Tensor all = cat(blocks, 0);
      for (int64_t row = 0; row < 4; ++row) {
        std::vector<float> room(3);
        const float* x = table.row(row, room.data());
        for (int64_t i = 0; i < 3; ++i) CHECK(x[i] == all.data<float>()[row * 3 + i]);
      }
    }
  CHECK_FALSE(decoding::EmbeddingTable().defined());
  CHECK(decoding::EmbeddingTable().bytes() == 0);
}

}  // namespace tern::test_embedding_table

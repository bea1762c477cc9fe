// Adds up one bucket of tensors over all blocks of a step, in the tree over the blocks. The tensors
// are sent without a copy, and the sums are received into the same elements.
// Inside of dist only.
#pragma once

#include <vector>

#include "tern/core/tensor/tensor.h"
#include "tern/dist/detail/block_tree.h"
#include "tern/dist/world.h"

namespace tern::dist::detail {

/// Each rank adds up its share of the bucket. In the first stage of an exchange it receives that
/// share of the nodes of all ranks, in the second stage the sums of the other shares.
class BucketSum {
 public:
  struct Place {
    int64_t blocks, ranks, rank;
  };
  /// own[n][i] is item i of this rank's node n, undefined if no block of the node has one. `shapes`
  /// are those of the items.
  /// REQUIRES: no other tensor shares the elements of own[0], since the sums are written there.
  BucketSum(Place place, Bucket bucket, std::vector<std::vector<Tensor>> own,
            const std::vector<Shape>& shapes);

  /// The parts of the first stage. Their spans live as long as this object.
  std::vector<World::Part> nodes();
  /// Adds up this rank's share and multiplies it by `scale`. Returns the parts of the second stage.
  std::vector<World::Part> add_up(double scale);
  /// After both stages: the sum of an item of the bucket, undefined if no block has one.
  Tensor sum(size_t item) const;

 private:
  // A node of any rank: which items it has, and where its elements in this rank's share are.
  struct Source {
    Range blocks;
    int64_t rank;
    std::vector<std::byte> present;    // by item: 1 if the node has it
    std::vector<std::byte*> elements;  // by item: its first element in the share
    Tensor received;                   // the share of another rank's node
  };
  // The elements of an item that lie in a share.
  struct Cut {
    size_t item;         // its number in the bucket, from 0
    int64_t from, size;  // the first element within the item, and how many
    int64_t place;       // the position of the first element within the share
  };
  std::vector<Cut> cuts(int64_t rank) const;
  std::byte* own_elements(size_t node, const Cut& cut) const;
  bool anywhere(size_t item) const;
  template <class T>
  void add_up_cut(const Cut& cut, T scale) const;

  Place place_;
  Bucket bucket_;
  size_t item_bytes_;
  std::vector<std::vector<Tensor>> own_;
  std::vector<std::vector<std::byte*>> own_data_;
  std::vector<Source> sources_;  // the nodes of all ranks, in the order of their blocks
};

}  // namespace tern::dist::detail

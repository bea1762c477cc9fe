// The sum of one bucket of tensors over all blocks of a step, in the tree over the blocks. The
// tensors are sent from where they lie, and the sums come back into the same elements.
// Inside of dist only.
#pragma once

#include <vector>

#include "tern/core/tensor/tensor.h"
#include "tern/dist/detail/block_tree.h"
#include "tern/dist/world.h"

namespace tern::dist::detail {

/// Each rank adds up its share of the bucket: it gets the nodes of all ranks for that share (the
/// first stage of an exchange), and then the sums of the others' shares (the second stage).
class BucketSum {
 public:
  struct Place {
    int64_t blocks, ranks, rank;
  };
  /// own[n][i]: item i of this rank's node n, undefined where no block of the node has one.
  /// `shapes` are those of the items. Nobody else holds the elements of own[0]: sums go there.
  BucketSum(Place place, Bucket bucket, std::vector<std::vector<Tensor>> own,
            const std::vector<Shape>& shapes);

  /// What the first stage moves. Its spans live as long as this object.
  std::vector<World::Part> nodes();
  /// Adds up this rank's share and multiplies it by `scale`; gives what the second stage moves.
  std::vector<World::Part> add_up(double scale);
  /// After both stages: the sum of an item of the bucket, undefined where no block has one.
  Tensor sum(size_t item) const;

 private:
  // A node of some rank: which items it has, and where their elements of this rank's share lie.
  struct Source {
    BlockRange blocks;
    int64_t rank;
    std::vector<std::byte> present;    // by item
    std::vector<std::byte*> elements;  // by item: where its first element of the share lies
    Tensor received;                   // the share, of other ranks' nodes
  };
  // Elements of an item that lie in a share.
  struct Cut {
    size_t item;         // of the bucket, from 0
    int64_t from, size;  // elements of the item
    int64_t place;       // of the first one, in the share
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
  std::vector<Source> sources_;  // of all ranks, in the order of their blocks
};

}  // namespace tern::dist::detail

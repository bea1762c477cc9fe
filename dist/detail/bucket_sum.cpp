// The parts of both stages of a bucket's exchange, and between them the sum of this rank's share:
// pieces of 2048 elements go up the tree while they are in the cache.
#include "tern/dist/detail/bucket_sum.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "tern/core/base/simd.h"
#include "tern/core/base/threads.h"
#include "tern/core/ops/ops.h"
#include "tern/dist/detail/tensor_bytes.h"

namespace tern::dist::detail {
namespace {

constexpr int64_t kPiece = 2048;  // elements added up at once, so that the sums stay in the cache

// Sums one piece of an item over the tree. sources[k] points to its elements in node k; it is null
// if that node has none. A sum is written to `space` or to one of the pieces after it.
template <class T>
struct TreeSum {
  const std::vector<Range>& nodes;
  const std::vector<const T*>& sources;
  int64_t count;
  size_t next = 0;

  const T* operator()(Range node, T* space) {
    if (nodes[next] == node) return sources[next++];
    const int64_t middle = node.first + left_half(node.size());
    const T* left = (*this)({node.first, middle}, space);
    const T* right = (*this)({middle, node.end}, space + kPiece);
    if (!left || !right) return left ? left : right;
    simd([=, n = count] {
      for (int64_t i = 0; i < n; ++i) space[i] = left[i] + right[i];
    });
    return space;
  }
};

int64_t depth_of(int64_t blocks) { return std::bit_width(static_cast<uint64_t>(blocks - 1)) + 1; }

}  // namespace

BucketSum::BucketSum(Place place, Bucket bucket, std::vector<std::vector<Tensor>> own,
                     const std::vector<Shape>& shapes)
    : place_(place),
      bucket_(std::move(bucket)),
      item_bytes_(static_cast<size_t>(item_size(bucket_.dtype))),
      own_(std::move(own)) {
  const size_t items = bucket_.end - bucket_.first;
  for (int64_t r = 0; r < place_.ranks; ++r)
    for (const Range& blocks : nodes_of(place_.blocks, place_.ranks, r))
      sources_.push_back({blocks, r, std::vector<std::byte>(items), {}, {}});
  size_t node = 0;
  for (Source& s : sources_) {
    s.elements.resize(items);
    if (s.rank != place_.rank) {
      s.received =
          empty({range_of(bucket_.size(), place_.ranks, place_.rank).size()}, bucket_.dtype);
      std::byte* data = bytes_to(s.received).data();
      for (const Cut& c : cuts(place_.rank))
        s.elements[c.item] = data + static_cast<size_t>(c.place) * item_bytes_;
      continue;
    }
    std::vector<Tensor>& tensors = own_[node];
    std::vector<std::byte*>& data = own_data_.emplace_back(items);
    for (size_t i = 0; i < items; ++i) {
      s.present[i] = std::byte(tensors[i].defined());
      if (!tensors[i].defined() && place_.ranks > 1) tensors[i] = zeros(shapes[i], bucket_.dtype);
      if (tensors[i].defined()) data[i] = bytes_to(tensors[i]).data();
    }
    for (const Cut& c : cuts(place_.rank))
      if (data[c.item]) s.elements[c.item] = own_elements(node, c);
    ++node;
  }
}

std::vector<BucketSum::Cut> BucketSum::cuts(int64_t rank) const {
  const auto [from, end] = range_of(bucket_.size(), place_.ranks, rank);
  std::vector<Cut> result;
  for (size_t i = bucket_.first; i < bucket_.end; ++i) {
    const int64_t begin = bucket_.offset(i);
    const int64_t first = std::max(from, begin), last = std::min(end, bucket_.offset(i + 1));
    if (first < last)
      result.push_back({i - bucket_.first, first - begin, last - first, first - from});
  }
  return result;
}

std::byte* BucketSum::own_elements(size_t node, const Cut& cut) const {
  return own_data_[node][cut.item] + static_cast<size_t>(cut.from) * item_bytes_;
}

bool BucketSum::anywhere(size_t item) const {
  return std::any_of(sources_.begin(), sources_.end(),
                     [&](const Source& s) { return s.present[item] != std::byte(0); });
}

std::vector<World::Part> BucketSum::nodes() {
  std::vector<World::Part> parts;
  for (int64_t r = 0; r < place_.ranks; ++r) {
    if (r == place_.rank) continue;
    const std::vector<Cut> theirs = cuts(r), mine = cuts(place_.rank);
    size_t node = 0;
    for (Source& s : sources_) {
      if (s.rank == place_.rank) {
        parts.push_back({r, s.present, {}});
        for (const Cut& c : theirs)
          parts.push_back(
              {r, std::span(own_elements(node, c), static_cast<size_t>(c.size) * item_bytes_), {}});
        ++node;
      } else if (s.rank == r) {
        parts.push_back({r, {}, s.present});
        for (const Cut& c : mine)
          parts.push_back(
              {r, {}, std::span(s.elements[c.item], static_cast<size_t>(c.size) * item_bytes_)});
      }
    }
  }
  return parts;
}

template <class T>
void BucketSum::add_up_cut(const Cut& cut, T scale) const {
  std::vector<Range> ranges;
  for (const Source& s : sources_) ranges.push_back(s.blocks);
  T* to = reinterpret_cast<T*>(own_elements(0, cut));
  parallel_for(cut.size, 16 * kPiece, [&](int64_t begin, int64_t end) {
    std::vector<T> space(static_cast<size_t>(depth_of(place_.blocks) * kPiece));
    std::vector<const T*> from(sources_.size());
    for (int64_t at = begin; at < end; at += kPiece) {
      for (size_t k = 0; k < sources_.size(); ++k)
        from[k] = sources_[k].present[cut.item] != std::byte(0)
                      ? reinterpret_cast<const T*>(sources_[k].elements[cut.item]) + at
                      : nullptr;
      const int64_t n = std::min(kPiece, end - at);
      const T* sum = TreeSum<T>{ranges, from, n}({0, place_.blocks}, space.data());
      simd([=] {
        for (int64_t i = 0; i < n; ++i) to[at + i] = sum[i] * scale;
      });
    }
  });
}

std::vector<World::Part> BucketSum::add_up(double scale) {
  const std::vector<Cut> mine = cuts(place_.rank);
  for (const Cut& c : mine)
    if (anywhere(c.item)) {
      if (bucket_.dtype == DType::f32)
        add_up_cut(c, static_cast<float>(scale));
      else
        add_up_cut(c, scale);
    }
  std::vector<World::Part> parts;
  const auto bytes = [&](const Cut& c) {
    return std::span(own_elements(0, c), static_cast<size_t>(c.size) * item_bytes_);
  };
  for (int64_t r = 0; r < place_.ranks; ++r) {
    if (r == place_.rank) continue;
    for (const Cut& c : mine)
      if (anywhere(c.item)) parts.push_back({r, bytes(c), {}});
    for (const Cut& c : cuts(r))
      if (anywhere(c.item)) parts.push_back({r, {}, bytes(c)});
  }
  for (Source& s : sources_) s.received = {};
  return parts;
}

Tensor BucketSum::sum(size_t item) const {
  const size_t i = item - bucket_.first;
  return anywhere(i) ? own_[0][i] : Tensor{};
}

}  // namespace tern::dist::detail

#include "tern/dist/owned_tensors.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "tern/core/base/error.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/dist/detail/tensor_bytes.h"

namespace tern::dist {
namespace {

constexpr size_t kSmallTensor = size_t{64} << 10;    // bytes; these travel together
constexpr int64_t kAveragePiece = int64_t{1} << 21;  // elements that are on their way at a time

// The small tensors of one rank, one behind the other.
struct SmallTensors {
  std::vector<std::byte> bytes;
  void pack(std::span<const std::byte> more) {
    bytes.insert(bytes.end(), more.begin(), more.end());
  }
};

void send_owned(World& world, const std::string& what, const std::vector<OwnedTensor>& tensors,
                bool to_all) {
  if (world.size() == 1) return;
  NoGradGuard no_grad;
  const int64_t rank = world.rank();
  const bool receives = to_all || rank == 0;
  std::vector<SmallTensors> small(static_cast<size_t>(world.size()));
  std::vector<World::Part> parts;
  const auto send = [&](std::span<const std::byte> bytes) {
    for (int64_t to = 0; to < (to_all ? world.size() : 1); ++to)
      if (to != rank) parts.push_back({to, bytes, {}});
  };
  for (const auto& [owner, tensor] : tensors) {
    check(owner >= 0 && owner < world.size() && tensor.is_contiguous(),
          "World: {}: a tensor of rank {} of {}, which must be contiguous", what, owner,
          world.size());
    const std::span<const std::byte> bytes = detail::bytes_of(tensor);
    if (bytes.size() < kSmallTensor)
      small[static_cast<size_t>(owner)].pack(bytes);
    else if (owner == rank)
      send(bytes);
    else if (receives)
      parts.push_back({owner, {}, detail::bytes_to(tensor)});
  }
  for (int64_t owner = 0; owner < world.size(); ++owner) {
    std::vector<std::byte>& bytes = small[static_cast<size_t>(owner)].bytes;
    if (owner == rank)
      send(bytes);
    else if (receives)
      parts.push_back({owner, {}, bytes});
  }
  world.exchange(what, std::move(parts)).wait();
  if (!receives) return;
  std::vector<size_t> places(small.size());
  for (const auto& [owner, tensor] : tensors) {
    const size_t size = detail::bytes_of(tensor).size();
    if (owner == rank || size >= kSmallTensor) continue;
    size_t& place = places[static_cast<size_t>(owner)];
    if (size > 0)
      std::memcpy(detail::bytes_to(tensor).data(),
                  small[static_cast<size_t>(owner)].bytes.data() + place, size);
    place += size;
  }
}

// The mean of a piece: each rank adds up its share of the elements, and sends the sums.
void average_piece(World& world, const std::string& what, const Tensor& piece,
                   const std::vector<double>& weights, double sum) {
  const int64_t ranks = world.size(), rank = world.rank();
  const auto share = [&](int64_t r) {
    return slice(piece, 0, piece.numel() * r / ranks, piece.numel() * (r + 1) / ranks);
  };
  const Tensor mine = share(rank);
  std::vector<Tensor> received;
  std::vector<World::Part> parts;
  for (int64_t r = 0; r < ranks; ++r) {
    received.push_back(r == rank ? mine : zeros(mine.shape(), mine.dtype()));
    if (r != rank)
      parts.push_back({r, detail::bytes_of(share(r)), detail::bytes_to(received.back())});
  }
  world.exchange(what, std::move(parts)).wait();
  Tensor mean;
  for (int64_t r = 0; r < ranks; ++r) {
    const auto i = static_cast<size_t>(r);
    const Tensor part = received[i] * (weights[i] / sum);
    mean = mean.defined() ? mean + part : part;
  }
  copy_(mine, mean);
  parts.clear();
  for (int64_t r = 0; r < ranks; ++r)
    if (r != rank) parts.push_back({r, detail::bytes_of(mine), detail::bytes_to(share(r))});
  world.exchange(what, std::move(parts)).wait();
}

}  // namespace

void send_to_all(World& world, const std::string& what, const std::vector<OwnedTensor>& tensors) {
  send_owned(world, what, tensors, true);
}

void send_to_first(World& world, const std::string& what, const std::vector<OwnedTensor>& tensors) {
  send_owned(world, what, tensors, false);
}

void average(World& world, const std::string& what, const std::vector<Tensor>& tensors,
             const std::vector<double>& weights) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  check(std::ssize(weights) == world.size() && sum > 0,
        "World: {}: {} weights for {} ranks, with the sum {}", what, weights.size(), world.size(),
        sum);
  if (world.size() == 1) return;
  NoGradGuard no_grad;
  // Tensors of one type one behind the other, in pieces.
  for (size_t first = 0; first < tensors.size();) {
    const DType dtype = tensors[first].dtype();
    size_t end = first;
    int64_t elements = 0;
    while (end < tensors.size() && tensors[end].dtype() == dtype &&
           (end == first || elements + tensors[end].numel() <= kAveragePiece))
      elements += tensors[end++].numel();
    const Tensor flat =
        end - first == 1 ? reshape(tensors[first], {elements}) : zeros({elements}, dtype);
    const auto each = [&](auto fn) {
      int64_t at = 0;
      for (size_t i = first; i < end; ++i, at += tensors[i - 1].numel())
        fn(tensors[i], reshape(slice(flat, 0, at, at + tensors[i].numel()), tensors[i].shape()));
    };
    if (end - first > 1) each([](const Tensor& t, const Tensor& place) { copy_(place, t); });
    for (int64_t at = 0; at < elements; at += kAveragePiece)
      average_piece(world, what, slice(flat, 0, at, std::min(elements, at + kAveragePiece)),
                    weights, sum);
    if (end - first > 1) each([](const Tensor& t, const Tensor& place) { copy_(t, place); });
    first = end;
  }
}

}  // namespace tern::dist

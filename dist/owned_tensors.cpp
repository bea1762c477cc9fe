// Packs small tensors together, sends all along the hops of detail/owned_hops.h, and unpacks them.
// Means over ranks: each rank averages its share of the elements and sends it to the others.
#include "tern/dist/owned_tensors.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <utility>

#include "tern/core/base/error.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/dist/detail/owned_hops.h"
#include "tern/dist/detail/tensor_bytes.h"

namespace tern::dist {
namespace {

constexpr int64_t kAveragePiece = int64_t{1} << 21;  // elements averaged in one exchange

// Buffers of transfers in flight. The exchange owns them: after a failure, transfers run until the
// World ends.
struct Travelling {
  std::vector<OwnedTensor> tensors;
  std::vector<std::vector<std::byte>> small;  // by owner: its small tensors, packed
  std::vector<detail::OwnedBytes> items = {};
  struct Bytes {
    std::span<const std::byte> send;
    std::span<std::byte> receive;
  };
  std::vector<Bytes> bytes = {};  // by item

  bool is_small(size_t i) const {
    return std::ssize(detail::bytes_of(tensors[i].tensor)) < detail::kSmallTensor;
  }
  std::vector<std::byte>& small_of(size_t i) {
    return small[static_cast<size_t>(tensors[i].owner)];
  }
  void make_items(int64_t rank);
  void unpack(int64_t rank);
};

void Travelling::make_items(int64_t rank) {
  std::vector<detail::OwnedBytes> sizes;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto from = detail::bytes_of(tensors[i].tensor);
    sizes.push_back({tensors[i].owner, std::ssize(from)});
    if (is_small(i)) small_of(i).insert(small_of(i).end(), from.begin(), from.end());
  }
  items = detail::items_of(sizes, std::ssize(small));
  for (std::vector<std::byte>& s : small) bytes.push_back({s, s});
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (is_small(i)) continue;
    const auto& [owner, tensor] = tensors[i];
    if (owner == rank)
      bytes.push_back({detail::bytes_of(tensor), {}});
    else
      bytes.push_back({detail::bytes_to(tensor), detail::bytes_to(tensor)});
  }
}

void Travelling::unpack(int64_t rank) {
  std::vector<size_t> places(small.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto& [owner, tensor] = tensors[i];
    if (owner == rank || !is_small(i)) continue;
    const size_t size = detail::bytes_of(tensor).size();
    size_t& place = places[static_cast<size_t>(owner)];
    if (size > 0) std::memcpy(detail::bytes_to(tensor).data(), small_of(i).data() + place, size);
    place += size;
  }
}

void send_owned(World& world, const std::string& what, const std::vector<OwnedTensor>& tensors,
                bool to_all) {
  const int64_t rank = world.rank(), ranks = world.size();
  if (ranks == 1) return;
  NoGradGuard no_grad;
  for (const auto& [owner, tensor] : tensors)
    check(owner >= 0 && owner < ranks && tensor.is_contiguous(),
          "World: {}: a tensor belongs to rank {} of {}; ranks count from 0, and tensors must be "
          "contiguous",
          what, owner, ranks);
  const auto on_way = std::make_shared<Travelling>();
  on_way->tensors = tensors, on_way->small.resize(static_cast<size_t>(ranks));
  on_way->make_items(rank);
  const auto parts = [=](int stage) {
    std::vector<World::Part> list;
    for (const detail::Hop& hop : to_all ? detail::hops_to_all(on_way->items, ranks, rank, stage)
                                         : detail::hops_to_first(on_way->items, rank)) {
      const Travelling::Bytes& bytes = on_way->bytes[hop.item];
      const auto begin = static_cast<size_t>(hop.begin), size = static_cast<size_t>(hop.bytes);
      if (hop.from == rank)
        list.push_back({hop.to, bytes.send.subspan(begin, size), {}});
      else
        list.push_back({hop.from, {}, bytes.receive.subspan(begin, size)});
    }
    return list;
  };
  world
      .exchange(what, parts(0),
                [parts, more = to_all]() mutable {
                  return std::exchange(more, false) ? parts(1) : std::vector<World::Part>{};
                })
      .wait();
  if (to_all || rank == 0) on_way->unpack(rank);
}

// Exchanges elements of tensors. The exchange owns the tensors for the same reason as Travelling.
void exchange_parts(World& world, const std::string& what, std::vector<World::Part> parts,
                    const std::vector<Tensor>& tensors) {
  world.exchange(what, std::move(parts), [tensors] { return std::vector<World::Part>{}; }).wait();
}

// Averages a piece: each rank averages its share of the elements and sends the means to the others.
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
  std::vector<Tensor> kept = received;
  kept.push_back(piece);
  exchange_parts(world, what, std::move(parts), kept);
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
  exchange_parts(world, what, std::move(parts), {piece});
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
        "World: {}: {} weights for {} ranks, with the sum {}; each rank needs one weight, and the "
        "sum must be above 0",
        what, weights.size(), world.size(), sum);
  if (world.size() == 1) return;
  NoGradGuard no_grad;
  // Packs neighbouring tensors of one type into one flat tensor and averages it in pieces.
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

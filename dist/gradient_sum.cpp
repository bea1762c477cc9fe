#include "tern/dist/gradient_sum.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "tern/core/base/cpu.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/nn/module.h"

namespace tern::dist {
namespace {

size_t at(int64_t i) { return static_cast<size_t>(i); }

// Where the tree divides a node of `blocks` blocks: behind the largest power of two below.
int64_t left_half(int64_t blocks) {
  int64_t half = 1;
  while (2 * half < blocks) half *= 2;
  return half;
}

std::span<const std::byte> bytes_of(const Tensor& t) {
  return dispatch(t.dtype(),
                  [&]<class T>() { return std::as_bytes(std::span(t.data<T>(), at(t.numel()))); });
}

std::span<std::byte> bytes_to(const Tensor& t) {
  return dispatch(t.dtype(), [&]<class T>() {
    return std::as_writable_bytes(std::span(t.mutable_data<T>(), at(t.numel())));
  });
}

// FNV-1a, 64 bits.
uint64_t hash_of(const NamedTensors& tensors) {
  uint64_t hash = 14695981039346656037ULL;
  for (const auto& [name, t] : tensors)
    for (const std::byte b : bytes_of(t.detach().contiguous()))
      hash = (hash ^ static_cast<uint64_t>(b)) * 1099511628211ULL;
  return hash;
}

void append(std::string& to, const void* from, size_t bytes) {
  to.append(static_cast<const char*>(from), bytes);
}

// A text behind its length, and back.
void append_text(std::string& to, const std::string& text) {
  const uint64_t length = text.size();
  append(to, &length, sizeof length);
  to += text;
}

std::string next_text(const std::string& from, size_t& place) {
  uint64_t length = 0;
  std::memcpy(&length, from.data() + place, sizeof length);
  std::string text = from.substr(place + sizeof length, length);
  place += sizeof length + length;
  return text;
}

// Consecutive items of one type that are sent together, one behind the other.
struct Bucket {
  DType dtype;
  size_t first, end;             // items
  std::vector<int64_t> offsets;  // of each item, and the number of elements in all
  int64_t size() const { return offsets.back(); }
  int64_t offset(size_t item) const { return offsets[item - first]; }
};

std::vector<Bucket> buckets_of(const std::vector<Tensor>& like, int64_t bytes) {
  std::vector<Bucket> buckets;
  for (size_t i = 0; i < like.size(); ++i) {
    const Tensor& t = like[i];
    if (buckets.empty() || buckets.back().dtype != t.dtype() ||
        buckets.back().size() * item_size(t.dtype()) >= bytes)
      buckets.push_back({t.dtype(), i, i, {0}});
    buckets.back().end = i + 1;
    buckets.back().offsets.push_back(buckets.back().size() + t.numel());
  }
  return buckets;
}

}  // namespace

// Every rank knows the lengths of another's: they follow from its blocks.
struct GradientSum::Header {
  std::vector<double> weights, losses;     // of its blocks; weight 0: the block is empty
  std::vector<std::vector<char>> present;  // by node and item
  std::string counts;                      // buffers of integers after its last block
  std::vector<std::string> notes;          // by block

  std::string text() const {
    std::string s;
    append(s, weights.data(), weights.size() * sizeof(double));
    append(s, losses.data(), losses.size() * sizeof(double));
    for (const std::vector<char>& node : present) append(s, node.data(), node.size());
    append_text(s, counts);
    for (const std::string& note : notes) append_text(s, note);
    return s;
  }
  static Header parse(const std::string& s, int64_t blocks, size_t nodes, size_t items) {
    Header h;
    h.weights.resize(at(blocks)), h.losses.resize(at(blocks));
    const size_t numbers = at(blocks) * sizeof(double);
    std::memcpy(h.weights.data(), s.data(), numbers);
    std::memcpy(h.losses.data(), s.data() + numbers, numbers);
    size_t place = 2 * numbers;
    for (size_t n = 0; n < nodes; ++n, place += items)
      h.present.emplace_back(s.begin() + static_cast<std::ptrdiff_t>(place),
                             s.begin() + static_cast<std::ptrdiff_t>(place + items));
    h.counts = next_text(s, place);
    for (int64_t b = 0; b < blocks; ++b) h.notes.push_back(next_text(s, place));
    return h;
  }
};

GradientSum::GradientSum(World& world, nn::ModuleRef model, GradientSumOptions options)
    : world_(world),
      model_(std::move(model)),
      options_(options),
      parameters_(nn::named_parameters(model_)),
      generators_(nn::generators(model_)) {
  check(options.blocks >= world.size(),
        "GradientSum: {} ranks need at least as many blocks, and there are {}", world.size(),
        options.blocks);
  check(options.bucket_bytes > 0, "GradientSum: buckets of {} bytes", options.bucket_bytes);
  for (auto& buffer : nn::named_buffers(model_))
    (is_float(buffer.second.dtype()) ? buffers_ : counts_).push_back(std::move(buffer));
  std::string form;
  for (const NamedTensors* group : {&parameters_, &buffers_, &counts_})
    for (const auto& [name, t] : *group)
      form += fmt::format("{} {} of {}\n", name, t.shape(), t.dtype());
  world.check_same("the options", fmt::format("{} blocks, buckets of {} bytes", options.blocks,
                                              options.bucket_bytes));
  world.check_same("vector instructions of", to_string(detail::vector_level));
  world.check_same("the model\n", form);
  check_same_state();
}

void GradientSum::check_same_state() {
  world_.check_same("weights and buffers with the hash",
                    fmt::format("{:016x}", hash_of(nn::state_dict(model_))));
  world_.check_same("generators with the hash",
                    fmt::format("{:016x}", hash_of(nn::generator_state(model_))));
}

GradientSum::Range GradientSum::range(int64_t rank) const {
  const int64_t ranks = world_.size();
  return {options_.blocks * rank / ranks, options_.blocks * (rank + 1) / ranks};
}

// The largest nodes of the tree below `node` whose blocks all lie in `own`.
void GradientSum::add_nodes(Range node, Range own, std::vector<Range>& to) const {
  if (node.end <= own.first || own.end <= node.first) return;
  if (own.first <= node.first && node.end <= own.end) {
    to.push_back(node);
    return;
  }
  const int64_t middle = node.first + left_half(node.end - node.first);
  add_nodes({node.first, middle}, own, to);
  add_nodes({middle, node.end}, own, to);
}

std::vector<GradientSum::Range> GradientSum::nodes_of(int64_t rank) const {
  std::vector<Range> nodes;
  add_nodes({0, options_.blocks}, range(rank), nodes);
  return nodes;
}

GradientSum::Node GradientSum::compute(Range node, const std::function<BlockLoss(int64_t)>& loss,
                                       Header& header) {
  if (node.end - node.first == 1) return compute_block(node.first, loss, header);
  const int64_t middle = node.first + left_half(node.end - node.first);
  Node left = compute({node.first, middle}, loss, header);
  const Node right = compute({middle, node.end}, loss, header);
  NoGradGuard no_grad;
  for (size_t i = 0; i < left.items.size(); ++i) {
    Tensor& l = left.items[i];
    if (!l.defined())
      l = right.items[i];
    else if (right.items[i].defined())
      l = l + right.items[i];  // not in place: two parameters may share one gradient
  }
  left.range = node;
  return left;
}

GradientSum::Node GradientSum::compute_block(int64_t block,
                                             const std::function<BlockLoss(int64_t)>& loss,
                                             Header& header) {
  Node node{{block, block + 1}, std::vector<Tensor>(parameters_.size() + buffers_.size())};
  {
    NoGradGuard no_grad;
    for (size_t i = 0; i < buffers_.size(); ++i) copy_(buffers_[i].second, buffers_before_[i]);
    for (size_t i = 0; i < counts_.size(); ++i) copy_(counts_[i].second, counts_before_[i]);
  }
  set_generators(block);
  const BlockLoss result = loss(block);
  header.weights.push_back(result.loss.defined() ? result.weight : 0);
  header.losses.push_back(0);
  header.notes.push_back(result.note);
  if (!result.loss.defined()) return node;
  check(result.loss.numel() == 1, "GradientSum: the loss of block {} has the shape {}", block,
        result.loss.shape());
  check(result.weight > 0 && std::isfinite(result.weight),
        "GradientSum: block {} has the weight {}, which is not positive", block, result.weight);
  header.losses.back() = result.loss.item();
  check(std::isfinite(header.losses.back()), "GradientSum: the loss of block {} is {}", block,
        header.losses.back());
  (result.loss * result.weight).backward();
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor& p = parameters_[i].second;
    if (Tensor g = p.grad(); g.defined()) node.items[i] = g.contiguous();
    p.zero_grad();
  }
  for (size_t i = 0; i < buffers_.size(); ++i)
    node.items[parameters_.size() + i] = buffers_[i].second.detach().clone();
  header.counts.clear();
  for (const auto& [name, t] : counts_) {
    const Tensor c = t.detach().contiguous();
    append(header.counts, bytes_of(c).data(), bytes_of(c).size());
  }
  return node;
}

void GradientSum::set_generators(int64_t block) {
  for (size_t i = 0; i < step_generators_.size(); ++i)
    *generators_[i] = step_generators_[i].stream(static_cast<uint64_t>(block));
}

void GradientSum::restore() {
  NoGradGuard no_grad;
  for (const auto& [name, p] : parameters_) p.zero_grad();
  for (size_t i = 0; i < buffers_.size(); ++i) copy_(buffers_[i].second, buffers_before_[i]);
  for (size_t i = 0; i < counts_.size(); ++i) copy_(counts_[i].second, counts_before_[i]);
  for (size_t i = 0; i < generators_.size(); ++i) *generators_[i] = generators_before_[i];
}

// The sums over all ranks. Each rank adds up its share of each bucket: it gets the nodes of all
// ranks for that share, and then the sums of the others' shares.
struct GradientSum::Reduction {
  // A bucket on its way.
  struct Work {
    std::vector<Tensor> sent;                 // this rank's nodes, one item behind the other
    std::vector<std::vector<Tensor>> shares;  // of each rank's nodes, this rank's share
    Tensor sums;                              // of the bucket
    World::Ticket ticket;
  };

  Reduction(GradientSum& sum, const std::vector<Header>& all) : self(sum), all(all) {
    for (const NamedTensors* group : {&self.parameters_, &self.buffers_})
      for (const auto& [name, t] : *group) like.push_back(t.detach());
    present.resize(like.size());
    for (const Header& h : all) {
      for (const double w : h.weights) blocks += w > 0;
      for (const std::vector<char>& node : h.present)
        for (size_t i = 0; i < present.size(); ++i) present[i] |= node[i];
    }
    for (int64_t r = 0; r < ranks; ++r) nodes_of.push_back(self.nodes_of(r));
    buckets = buckets_of(like, self.options_.bucket_bytes);
    work.resize(buckets.size());
  }

  // The elements that rank r adds up.
  std::pair<int64_t, int64_t> share(const Bucket& b, int64_t r) const {
    return {b.size() * r / ranks, b.size() * (r + 1) / ranks};
  }

  void begin(const char* what, size_t k, std::vector<World::Part> parts) {
    if (ranks > 1)
      work[k].ticket = self.world_.exchange(
          fmt::format("{} of a step, piece {} of {}", what, k + 1, buckets.size()),
          std::move(parts));
  }

  void send_nodes(size_t k, std::vector<Node>& nodes) {
    const Bucket& b = buckets[k];
    Work& w = work[k];
    for (Node& node : nodes) {
      const Tensor& flat = w.sent.emplace_back(zeros({b.size()}, b.dtype));
      for (size_t i = b.first; i < b.end; ++i)
        if (const Tensor t = std::exchange(node.items[i], {}); t.defined())
          copy_(slice(flat, 0, b.offset(i), b.offset(i + 1)), reshape(t, {t.numel()}));
    }
    std::vector<World::Part> parts;
    const auto [mine, end_of_mine] = share(b, rank);
    for (int64_t r = 0; r < ranks; ++r) {
      std::vector<Tensor>& shares = w.shares.emplace_back();
      const auto [from, to] = share(b, r);
      for (const Tensor& flat : w.sent)
        if (r != rank)
          parts.push_back({r, bytes_of(slice(flat, 0, from, to)), {}});
        else
          shares.push_back(slice(flat, 0, mine, end_of_mine));
      for (size_t n = 0; r != rank && n < nodes_of[at(r)].size(); ++n) {
        shares.push_back(zeros({end_of_mine - mine}, b.dtype));
        parts.push_back({r, {}, bytes_to(shares.back())});
      }
    }
    begin("the gradients", k, std::move(parts));
  }

  // Of elements [from, to) of the share, which belong to item i: the node and all below it.
  Tensor tree_sum(Range node, size_t i, const Work& w, int64_t from, int64_t to) const {
    for (int64_t r = 0; r < ranks; ++r)
      for (size_t n = 0; n < nodes_of[at(r)].size(); ++n)
        if (const Range own = nodes_of[at(r)][n]; own.first == node.first && own.end == node.end)
          return all[at(r)].present[n][i] ? slice(w.shares[at(r)][n], 0, from, to) : Tensor{};
    const int64_t middle = node.first + left_half(node.end - node.first);
    const Tensor left = tree_sum({node.first, middle}, i, w, from, to);
    const Tensor right = tree_sum({middle, node.end}, i, w, from, to);
    if (left.defined() && right.defined()) return left + right;
    return left.defined() ? left : right;
  }

  void add_up(size_t k) {
    const Bucket& b = buckets[k];
    Work& w = work[k];
    w.ticket.wait();
    w.sent.clear();
    w.sums = zeros({b.size()}, b.dtype);
    const auto [mine, end_of_mine] = share(b, rank);
    for (size_t i = b.first; i < b.end; ++i) {
      const int64_t from = std::max(mine, b.offset(i)), to = std::min(end_of_mine, b.offset(i + 1));
      if (from >= to || !present[i]) continue;
      const Tensor sum = tree_sum({0, self.options_.blocks}, i, w, from - mine, to - mine);
      const bool gradient = i < self.parameters_.size();
      copy_(slice(w.sums, 0, from, to),
            sum * (1 / (gradient ? self.weight_ : static_cast<double>(blocks))));
    }
    w.shares.clear();
    std::vector<World::Part> parts;
    for (int64_t r = 0; r < ranks; ++r) {
      if (r == rank) continue;
      const auto [from, to] = share(b, r);
      parts.push_back(
          {r, bytes_of(slice(w.sums, 0, mine, end_of_mine)), bytes_to(slice(w.sums, 0, from, to))});
    }
    begin("the sums", k, std::move(parts));
  }

  void set_results(size_t k) {
    const Bucket& b = buckets[k];
    work[k].ticket.wait();
    for (size_t i = b.first; i < b.end; ++i) {
      if (!present[i]) continue;
      const Tensor sum =
          reshape(slice(work[k].sums, 0, b.offset(i), b.offset(i + 1)), like[i].shape());
      if (i < self.parameters_.size())
        self.parameters_[i].second.set_grad(sum);
      else
        copy_(like[i], sum);
    }
  }

  // Every block that is not empty leaves the same integers.
  void set_counts() {
    const auto h = std::find_if(all.begin(), all.end(), [](auto& h) { return !h.counts.empty(); });
    if (h == all.end()) return;
    size_t place = 0;
    for (const auto& [name, t] : self.counts_) {
      const std::span<std::byte> to = bytes_to(t.detach());
      std::memcpy(to.data(), h->counts.data() + place, to.size());
      place += to.size();
    }
  }

  void run(std::vector<Node> nodes) {
    NoGradGuard no_grad;
    for (size_t k = 0; k < buckets.size(); ++k) send_nodes(k, nodes);
    for (size_t k = 0; k < buckets.size(); ++k) add_up(k);
    for (size_t k = 0; k < buckets.size(); ++k) set_results(k);
    set_counts();
  }

  GradientSum& self;
  const std::vector<Header>& all;  // of each rank
  const int64_t ranks = self.world_.size(), rank = self.world_.rank();
  int64_t blocks = 0;                        // that are not empty
  std::vector<Tensor> like;                  // parameters, then buffers
  std::vector<char> present;                 // in any block
  std::vector<std::vector<Range>> nodes_of;  // each rank
  std::vector<Bucket> buckets;
  std::vector<Work> work;
};

double GradientSum::backward(const std::function<BlockLoss(int64_t block)>& loss) {
  generators_before_.clear(), step_generators_.clear();
  buffers_before_.clear(), counts_before_.clear();
  std::vector<Rng> after;  // of each generator, one split further
  for (const Rng* g : generators_) {
    generators_before_.push_back(*g);
    step_generators_.push_back(after.emplace_back(*g).split());
  }
  for (const auto& [name, t] : buffers_) buffers_before_.push_back(t.detach().clone());
  for (const auto& [name, t] : counts_) counts_before_.push_back(t.detach().clone());
  for (const auto& [name, p] : parameters_) p.zero_grad();
  notes_.clear();
  weight_ = 0;
  double value = 0;
  try {
    world_.together([&] {
      Header own;
      std::vector<Node> nodes;
      for (const Range& node : nodes_of(world_.rank())) {
        nodes.push_back(compute(node, loss, own));
        std::vector<char>& present = own.present.emplace_back();
        for (const Tensor& t : nodes.back().items) present.push_back(t.defined());
      }
      std::vector<Header> all;
      const std::vector<std::string> texts = world_.gather("the losses of a step", own.text());
      for (int64_t r = 0; r < world_.size(); ++r)
        all.push_back(Header::parse(texts[at(r)], range(r).end - range(r).first, nodes_of(r).size(),
                                    parameters_.size() + buffers_.size()));
      double sum = 0;
      for (const Header& h : all)
        for (size_t b = 0; b < h.weights.size(); ++b) {
          weight_ += h.weights[b];
          sum += h.weights[b] * h.losses[b];
          notes_.push_back(h.notes[b]);
        }
      check(weight_ > 0, "GradientSum: all {} blocks of the step are empty", options_.blocks);
      value = sum / weight_;
      Reduction(*this, all).run(std::move(nodes));
    });
  } catch (...) {
    restore();
    throw;
  }
  for (size_t i = 0; i < generators_.size(); ++i) *generators_[i] = after[i];
  return value;
}

}  // namespace tern::dist

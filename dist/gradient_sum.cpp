// One data parallel step: the gradients of this rank's blocks, the buckets that leave during
// backward, and the sums that return; and the comparison of the ranks' states by hashes.
#include "tern/dist/gradient_sum.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <unordered_map>
#include <utility>

#include "tern/core/base/cpu.h"
#include "tern/core/base/products.h"
#include "tern/core/base/threads.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/core/tape/node.h"
#include "tern/dist/detail/block_tree.h"
#include "tern/dist/detail/bucket_sum.h"
#include "tern/dist/detail/tensor_bytes.h"
#include "tern/nn/module.h"

namespace tern::dist {

using detail::bytes_of;
using detail::Range;

namespace {

size_t at(int64_t i) { return static_cast<size_t>(i); }

// A hash of the bytes, in four lanes of eight bytes.
uint64_t hash_of(std::span<const std::byte> bytes) {
  constexpr uint64_t kFactor = 0x9E3779B97F4A7C15ULL;
  const auto mix = [](uint64_t h, uint64_t word) { return std::rotl(h ^ word, 31) * kFactor; };
  uint64_t lanes[4] = {1, 2, 3, bytes.size()};
  size_t place = 0;
  for (; place + 32 <= bytes.size(); place += 32) {
    uint64_t words[4];
    std::memcpy(words, bytes.data() + place, 32);
    for (int j = 0; j < 4; ++j) lanes[j] = mix(lanes[j], words[j]);
  }
  for (; place < bytes.size(); ++place)
    lanes[0] = mix(lanes[0], static_cast<uint64_t>(bytes[place]));
  return mix(mix(mix(mix(0, lanes[0]), lanes[1]), lanes[2]), lanes[3]);
}

void append(std::string& to, const void* from, size_t bytes) {
  to.append(static_cast<const char*>(from), bytes);
}

// Reads numbers and texts from the bytes of another rank.
class Reader {
 public:
  explicit Reader(const std::string& text) : text_(text) {}
  template <class T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof value), sizeof value);
    return value;
  }
  std::string text() {
    const auto size = number<uint64_t>();
    return {take(size), size};
  }

 private:
  const char* take(size_t bytes) {
    check(bytes <= text_.size() - place_, "GradientSum: a rank sent {} bytes, too few",
          text_.size());
    return text_.data() + std::exchange(place_, place_ + bytes);
  }
  const std::string& text_;
  size_t place_ = 0;
};

// Facts about a block that all ranks get before its gradients.
struct BlockFacts {
  double weight = 0, loss = 0;  // weight 0: the block is empty
  std::string note = {};
};

std::string to_text(const std::vector<BlockFacts>& blocks) {
  std::string s;
  for (const BlockFacts& b : blocks) {
    append(s, &b.weight, sizeof b.weight);
    append(s, &b.loss, sizeof b.loss);
    const uint64_t length = b.note.size();
    append(s, &length, sizeof length);
    s += b.note;
  }
  return s;
}

void add_facts(const std::string& text, int64_t blocks, std::vector<BlockFacts>& to) {
  Reader reader(text);
  for (int64_t b = 0; b < blocks; ++b) {
    BlockFacts& f = to.emplace_back();
    f.weight = reader.number<double>();
    f.loss = reader.number<double>();
    f.note = reader.text();
  }
}

// The facts of all ranks. The world's thread writes them before the first bucket is added up.
struct StepFacts {
  std::vector<BlockFacts> blocks;
  double weight = 0;
  int64_t filled = 0;  // blocks that are not empty
};

// x, or a copy if anything else holds its elements.
Tensor exclusive(Tensor x) { return tern::detail::may_add_in_place(x) ? std::move(x) : x.clone(); }

// left + right; an undefined tensor adds nothing.
Tensor merge(Tensor left, Tensor right) {
  if (!left.defined()) return right;
  if (!right.defined()) return left;
  if (!tern::detail::may_add_in_place(left)) return left + right;
  add_(left, right);
  return left;
}

}  // namespace

GradientSum::GradientSum(World& world, nn::ModuleRef model, GradientSumOptions options)
    : world_(world),
      model_(std::move(model)),
      options_(std::move(options)),
      parameters_(nn::named_parameters(model_)),
      generators_(nn::generators(model_)) {
  check(options_.blocks >= world.size(),
        "GradientSum: {} ranks need at least as many blocks, and there are {}", world.size(),
        options_.blocks);
  check(options_.bucket_bytes > 0, "GradientSum: bucket_bytes is {}; at least 1",
        options_.bucket_bytes);
  check(options_.check_every >= 0, "GradientSum: check_every is {}; at least 0",
        options_.check_every);
  for (auto& buffer : nn::named_buffers(model_))
    (is_float(buffer.second.dtype()) ? buffers_ : counts_).push_back(std::move(buffer));
  std::vector<std::pair<std::string, std::string>> same = {
      {"blocks", std::to_string(options_.blocks)},
      {"bytes in a bucket", std::to_string(options_.bucket_bytes)},
      {"steps between comparisons", std::to_string(options_.check_every)},
      {"f32 products by",
       products_by_blas() ? "BLAS with " + to_string(tern::detail::vector_level) : "tiles"}};
  for (const NamedTensors* group : {&parameters_, &buffers_, &counts_})
    for (const auto& [name, t] : *group)
      same.emplace_back("a " + name + " of", fmt::format("{} {}", t.dtype(), t.shape()));
  world.check_same(same);
  check_same_state();
  world.warn_of_cores();
}

int64_t GradientSum::first_block() const {
  return detail::range_of(options_.blocks, world_.size(), world_.rank()).first;
}
int64_t GradientSum::end_block() const {
  return detail::range_of(options_.blocks, world_.size(), world_.rank()).end;
}

void GradientSum::check_same_state() {
  NamedTensors state = nn::state_dict(model_);
  for (auto& generator : nn::generator_state(model_)) state.push_back(std::move(generator));
  if (options_.check_also)
    for (auto& entry : options_.check_also()) state.push_back(std::move(entry));
  std::vector<uint64_t> hashes(state.size());
  parallel_blocks(std::ssize(state), [&](int64_t i) {
    hashes[at(i)] = hash_of(bytes_of(state[at(i)].second.detach().contiguous()));
  });
  std::string text;
  append(text, hashes.data(), hashes.size() * sizeof(uint64_t));
  const std::vector<std::string> texts =
      world_.gather(fmt::format("the comparison of weights after step {}", steps_), text);
  for (size_t i = 0; i < state.size(); ++i) {
    std::map<uint64_t, std::vector<size_t>> ranks;  // by hash
    for (size_t r = 0; r < texts.size(); ++r) {
      check(texts[r].size() == text.size(),
            "GradientSum: rank {} compares {} tensors, but rank {} compares {}", r,
            texts[r].size() / sizeof(uint64_t), world_.rank(), state.size());
      uint64_t hash = 0;
      std::memcpy(&hash, texts[r].data() + i * sizeof hash, sizeof hash);
      ranks[hash].push_back(r);
    }
    if (ranks.size() == 1) continue;
    // The majority is right; without a majority, rank 0 is.
    const auto right = std::max_element(ranks.begin(), ranks.end(), [](auto& a, auto& b) {
      return std::pair(a.second.size(), a.second[0] == 0) <
             std::pair(b.second.size(), b.second[0] == 0);
    });
    std::string others;
    for (const auto& [hash, group] : ranks)
      for (const size_t r : group)
        if (hash != right->first) others += fmt::format("{}{}", others.empty() ? "" : ", ", r);
    world_.together([&] {
      fail(fmt::format("rank {} has a different {} from rank {} after step {}", others,
                       state[i].first, right->second[0], steps_));
    });
  }
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

// One step. Items are the tensors to be added up: the parameters, last ones first, then the
// buffers.
struct GradientSum::Step {
  using Items = std::vector<Tensor>;  // sums over a node of the tree; undefined: nothing to add

  explicit Step(GradientSum& sum) : self(sum) {
    for (size_t i = self.parameters_.size(); i-- > 0;) {
      const Tensor& p = self.parameters_[i].second;
      if (!p.requires_grad()) continue;
      item_of[p.node().get()] = items.size();
      items.push_back(p);
      names.push_back(self.parameters_[i].first);
    }
    gradients = items.size();
    for (const auto& [name, t] : self.buffers_) items.push_back(t.detach());
    // Gradients and buffers have different scales, so no bucket holds both.
    for (const auto& [first, end] :
         {std::pair(size_t{0}, gradients), std::pair(gradients, items.size())}) {
      std::vector<detail::BucketItem> group;
      for (size_t i = first; i < end; ++i) group.push_back({items[i].dtype(), items[i].numel()});
      for (detail::Bucket& b : detail::buckets_of(group, self.options_.bucket_bytes)) {
        b.first += first, b.end += first;
        for (size_t i = b.first; i < b.end; ++i) bucket_of.push_back(buckets.size());
        awaited.push_back(b.end - b.first);
        buckets.push_back(std::move(b));
      }
    }
    self.bucket_count_ = {};
    for (const detail::Bucket& b : buckets) self.bucket_count_.all += b.first < gradients;
  }

  // The sum over a node. `closing` holds the sums on its left. As soon as a gradient of the node's
  // last block is complete, they are added to it, the last one first. `last`: the result is sent.
  Items compute(Range node, std::vector<Items> closing, bool last) {
    if (node.size() == 1) return compute_block(node.first, std::move(closing), last);
    const int64_t middle = node.first + detail::left_half(node.size());
    closing.push_back(compute({node.first, middle}, {}, false));
    return compute({middle, node.end}, std::move(closing), last);
  }

  // Sets the buffers to their values before the step and the generators to those of the block.
  void set_start(int64_t block) {
    NoGradGuard no_grad;
    for (size_t i = 0; i < self.buffers_.size(); ++i)
      copy_(self.buffers_[i].second, self.buffers_before_[i]);
    for (size_t i = 0; i < self.counts_.size(); ++i)
      copy_(self.counts_[i].second, self.counts_before_[i]);
    self.set_generators(block);
  }

  // For each parameter item: whether the loss depends on it.
  std::vector<char> used_by(const Tensor& root) const {
    std::vector<char> used(gradients);
    for (const Tensor& leaf : leaves(root))
      if (const auto i = item_of.find(leaf.node().get()); i != item_of.end())
        used[i->second] = true;
    return used;
  }

  Items compute_block(int64_t block, std::vector<Items> closing, bool last) {
    set_start(block);
    BlockLoss result = (*loss)(block);
    check_no_others();
    own_facts.push_back(facts_of(block, result));
    if (last) send_facts();
    Items out(items.size());
    std::vector<char> complete(items.size());
    const auto finish = [&](size_t i, Tensor sum) {
      complete[i] = true;
      for (size_t c = closing.size(); c-- > 0;)
        sum = merge(std::exchange(closing[c][i], {}), std::move(sum));
      out[i] = std::move(sum);
      if (last) item_ready(i, out);
    };
    const auto take_gradient = [&](size_t i) {
      Tensor g = items[i].grad();
      items[i].zero_grad();
      finish(i, g.defined() ? exclusive(std::move(g)) : g);
    };
    if (result.loss.defined()) {
      const Tensor root = result.loss * result.weight;
      result.loss = {};
      if (last) {
        // Parameters that this block does not use are complete already.
        const std::vector<char> used = used_by(root);
        NoGradGuard no_grad;
        for (size_t i = 0; i < gradients; ++i)
          if (!used[i]) finish(i, {});
      }
      tern::backward(root, {.on_ready = [&](const Tensor& leaf) {
                       const auto i = item_of.find(leaf.node().get());
                       if (i != item_of.end() && !complete[i->second]) take_gradient(i->second);
                     }});
      self.bucket_count_.early = std::min<int64_t>(std::ssize(tickets), self.bucket_count_.all);
    }
    NoGradGuard no_grad;
    for (size_t i = 0; i < gradients; ++i) {
      check(!complete[i] || !items[i].grad().defined(),
            "GradientSum: a part of the gradient of {} arrived after the gradient was complete",
            names[i]);
      if (!complete[i]) take_gradient(i);
    }
    const bool filled = own_facts.back().weight > 0;
    for (size_t i = gradients; i < items.size(); ++i) finish(i, filled ? change_of(i) : Tensor{});
    if (filled) {
      std::string counts;
      for (const auto& [name, t] : self.counts_) {
        const Tensor c = t.detach().contiguous();
        append(counts, bytes_of(c).data(), bytes_of(c).size());
      }
      if (!own_counts.empty()) check_same_counts(own_counts, counts);
      own_counts = std::move(counts);
    }
    return out;
  }

  // What the changes of a buffer count from: 0 where it is infinite, since inf - inf is NaN.
  Tensor start_of(size_t item) const {
    const Tensor& before = self.buffers_before_[item - gradients];
    return masked_fill(before, logical_not(isfinite(before)), 0);
  }

  // How a block changed a buffer: by -0.0, which changes no number, where it did not.
  Tensor change_of(size_t item) const {
    const Tensor start = start_of(item);
    return masked_fill(items[item] - start, eq(items[item], start), -0.0);
  }

  // Error if two blocks left different integers in the buffers.
  void check_same_counts(std::string_view a, std::string_view b) const {
    for (const auto& [name, t] : self.counts_) {
      const size_t bytes = bytes_of(t).size();
      check(a.substr(0, bytes) == b.substr(0, bytes),
            "GradientSum: two blocks of the step left different integers in the buffer {}; such a "
            "buffer may count steps, but not what is in the data",
            name);
      a.remove_prefix(std::min(bytes, a.size())), b.remove_prefix(std::min(bytes, b.size()));
    }
  }

  BlockFacts facts_of(int64_t block, const BlockLoss& result) const {
    if (!result.loss.defined()) return {.note = result.note};
    check(result.loss.numel() == 1, "GradientSum: the loss of block {} has the shape {}", block,
          result.loss.shape());
    check(result.weight > 0 && std::isfinite(result.weight),
          "GradientSum: block {} has the weight {}, which is not positive", block, result.weight);
    const double loss = result.loss.item();
    check(std::isfinite(loss), "GradientSum: the loss of block {} is {}", block, loss);
    return {result.weight, loss, result.note};
  }

  std::string named(const std::string& what) const {
    return fmt::format("{} of step {}", what, self.steps_ + 1);
  }

  void send_facts() {
    facts_ticket = self.world_.begin_gather(
        named("the losses"), to_text(own_facts),
        [facts = facts, blocks = self.options_.blocks,
         ranks = self.world_.size()](const std::vector<std::string>& texts) {
          for (int64_t r = 0; r < ranks; ++r)
            add_facts(texts[at(r)], detail::range_of(blocks, ranks, r).size(), facts->blocks);
          for (const BlockFacts& b : facts->blocks) {
            facts->weight += b.weight;
            facts->filled += b.weight > 0;
          }
        });
  }

  // Call it when item i of this rank's last node is complete. Buckets are sent in their order.
  void item_ready(size_t i, Items& last_node) {
    --awaited[bucket_of[i]];
    for (; tickets.size() < buckets.size() && awaited[tickets.size()] == 0;)
      send(tickets.size(), last_node);
  }

  void send(size_t k, Items& last_node) {
    const detail::Bucket& b = buckets[k];
    std::vector<Items> own;
    for (Items* node : nodes_with(last_node)) {
      Items& part = own.emplace_back();
      for (size_t i = b.first; i < b.end; ++i) {
        part.push_back(std::exchange((*node)[i], {}));
        if (part.back().defined()) part.back() = exclusive(std::move(part.back()));
      }
    }
    std::vector<Shape> shapes;
    for (size_t i = b.first; i < b.end; ++i) shapes.push_back(items[i].shape());
    const World& w = self.world_;
    const auto sum = std::make_shared<detail::BucketSum>(
        detail::BucketSum::Place{self.options_.blocks, w.size(), w.rank()}, b, std::move(own),
        shapes);
    sums.push_back(sum);
    const bool of_gradients = b.first < gradients;
    tickets.push_back(self.world_.exchange(
        named(fmt::format("piece {} of {} of the {}", k + 1, buckets.size(),
                          of_gradients ? "gradients" : "buffers")),
        sum->nodes(), [sum, facts = facts, of_gradients, added = false]() mutable {
          if (std::exchange(added, true)) return std::vector<World::Part>{};
          return sum->add_up(1 /
                             (of_gradients ? facts->weight : static_cast<double>(facts->filled)));
        }));
  }

  std::vector<Items*> nodes_with(Items& last) {
    std::vector<Items*> nodes;
    for (Items& node : nodes_before) nodes.push_back(&node);
    nodes.push_back(&last);
    return nodes;
  }

  double run(const std::function<BlockLoss(int64_t)>& block_loss) {
    loss = &block_loss;
    World& world = self.world_;
    std::vector<Range> nodes = detail::nodes_of(self.options_.blocks, world.size(), world.rank());
    for (size_t n = 0; n + 1 < nodes.size(); ++n)
      nodes_before.push_back(compute(nodes[n], {}, false));
    compute(nodes.back(), {}, true);
    facts_ticket.wait();
    double total = 0;
    for (const BlockFacts& b : facts->blocks) {
      total += b.weight * b.loss;
      self.notes_.push_back(b.note);
    }
    self.weight_ = facts->weight;
    check(facts->weight > 0, "GradientSum: all {} blocks of the step are empty",
          self.options_.blocks);
    set_results();
    set_counts();
    return total / facts->weight;
  }

  void set_results() {
    NoGradGuard no_grad;
    for (size_t k = 0; k < buckets.size(); ++k) {
      tickets[k].wait();
      for (size_t i = buckets[k].first; i < buckets[k].end; ++i) {
        Tensor sum = sums[k]->sum(i);
        if (!sum.defined()) continue;
        if (i < gradients)
          items[i].set_grad(std::move(sum));
        else
          copy_(items[i], start_of(i) + sum);
      }
      sums[k].reset();
    }
  }

  // Nothing would add up the gradient of a parameter that was frozen when the step began.
  void check_no_others() const {
    for (const auto& [name, p] : self.parameters_)
      check(!p.requires_grad() || item_of.contains(p.node().get()),
            "GradientSum: the loss unfroze the parameter {} during a step; unfreeze it between "
            "steps",
            name);
  }

  // Takes the integers that all filled blocks have left.
  void set_counts() {
    if (self.counts_.empty()) return;
    const std::vector<std::string> texts = self.world_.gather(named("the counts"), own_counts);
    const auto filled =
        std::find_if(texts.begin(), texts.end(), [](auto& t) { return !t.empty(); });
    if (filled == texts.end()) return;
    for (const std::string& text : texts)
      if (!text.empty()) check_same_counts(*filled, text);
    size_t place = 0;
    NoGradGuard no_grad;
    for (const auto& count : self.counts_) {
      const Tensor& t = count.second;
      dispatch(t.dtype(), [&]<class T>() {
        const size_t bytes = at(t.numel()) * sizeof(T);
        check(bytes <= filled->size() - place, "GradientSum: {} bytes of counts are too few",
              filled->size());
        std::memcpy(t.mutable_data<T>(), filled->data() + place, bytes);
        place += bytes;
      });
    }
  }

  GradientSum& self;
  const std::function<BlockLoss(int64_t)>* loss = nullptr;
  std::vector<Tensor> items;
  std::vector<std::string> names;                   // names of the items that are parameters
  size_t gradients = 0;                             // number of items that are parameters
  std::unordered_map<const void*, size_t> item_of;  // by the node of the parameter
  std::vector<detail::Bucket> buckets;
  std::vector<size_t> bucket_of, awaited;  // by item; by bucket: number of incomplete items
  std::vector<Items> nodes_before;         // all nodes of this rank but the last
  std::vector<BlockFacts> own_facts;
  std::string own_counts;  // integer buffers after this rank's last filled block
  std::shared_ptr<StepFacts> facts = std::make_shared<StepFacts>();
  World::Ticket facts_ticket;
  std::vector<std::shared_ptr<detail::BucketSum>> sums;
  std::vector<World::Ticket> tickets;
};

double GradientSum::backward(const std::function<BlockLoss(int64_t block)>& loss) {
  if (options_.check_every > 0 && steps_ > 0 && steps_ % options_.check_every == 0)
    check_same_state();
  generators_before_.clear(), step_generators_.clear();
  buffers_before_.clear(), counts_before_.clear();
  std::vector<Rng> after;  // each generator after its split for this step
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
    world_.together([&] { value = Step(*this).run(loss); });
  } catch (...) {
    restore();
    throw;
  }
  for (size_t i = 0; i < generators_.size(); ++i) *generators_[i] = after[i];
  ++steps_;
  return value;
}

}  // namespace tern::dist

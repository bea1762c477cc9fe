// CTC decoding in double: the most likely path of a sample, and prefix beam search with prefixes
// kept as paths in a tree.
#include "tern/decode/ctc.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "tern/core/base/threads.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"

namespace tern::decoding {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

double log_add(double a, double b) {
  const double high = std::max(a, b);
  return high == kNever ? kNever : high + std::log1p(std::exp(std::min(a, b) - high));
}

// The log probabilities of a batch: x (T, N, C) in double, and the steps of every sample.
struct Batch {
  const char* op;
  Tensor x;
  int64_t times, samples, classes;
  std::vector<int64_t> lengths;

  Batch(const char* name, const Tensor& log_probs, const std::vector<int64_t>& given, int64_t blank)
      : op(name) {
    check(log_probs.defined(), "{}: log_probs is undefined", op);
    check(log_probs.ndim() == 3 || log_probs.ndim() == 2,
          "{}: log_probs must be (T, N, C) or (T, C), got {}", op, log_probs.shape());
    check(is_float(log_probs.dtype()), "{}: needs floating log_probs, got {}", op,
          log_probs.dtype());
    NoGradGuard guard;
    const Tensor wide = log_probs.detach().to(DType::f64);
    x = (wide.ndim() == 2 ? unsqueeze(wide, 1) : wide).contiguous();
    times = x.size(0), samples = x.size(1), classes = x.size(2);
    check(blank >= 0 && blank < classes, "{}: blank {} is outside [0, {})", op, blank, classes);
    lengths = given.empty() ? std::vector<int64_t>(static_cast<size_t>(samples), times) : given;
    check(std::ssize(lengths) == samples, "{}: {} samples, but {} lengths", op, samples,
          lengths.size());
    for (int64_t n = 0; n < samples; ++n)
      check(lengths[n] >= 0 && lengths[n] <= times, "{}: length {} of sample {} is outside [0, {}]",
            op, lengths[n], n, times);
  }

  // The log probabilities of a step, after a check that they are valid and some class is possible.
  const double* step(int64_t sample, int64_t t) const {
    const double* p = x.data<double>() + (t * samples + sample) * classes;
    bool possible = false;
    for (int64_t c = 0; c < classes; ++c) {
      check(p[c] < std::numeric_limits<double>::infinity(),
            "{}: the log probability of class {} must be a number below infinity, got {} at step "
            "{} of sample {}",
            op, c, p[c], t, sample);
      possible |= p[c] != kNever;
    }
    check(possible, "{}: no class is possible at step {} of sample {}", op, t, sample);
    return p;
  }
};

// Symbol sequences as paths in a tree: a node is a prefix with one more symbol. Node 0 is empty.
class PrefixTree {
 public:
  int64_t child(int64_t node, int64_t symbol) {
    const auto [at, fresh] = children_.try_emplace({node, symbol}, std::ssize(nodes_));
    if (fresh) nodes_.push_back({node, symbol});
    return at->second;
  }
  int64_t last(int64_t node) const { return nodes_[static_cast<size_t>(node)].second; }
  int64_t parent(int64_t node) const { return nodes_[static_cast<size_t>(node)].first; }
  std::vector<int64_t> symbols(int64_t node) const {
    std::vector<int64_t> all;
    for (; node != 0; node = parent(node)) all.push_back(last(node));
    std::reverse(all.begin(), all.end());
    return all;
  }

 private:
  std::vector<std::pair<int64_t, int64_t>> nodes_{{0, -1}};  // parent, symbol
  std::map<std::pair<int64_t, int64_t>, int64_t> children_;
};

// A prefix in the beam, with the log probabilities of its paths that end in a blank and of the
// rest.
struct Prefix {
  int64_t node;
  double in_blank, in_symbol;
  double total() const { return log_add(in_blank, in_symbol); }
};

// A candidate for the next beam: prefix number `from`, unchanged (symbol -1) or continued.
struct PrefixCandidate {
  double total;
  size_t from;
  int64_t symbol;
};

// The log probability of p continued by `symbol`. To repeat its last symbol, a blank must come
// first.
double continued(const PrefixTree& tree, const Prefix& p, int64_t symbol, double log_prob) {
  return (symbol == tree.last(p.node) ? p.in_blank : p.total()) + log_prob;
}

// The prefixes of the beam that get no new symbol.
struct Stayed {
  std::vector<Prefix> prefixes;
  std::vector<std::pair<size_t, int64_t>> merged;  // (prefix, symbol) whose continuation is in the
                                                   // beam, and so counted there; ascending
};

// A prefix stays the same by a blank or by a repetition of its last symbol. It also gets the paths
// of its parent that now add this symbol, if the parent is in the beam too.
Stayed stayed(const PrefixTree& tree, const std::vector<Prefix>& beam, const double* log_probs,
              int64_t blank) {
  std::map<int64_t, size_t> at;
  for (size_t i = 0; i < beam.size(); ++i) at[beam[i].node] = i;
  Stayed s;
  for (const Prefix& p : beam) {
    s.prefixes.push_back({p.node, p.total() + log_probs[blank], kNever});
    if (p.node == 0) continue;
    const int64_t symbol = tree.last(p.node);
    double& in_symbol = s.prefixes.back().in_symbol;
    in_symbol = p.in_symbol + log_probs[symbol];
    const auto found = at.find(tree.parent(p.node));
    if (found == at.end()) continue;
    in_symbol = log_add(in_symbol, continued(tree, beam[found->second], symbol, log_probs[symbol]));
    s.merged.push_back({found->second, symbol});
  }
  std::sort(s.merged.begin(), s.merged.end());
  return s;
}

std::vector<Prefix> next_beam(PrefixTree& tree, const std::vector<Prefix>& beam,
                              const double* log_probs, int64_t classes, const CtcBeamOptions& o) {
  const Stayed stay = stayed(tree, beam, log_probs, o.blank);
  std::vector<PrefixCandidate> found;
  auto offer = [&](double total, size_t from, int64_t symbol) {
    if (total != kNever) found.push_back({total, from, symbol});
  };
  auto merged = stay.merged.begin();
  for (size_t i = 0; i < beam.size(); ++i) {
    offer(stay.prefixes[i].total(), i, -1);
    for (int64_t c = 0; c < classes; ++c)
      if (merged != stay.merged.end() && *merged == std::pair(i, c))
        ++merged;
      else if (c != o.blank)
        offer(continued(tree, beam[i], c, log_probs[c]), i, c);
  }
  auto better = [](const PrefixCandidate& a, const PrefixCandidate& b) {
    return std::pair(-a.total, std::pair(a.from, a.symbol)) <
           std::pair(-b.total, std::pair(b.from, b.symbol));
  };
  const auto kept = std::min(found.size(), static_cast<size_t>(o.beam));
  std::partial_sort(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(kept), found.end(),
                    better);
  std::vector<Prefix> next;
  for (size_t i = 0; i < kept; ++i) {
    const PrefixCandidate& c = found[i];
    next.push_back(c.symbol < 0 ? stay.prefixes[c.from]
                                : Prefix{tree.child(beam[c.from].node, c.symbol), kNever, c.total});
  }
  return next;
}

}  // namespace

std::vector<CtcHypothesis> ctc_greedy(const Tensor& log_probs, const std::vector<int64_t>& lengths,
                                      const CtcGreedyOptions& options) {
  const Batch batch("ctc_greedy", log_probs, lengths, options.blank);
  std::vector<CtcHypothesis> best(static_cast<size_t>(batch.samples));
  parallel_blocks(batch.samples, batch.x.numel(), [&](int64_t n) {
    CtcHypothesis& h = best[static_cast<size_t>(n)];
    int64_t before = options.blank;
    for (int64_t t = 0; t < batch.lengths[static_cast<size_t>(n)]; ++t) {
      const double* p = batch.step(n, t);
      const int64_t c = std::max_element(p, p + batch.classes) - p;
      h.log_prob += p[c];
      if (c != before && c != options.blank) h.symbols.push_back(c);
      before = c;
    }
  });
  return best;
}

std::vector<std::vector<CtcHypothesis>> ctc_beam_search(const Tensor& log_probs,
                                                        const std::vector<int64_t>& lengths,
                                                        const CtcBeamOptions& o) {
  const Batch batch("ctc_beam_search", log_probs, lengths, o.blank);
  check(o.n_best >= 1 && o.n_best <= o.beam,
        "ctc_beam_search: n_best {} must be in [1, beam], the beam is {}", o.n_best, o.beam);
  std::vector<std::vector<CtcHypothesis>> lists(static_cast<size_t>(batch.samples));
  const int64_t work = 60 * batch.x.numel() * std::min<int64_t>(o.beam, 1 << 16);
  parallel_blocks(batch.samples, work, [&](int64_t n) {
    PrefixTree tree;
    std::vector<Prefix> beam{{0, 0, kNever}};
    for (int64_t t = 0; t < batch.lengths[static_cast<size_t>(n)]; ++t)
      beam = next_beam(tree, beam, batch.step(n, t), batch.classes, o);
    const auto count = std::min(beam.size(), static_cast<size_t>(o.n_best));
    for (size_t i = 0; i < count; ++i)
      lists[static_cast<size_t>(n)].push_back({tree.symbols(beam[i].node), beam[i].total()});
  });
  return lists;
}

}  // namespace tern::decoding

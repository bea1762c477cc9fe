// Matches tensors by name, lists everything that does not fit in one error, and copies or moves the
// elements.
#include "tern/core/io/state.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "tern/core/base/reserved.h"
#include "tern/core/base/shape_only.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"

namespace tern {
namespace {

/// The number of names that a list in an error shows.
constexpr size_t kShown = 8;

// The Levenshtein distance: the number of insertions, deletions and replacements.
size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

// "; 2 missing: a, b".
void append_list(std::string& text, const char* title, const std::vector<std::string>& items) {
  if (items.empty()) return;
  text += fmt::format("{} {} {}: ", text.empty() ? "" : ";", items.size(), title);
  for (size_t i = 0; i < std::min(items.size(), kShown); ++i) text += (i ? ", " : "") + items[i];
  if (items.size() > kShown) text += fmt::format(" and {} more", items.size() - kShown);
}

struct Match {
  std::vector<std::pair<const Tensor*, const Tensor*>> copies;  // to, from
  std::vector<std::string> missing, unexpected, unfit;
};

// Two NaN count as equal. In a ShapeOnlyScope there are no elements to compare.
bool same_elements(const Tensor& a, const Tensor& b) {
  if (&a == &b || detail::reserving) return true;
  if (!a.defined() || a.shape() != b.shape()) return false;
  return all(logical_or(eq(a, b), logical_and(isnan(a), isnan(b)))).item<bool>();
}

Match match(const NamedTensors& targets, const NamedTensors& state) {
  Match out;
  std::unordered_map<std::string, const std::pair<std::string, Tensor>*> given;
  for (const auto& named : state)
    if (!given.emplace(named.first, &named).second)
      out.unfit.push_back(named.first + " appears twice");
  std::unordered_set<std::string> known;
  std::unordered_set<const void*> written;
  std::unordered_map<const void*, const std::pair<std::string, Tensor>*> sources;  // by target
  std::vector<const std::pair<std::string, Tensor>*> absent;
  for (const auto& target : targets) {
    const auto& [name, to] = target;
    known.insert(name);
    auto found = given.find(name);
    if (found == given.end()) {
      absent.push_back(&target);
      continue;
    }
    const Tensor& from = found->second->second;
    written.insert(to.ref()->storage.get());
    const auto& [first, same] = *sources.emplace(to.ref().get(), found->second).first->second;
    if (!from.defined() || from.shape() != to.shape())
      out.unfit.push_back(fmt::format("{} is {} instead of {}", name,
                                      from.defined() ? to_string(from.shape()) : "undefined",
                                      to.shape()));
    else if (is_float(from.dtype()) != is_float(to.dtype()))
      out.unfit.push_back(fmt::format("{} is {} instead of {}", name, from.dtype(), to.dtype()));
    else if (!same_elements(same, from))
      out.unfit.push_back(fmt::format("{} and {} differ, but are one tensor here", first, name));
    else
      out.copies.emplace_back(&to, &from);
  }
  for (const auto* target : absent)
    if (!written.contains(target->second.ref()->storage.get()))
      out.missing.push_back(target->first);
  for (const auto& [name, t] : state)
    if (!known.contains(name)) out.unexpected.push_back(name);
  return out;
}

std::string complaint(const Match& m, const NamedTensors& targets, bool strict) {
  std::string text;
  append_list(text, "mismatched", m.unfit);
  if (!strict) return text;
  append_list(text, "missing", m.missing);
  // A suggested name that `state` already has would not help: searches the missing names first.
  std::vector<std::string> names = m.missing;
  if (names.empty())
    for (const auto& target : targets) names.push_back(target.first);
  std::vector<std::string> unexpected = m.unexpected;
  for (size_t i = 0; i < std::min(unexpected.size(), kShown); ++i) {
    std::string nearest = nearest_name(unexpected[i], names);
    if (!nearest.empty()) unexpected[i] += " (did you mean " + nearest + "?)";
  }
  append_list(text, "unexpected", unexpected);
  return text;
}

/// "; 'fc.weight' was given, 'head.weight' is wanted".
std::string example(const NamedTensors& targets, const NamedTensors& state) {
  if (targets.empty() || state.empty()) return "";
  return fmt::format("; '{}' was given, '{}' is wanted: rename or strip a prefix",
                     state.front().first, targets.front().first);
}

bool whole(const Tensor& t) {
  return t.is_contiguous() && t.layout().offset == 0 && detail::held_once(t.ref()->storage);
}

// Whether two tensors have storages of the same size. (If the source were a view of more elements,
// the rest would stay in memory with the target.)
bool as_large(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.ref()->storage->bytes() == b.ref()->storage->bytes();
}

// Copies the elements, or with `take` swaps them, if only these two tensors hold them. A target
// without memory (ShapeOnlyScope) gets the memory of a copy.
void put(const Tensor& to, const Tensor& from, bool take) {
  const bool own = take && from.ref().use_count() == 1;
  detail::Storage& target = *to.ref()->storage;
  if (own && as_large(to, from) && whole(to) && whole(from)) {
    target.exchange(*from.ref()->storage);
  } else if (!detail::reserving && detail::is_reserved(target.data()) && whole(to)) {
    const Tensor copy = empty(to.shape(), to.dtype());
    copy_(copy, from);
    target.exchange(*copy.ref()->storage);
  } else {
    copy_(to, from);
  }
}

}  // namespace

std::string nearest_name(const std::string& name, const std::vector<std::string>& candidates) {
  std::string best;
  size_t limit = name.size() / 2 + 1;  // names at this distance are not typing errors
  for (const std::string& candidate : candidates) {
    const auto [shorter, longer] = std::minmax({name.size(), candidate.size()});
    if (longer - shorter >= limit) continue;  // a lower bound of the distance
    size_t distance = edit_distance(name, candidate);
    if (distance < limit) {
      limit = distance;
      best = candidate;
    }
  }
  return best;
}

LoadStateReport load_state(const std::string& op, const NamedTensors& targets,
                           const NamedTensors& state, const LoadStateOptions& options) {
  for (const NamedTensors* list : {&targets, &state})
    for (const auto& [name, tensor] : *list)
      check(tensor.defined(), "{}: the tensor '{}' is undefined", op, name);
  Match m = match(targets, state);
  std::string wrong = complaint(m, targets, options.strict);
  check(wrong.empty(), "{}:{}", op, wrong);
  if (m.copies.empty() && !(targets.empty() && state.empty()))
    fail(
        fmt::format("{}: nothing would be loaded: none of the {} names given is among the {} wanted"
                    "{}",
                    op, state.size(), targets.size(), example(targets, state)));
  for (auto [to, from] : m.copies)
    check(!to->ref()->storage->lent(),
          "{}: the model holds averages at the moment, and would lose the loaded weights when they "
          "are swapped out; load after the EmaScope has ended (or after Ema::swap)",
          op);
  for (auto [to, from] : m.copies) to->check_writable(op.c_str());
  NoGradGuard no_grad;
  for (auto [to, from] : m.copies) put(*to, *from, options.take);
  return {std::move(m.missing), std::move(m.unexpected)};
}

}  // namespace tern

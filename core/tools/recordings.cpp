// Reads two recordings, matches their entries by kind, module and call, and reports the largest
// differences in forward order.
#include "tern/core/tools/recordings.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>

namespace tern {
namespace {

constexpr const char* kKinds[] = {"output", "gradient", "weight"};

struct Entry {
  std::string kind, module;
  int64_t number;
  Tensor value;
};

using Key = std::tuple<std::string, std::string, int64_t>;  // kind, module, call

// "output/000012/encoder.up"
Entry parsed(const std::string& name, const Tensor& value) {
  const size_t a = name.find('/'), b = name.find('/', a + 1);
  Entry e;
  e.kind = name.substr(0, a);
  const bool known = std::find(std::begin(kKinds), std::end(kKinds), e.kind) != std::end(kKinds);
  check_io(known && b != name.npos,
           "'{}' is not a name in a recording; names are output/NUMBER/MODULE, gradient/... or "
           "weight/...",
           name);
  const char* end = name.data() + b;
  const auto read = std::from_chars(name.data() + a + 1, end, e.number);
  check_io(read.ec == std::errc() && read.ptr == end, "'{}': the number cannot be read", name);
  e.module = name.substr(b + 1);
  e.value = value;
  return e;
}

struct Recording {
  std::vector<std::pair<Key, Tensor>> entries;  // in order
  std::map<Key, Tensor> by_key;
};

Recording read(const SafeTensors& file) {
  std::vector<Entry> all;
  for (const auto& [name, t] : file.tensors) all.push_back(parsed(name, t));
  auto rank = [](const Entry& e) {
    return std::find(std::begin(kKinds), std::end(kKinds), e.kind) - std::begin(kKinds);
  };
  std::stable_sort(all.begin(), all.end(), [&](const Entry& a, const Entry& b) {
    return std::pair(rank(a), a.number) < std::pair(rank(b), b.number);
  });
  Recording r;
  std::map<std::pair<std::string, std::string>, int64_t> calls;
  for (const Entry& e : all) {
    const Key key{e.kind, e.module, ++calls[{e.kind, e.module}]};
    r.entries.emplace_back(key, e.value);
    r.by_key.emplace(key, e.value);
  }
  return r;
}

std::string title(const Key& key) {
  const auto& [kind, module, call] = key;
  const std::string name = module.empty() ? "the model" : module;
  return fmt::format("{} of {}{}",
                     kind == "output"     ? kind
                     : kind == "gradient" ? "gradient of the output"
                                          : "gradient",
                     name, call > 1 ? fmt::format(" (call {})", call) : "");
}

bool fits(const Shape& a, const Shape& b) {
  if (a == b) return true;
  return a.size() != b.size() && !a.empty() && !b.empty() && numel(a) == numel(b) &&
         a.back() == b.back();
}

// The distance of two elements; infinite if one is not finite and they differ.
double distance(double a, double b) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return 0;
  const double d = std::abs(a - b);
  return std::isfinite(d) ? d : std::numeric_limits<double>::infinity();
}

Comparison compare(const Key& key, const Tensor& a, const Tensor& b,
                   const DivergenceOptions& options) {
  Comparison c;
  std::tie(c.kind, c.module, c.call) = key;
  c.shape = a.shape();
  const auto x = a.to_vector<double>(), y = b.to_vector<double>();
  double largest = 0;
  size_t worst = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    for (double v : {x[i], y[i]})
      if (std::isfinite(v)) largest = std::max(largest, std::abs(v));
    if (const double d = distance(x[i], y[i]); d > c.max_abs) {
      c.max_abs = d;
      worst = i;
    }
  }
  if (x.empty()) return c;
  c.relative = largest > 0 ? c.max_abs / largest : c.max_abs;
  c.at = position_of(static_cast<int64_t>(worst), a.shape());
  c.first = x[worst];
  c.second = y[worst];
  c.differs = c.max_abs > options.atol + options.rtol * largest;
  return c;
}

std::string list_of(const char* what, const std::vector<std::string>& names) {
  constexpr size_t kShown = 12;
  if (names.empty()) return "";
  std::string text = fmt::format("{}: {}", what, names[0]);
  for (size_t i = 1; i < std::min(names.size(), kShown); ++i) text += ", " + names[i];
  if (names.size() > kShown) text += fmt::format(" and {} more", names.size() - kShown);
  return text + "\n";
}

}  // namespace

std::string Comparison::line() const {
  return fmt::format(
      "{} {}: largest difference {:.3g}, {:.3g} of the largest element, at {}: "
      "{:.7g} and {:.7g}",
      title({kind, module, call}), shape, max_abs, relative, at, first, second);
}

const Comparison* Divergence::first() const {
  auto found =
      std::find_if(compared.begin(), compared.end(), [](const Comparison& c) { return c.differs; });
  return found == compared.end() ? nullptr : &*found;
}

std::string Divergence::report() const {
  const auto differing = std::count_if(compared.begin(), compared.end(),
                                       [](const Comparison& c) { return c.differs; });
  std::string text = fmt::format("{} compared, {} differ\n", compared.size(), differing);
  if (const Comparison* c = first()) {
    text += fmt::format("first: {}\n", c->line());
    if (c != compared.data()) text += fmt::format("before it: {}\n", (c - 1)->line());
  }
  return text + list_of("other shapes, not compared", other_shapes) +
         list_of("in the first file only", only_first) +
         list_of("in the second file only", only_second);
}

Divergence first_divergence(const SafeTensors& first, const SafeTensors& second,
                            const DivergenceOptions& options) {
  const Recording a = read(first), b = read(second);
  Divergence d;
  for (const auto& [key, value] : a.entries) {
    auto other = b.by_key.find(key);
    if (other == b.by_key.end())
      d.only_first.push_back(title(key));
    else if (!fits(value.shape(), other->second.shape()))
      d.other_shapes.push_back(
          fmt::format("{} {} and {}", title(key), value.shape(), other->second.shape()));
    else
      d.compared.push_back(compare(key, value, other->second, options));
  }
  for (const auto& [key, value] : b.entries)
    if (!a.by_key.contains(key)) d.only_second.push_back(title(key));
  check(!d.compared.empty(),
        "first_divergence: the recordings have no layer in common; the first has {} entries, the "
        "second {}",
        a.entries.size(), b.entries.size());
  return d;
}

}  // namespace tern

// Options of a model by themselves and in every pair of values, for tests that hold for any
// combination.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace tern::test {

template <class Options>
struct Choice {
  const char* name;
  std::function<void(Options&)> apply;
};

/// The values of each option, except the default.
template <class Options>
using Choices = std::vector<std::vector<Choice<Options>>>;

/// fn(name, options) for `base`, and for every value of every option by itself.
template <class Options, class Fn>
void for_singles(const Options& base, const Choices<Options>& all, Fn&& fn) {
  fn(std::string("default"), base);
  for (const auto& values : all)
    for (const Choice<Options>& choice : values) {
      Options o = base;
      choice.apply(o);
      fn(std::string(choice.name), o);
    }
}

/// The same for every value of every option with every value of every other.
template <class Options, class Fn>
void for_pairs(const Options& base, const Choices<Options>& all, Fn&& fn) {
  for (size_t i = 0; i < all.size(); ++i)
    for (const Choice<Options>& a : all[i])
      for (size_t j = i + 1; j < all.size(); ++j)
        for (const Choice<Options>& b : all[j]) {
          Options o = base;
          a.apply(o);
          b.apply(o);
          fn(std::string(a.name) + " + " + b.name, o);
        }
}

}  // namespace tern::test

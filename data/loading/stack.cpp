// Stacks one field of all samples. Types and shapes must be those of sample 0.
#include "tern/data/loading/stack.h"

namespace tern::datasets::detail {

Tensor stack_field(const std::string& path, const std::vector<const Tensor*>& of) {
  const Tensor& first = *of[0];
  std::vector<Tensor> parts;
  for (size_t s = 0; s < of.size(); ++s) {
    const Tensor& t = *of[s];
    check(t.defined() == first.defined(), "Stack: '{}' is {} in sample {}, but not in sample 0",
          path, t.defined() ? "defined" : "undefined", s);
    if (!t.defined()) continue;
    check(t.dtype() == first.dtype() && t.shape() == first.shape(),
          "Stack: '{}' is {} {} in sample {}, but {} {} in sample 0; datasets::Pad joins fields of "
          "different lengths; resize fields of other shapes first",
          path, t.dtype(), t.shape(), s, first.dtype(), first.shape());
    parts.push_back(t);
  }
  return parts.empty() ? Tensor() : stack(parts);
}

void fail_count(const std::string& path, size_t sample, size_t count, size_t first) {
  fail(fmt::format("Stack: '{}' has {} elements in sample {}, but {} in sample 0", path, count,
                   sample, first));
}

}  // namespace tern::datasets::detail

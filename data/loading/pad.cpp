// Pads one field of all samples to the longest, and collects its lengths.
#include "tern/data/loading/pad.h"

#include <fmt/format.h>

#include <algorithm>

#include "tern/core/ops/convolution/padding.h"

namespace tern::datasets::detail {

Tensor pad_field(const std::string& path, const std::vector<const Tensor*>& of, Scalar value) {
  const Tensor& first = *of[0];
  std::vector<Tensor> sequences;
  for (size_t s = 0; s < of.size(); ++s) {
    const Tensor& t = *of[s];
    check(t.defined() == first.defined(), "Pad: '{}' is {} in sample {}, but not in sample 0", path,
          t.defined() ? "defined" : "undefined", s);
    if (!t.defined()) continue;
    Shape shape = t.shape(), wanted = first.shape();
    if (!shape.empty() && !wanted.empty()) shape[0] = wanted[0];
    check(t.dtype() == first.dtype() && shape == wanted,
          "Pad: '{}' is {} {} in sample {}, but {} {} in sample 0; only the first axis may differ",
          path, t.dtype(), t.shape(), s, first.dtype(), first.shape());
    sequences.push_back(t);
  }
  if (sequences.empty()) return {};
  return first.ndim() == 0 ? stack(sequences) : pad_sequence(sequences, value);
}

Tensor field_lengths(const std::vector<const Tensor*>& of) {
  if (!of[0]->defined() || of[0]->ndim() == 0) return {};
  std::vector<int64_t> lengths;
  for (const Tensor* t : of) lengths.push_back(t->size(0));
  return tensor(lengths);
}

void check_pad_names(const std::map<std::string, Scalar>& values,
                     const std::vector<std::string>& fields) {
  for (const auto& [name, value] : values)
    check(std::find(fields.begin(), fields.end(), name) != fields.end(),
          "Pad: there is a value for '{}', but the samples have no such field; they have: {}", name,
          fmt::join(fields, ", "));
}

}  // namespace tern::datasets::detail

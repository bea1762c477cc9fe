// A collate function for samples of different lengths: sentences, recordings, sets of points.
//
//   struct Pair {
//     Tensor source, target;  // i64 (S), i64 (T)
//     static void fields(auto& p, auto&& visit) {
//       visit("source", p.source), visit("target", p.target);
//     }
//   };
//   auto loader = datasets::dataset_loader(pairs, datasets::Pad{.values = {{"target", -100}}},
//                                          {.batch = 32});
//   for (auto& batch : loader)
//     model(batch.values.source, nn::Mask::lengths(batch.lengths.source));
//
// batch.values.source is i64 (32, S), S for the longest sentence, padded with 0, and
// batch.lengths.source is i64 (32). batch.values.target is padded with -100, which cross_entropy
// ignores. datasets::pair_loader makes batches of sentences of about the same length.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tern/data/loading/stack.h"

namespace tern::datasets {

/// A batch of samples of type T.
template <class T>
struct Padded {
  T values;   ///< every field (B, ...), padded along the samples' first axis
  T lengths;  ///< every field i64 (B): the size of that axis; undefined for fields without axes
};

namespace detail {

/// Applies pad_sequence to one field of all samples.
Tensor pad_field(const std::string& path, const std::vector<const Tensor*>& of, Scalar value);

/// The sizes of the first axis, i64 (B); undefined for fields without axes.
Tensor field_lengths(const std::vector<const Tensor*>& of);

/// Error if a name is not the name of a field.
void check_pad_names(const std::map<std::string, Scalar>& values,
                     const std::vector<std::string>& fields);

}  // namespace detail

/// The collate function. Fields may differ only in the size of their first axis. If they differ
/// otherwise, an Error names the field and the sample.
struct Pad {
  Scalar value = 0;                        ///< the padding
  std::map<std::string, Scalar> values{};  ///< padding of single fields: {{"target", -100}}

  template <class T>
  Padded<T> operator()(const std::vector<T>& samples) const {
    check(!samples.empty(), "Pad: the batch has no samples");
    const std::vector<const T*> of = detail::addresses(samples);
    Padded<T> batch{};
    std::vector<std::string> fields;
    detail::join_into("", batch.values, of, [&](const std::string& path, const auto& each) {
      fields.push_back(path);
      const auto own = values.find(path);
      return detail::pad_field(path, each, own == values.end() ? value : own->second);
    });
    detail::check_pad_names(values, fields);
    detail::join_into("", batch.lengths, of, [](const std::string&, const auto& each) {
      return detail::field_lengths(each);
    });
    return batch;
  }
};

}  // namespace tern::datasets

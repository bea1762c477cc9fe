// A collate function for your own samples. It turns structs of tensors (also nested structs) into
// the same struct with a new first axis in every tensor.
//
//   struct Pose {
//     Tensor position, rotation;
//     static void fields(auto& p, auto&& visit) {
//       visit("position", p.position), visit("rotation", p.rotation);
//     }
//   };
//   struct Frame {
//     Tensor image;             // (3, H, W)
//     Pose pose;
//     std::vector<Tensor> ears; // the same number in every sample
//     static void fields(auto& f, auto&& visit) {
//       visit("image", f.image), visit("pose", f.pose), visit("ears", f.ears);
//     }
//   };
//   auto loader = datasets::dataset_loader(frames, datasets::Stack{}, {.batch = 32});
//   for (Frame& batch : loader) ...  // batch.image (32, 3, H, W)
//
// Fields are named as in modules. Numbers are tensors too: scalar(label, DType::i64) becomes (B). A
// tensor that is undefined in every sample is undefined in the batch. If samples do not match, an
// Error names the field, the sample and both shapes.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <type_traits>
#include <vector>

#include "tern/core/ops/ops.h"

namespace tern::datasets {
namespace detail {

/// Stacks one field of all samples; `path` is for errors.
Tensor stack_field(const std::string& path, const std::vector<const Tensor*>& of);

[[noreturn]] void fail_count(const std::string& path, size_t sample, size_t count, size_t first);

/// Joins one field of all samples to a tensor. `path` names the field in errors.
using JoinField =
    std::function<Tensor(const std::string& path, const std::vector<const Tensor*>& of)>;

template <class T>
concept HasFields = requires(T& t) {
  T::fields(t, [](const char*, auto&) {});
};

template <class T>
struct IsVector : std::false_type {};
template <class T>
struct IsVector<std::vector<T>> : std::true_type {};
template <class T>
struct IsArray : std::false_type {};
template <class T, size_t n>
struct IsArray<std::array<T, n>> : std::true_type {};

template <class T>
std::vector<const T*> addresses(const std::vector<T>& samples) {
  std::vector<const T*> out;
  for (const T& sample : samples) out.push_back(&sample);
  return out;
}

/// Element i of each sample's list.
template <class List>
auto elements_of(const std::vector<const List*>& of, size_t i) {
  std::vector<const typename List::value_type*> out;
  for (const List* list : of) out.push_back(&(*list)[i]);
  return out;
}

/// Field `index`, of type F, of each sample.
template <class F, class T>
std::vector<const F*> fields_of(const std::vector<const T*>& of, size_t index) {
  std::vector<const F*> out;
  for (const T* sample : of) {
    size_t i = 0;
    T::fields(*const_cast<T*>(sample), [&](const char*, auto& field) {
      if constexpr (std::is_same_v<std::remove_cvref_t<decltype(field)>, F>)
        if (i == index) out.push_back(&field);
      ++i;
    });
  }
  return out;
}

/// Joins each field of the samples and writes it to the same field of `to`.
template <class T>
void join_into(const std::string& path, T& to, const std::vector<const T*>& of,
               const JoinField& join) {
  if constexpr (std::is_same_v<T, Tensor>) {
    to = join(path, of);
  } else if constexpr (IsVector<T>::value || IsArray<T>::value) {
    if constexpr (IsVector<T>::value) {
      for (size_t s = 0; s < of.size(); ++s)
        if (of[s]->size() != of[0]->size()) fail_count(path, s, of[s]->size(), of[0]->size());
      to.resize(of[0]->size());
    }
    for (size_t i = 0; i < to.size(); ++i)
      join_into(path + "." + std::to_string(i), to[i], elements_of(of, i), join);
  } else {
    static_assert(
        HasFields<T>,
        "Stack, Pad: a field must be a Tensor, a struct with `fields`, or a vector or array of "
        "these; make a number a tensor with scalar(x)");
    size_t index = 0;
    T::fields(to, [&](const char* name, auto& field) {
      using F = std::remove_cvref_t<decltype(field)>;
      join_into((path.empty() ? "" : path + ".") + name, field, fields_of<F>(of, index++), join);
    });
  }
}

}  // namespace detail

/// The collate function: the batch has the type of the samples.
struct Stack {
  template <class T>
  T operator()(const std::vector<T>& samples) const {
    check(!samples.empty(), "Stack: the batch has no samples");
    T batch{};  // members that `fields` does not list keep their defaults
    detail::join_into("", batch, detail::addresses(samples), detail::stack_field);
    return batch;
  }
};

}  // namespace tern::datasets

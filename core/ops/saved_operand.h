// What the backward passes of products keep of their operands. Products in bf16 round what they
// read (base/precision.h), so an operand that nobody holds any more is rounded there and then and
// kept in half the memory: gradients are the same to the last bit. Inside of core only.
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "tern/core/kernels/matrix.h"
#include "tern/core/tape/record.h"

namespace tern {

/// What a product reads: a tensor, or elements of which there are bfloat16 ones alone.
class Operand {
 public:
  Operand(Tensor t) : tensor_(std::move(t)) {}  // NOLINT: implicit on purpose
  Operand(const Layout& layout, detail::Ref<detail::Storage> bf16)
      : layout_(layout), bf16_(std::move(bf16)) {}

  bool rounded() const { return static_cast<bool>(bf16_); }
  /// Undefined where rounded().
  const Tensor& tensor() const { return tensor_; }
  const Layout& layout() const { return rounded() ? layout_ : tensor_.layout(); }
  DType dtype() const { return rounded() ? DType::f32 : tensor_.dtype(); }
  /// The same elements seen through another layout. REQUIRES: rounded().
  Operand seen(const Layout& layout) const { return {layout, bf16_}; }
  /// A tensor without history.
  Tensor widened() const;
  /// T: that of dtype().
  template <class T>
  kernels::Elements<T> elements() const {
    if constexpr (std::is_same_v<T, float>)
      if (rounded()) return static_cast<const kernels::Bf16*>(bf16_->data()) + layout_.offset;
    return tensor_.data<T>();
  }

 private:
  Tensor tensor_;
  Layout layout_;
  detail::Ref<detail::Storage> bf16_;
};

namespace detail {

/// The elements of a storage that products read: f32 while somebody holds them, then bfloat16.
class RoundedElements final : public Heir {
 public:
  /// `module`: what needs them, for who watches memory.
  RoundedElements(Storage* storage, std::string module)
      : storage_(storage), module_(std::move(module)) {}
  void inherit(Storage* storage) noexcept override;

  struct Found {
    Ref<Storage> f32, bf16;  ///< one of them
    uint64_t version = 0;    ///< that the f32 ones had last
  };
  Found find();
  /// As find, with bfloat16 ones made f32 for good.
  Found find_f32();

 private:
  bool round(const Storage& f32) noexcept;

  std::mutex mutex_;
  Storage* storage_;  // until it is inherited
  const std::string module_;
  Found left_;  // from then on
};

}  // namespace detail

/// An operand kept for the backward pass of a product that is made in matmul_precision(), and in
/// that alone. As Saved, which it is where there is nothing to round, it fails if the elements were
/// written to in between.
class SavedOperand {
 public:
  SavedOperand() = default;  ///< holds nothing; get() gives an undefined tensor
  explicit SavedOperand(const Tensor& input);
  explicit SavedOperand(const Fresh& output);
  explicit SavedOperand(Saved whole) : saved_(std::move(whole)) {}  ///< never rounded

  /// For products. With its history, and never rounded, where what is done with it is recorded.
  Operand operand() const;
  /// For anything else: of what is rounded its f32 elements are made, and stay.
  Tensor get() const;

 private:
  struct Rounding {
    Layout layout;
    detail::Ref<detail::Node> node;
    detail::Ref<detail::RoundedElements> elements;
    uint64_t version;
  };
  bool round(const detail::TensorImpl& x);
  void check_version(uint64_t now) const;
  Tensor tensor(detail::Ref<detail::Storage> f32) const;

  Saved saved_;
  std::optional<Rounding> rounding_;
};

inline SavedOperand save_operand(const Tensor& input) { return SavedOperand(input); }

}  // namespace tern

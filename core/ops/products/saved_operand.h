// How matrix products keep their operands for the backward pass. Products in bf16 round their
// operands (base/precision.h). So once an operand has no other owner, it is rounded early and kept
// in half the memory. Gradients have the same bits. Inside of core only.
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "tern/core/kernels/products/matrix.h"
#include "tern/core/tape/record.h"

namespace tern {

/// An operand of a product: a tensor, or elements that exist only as bfloat16.
class Operand {
 public:
  Operand(Tensor t) : tensor_(std::move(t)) {}  // NOLINT: implicit on purpose
  Operand(const Layout& layout, detail::Ref<detail::Storage> bf16)
      : layout_(layout), bf16_(std::move(bf16)) {}

  bool rounded() const { return static_cast<bool>(bf16_); }
  /// Undefined if rounded().
  const Tensor& tensor() const { return tensor_; }
  const Layout& layout() const { return rounded() ? layout_ : tensor_.layout(); }
  DType dtype() const { return rounded() ? DType::f32 : tensor_.dtype(); }
  /// A view of the same elements with another layout. REQUIRES: rounded().
  Operand seen(const Layout& layout) const { return {layout, bf16_}; }
  /// The elements as a tensor without history, converted to f32 if rounded.
  Tensor widened() const;
  /// The elements for a kernel. T is the type of dtype().
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

/// The elements of a storage that products read: f32 while they have another owner, then bfloat16.
class RoundedElements final : public Heir {
 public:
  /// `module` needs the elements; memory reports name it.
  RoundedElements(Storage* storage, std::string module)
      : storage_(storage), module_(std::move(module)) {}
  void inherit(Storage* storage) noexcept override;

  struct Found {
    Ref<Storage> f32, bf16;  ///< one of the two is set
    uint64_t version = 0;    ///< the last version of the f32 elements
    uint64_t lent_at = 0;    ///< their Storage::lent_at()
  };
  Found find();
  /// The same, but permanently converts bfloat16 elements back to f32.
  Found find_f32();

 private:
  bool round(const Storage& f32) noexcept;

  std::mutex mutex_;
  Storage* storage_;  // null once inherit() was called
  const std::string module_;
  Found left_;  // valid once inherit() was called
};

}  // namespace detail

/// An operand kept for the backward pass of a product, rounded to matmul_precision(). It is a Saved
/// if there is nothing to round. get() fails if the elements were overwritten since.
class SavedOperand {
 public:
  SavedOperand() = default;  ///< holds nothing; get() gives an undefined tensor
  explicit SavedOperand(const Tensor& input);
  explicit SavedOperand(const Fresh& output);
  explicit SavedOperand(Saved whole) : saved_(std::move(whole)) {}  ///< never rounded

  /// The operand for a product. If the caller records, it has its history and is never rounded.
  Operand operand() const;
  /// The operand for other uses. Permanently converts rounded elements to f32.
  Tensor get() const;

 private:
  struct Rounding {
    Layout layout;
    detail::Ref<detail::Node> node;
    detail::Ref<detail::RoundedElements> elements;
    uint64_t version;
  };
  bool round(const detail::TensorImpl& x);
  void check_version(const detail::RoundedElements::Found& now) const;
  Tensor tensor(detail::Ref<detail::Storage> f32) const;

  Saved saved_;
  std::optional<Rounding> rounding_;
};

inline SavedOperand save_operand(const Tensor& input) { return SavedOperand(input); }

}  // namespace tern

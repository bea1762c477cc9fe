// Tensors as text, after PyTorch's torch/_tensor_str.py: one format for all elements, long axes
// shortened to their ends, lines of 80 columns.
#include <algorithm>
#include <cmath>
#include <ostream>
#include <string>
#include <vector>

#include "tern/core/tape/record.h"
#include "tern/core/tensor/tensor.h"

namespace tern {
namespace {

constexpr int64_t kMostShown = 1000;  // elements; tensors with more are shortened
constexpr int64_t kEdge = 3;          // elements shown at each end of a shortened axis
constexpr int kColumns = 80;
constexpr int kIndent = 7;  // "tensor("

bool shortened(const Tensor& x, int64_t size) { return x.numel() > kMostShown && size > 2 * kEdge; }

// The elements to show, in row-major order.
template <class T>
std::vector<T> shown_elements(const Tensor& x) {
  Shape shown = x.shape();
  for (int64_t& size : shown)
    if (shortened(x, size)) size = 2 * kEdge;
  std::vector<T> out;
  for (int64_t n = 0; n < numel(shown); ++n) {
    int64_t rest = n, position = 0;
    for (int a = x.ndim() - 1; a >= 0; --a) {
      int64_t i = rest % shown[a];
      rest /= shown[a];
      if (shortened(x, x.shape()[a]) && i >= kEdge) i += x.shape()[a] - 2 * kEdge;
      position += i * x.strides()[a];
    }
    out.push_back(x.data<T>()[position]);
  }
  return out;
}

enum class NumberForm { whole, fixed, scientific };

// One format for all: integers with a point, 4 decimals, or powers of ten if magnitudes differ by
// more than 1000.
template <class T>
NumberForm choose_form(const std::vector<T>& values) {
  double least = INFINITY, greatest = 0;
  bool whole = true;
  for (double v : values) {
    if (v == 0 || !std::isfinite(v)) continue;
    least = std::min(least, std::abs(v));
    greatest = std::max(greatest, std::abs(v));
    whole &= v == std::ceil(v);
  }
  if (greatest == 0) return NumberForm::whole;
  if (greatest / least > 1000 || greatest > 1e8) return NumberForm::scientific;
  if (whole) return NumberForm::whole;
  return least < 1e-4 ? NumberForm::scientific : NumberForm::fixed;
}

std::string format_float(double v, NumberForm form) {
  if (std::isnan(v)) return "nan";
  if (std::isinf(v)) return v > 0 ? "inf" : "-inf";
  if (form == NumberForm::scientific) return fmt::format("{:.4e}", v);
  return form == NumberForm::whole ? fmt::format("{:.0f}.", v) : fmt::format("{:.4f}", v);
}

// Every element to show as text, padded to one width.
template <class T>
std::vector<std::string> cells(const Tensor& x) {
  std::vector<T> values = shown_elements<T>(x);
  std::vector<std::string> out;
  if constexpr (std::is_floating_point_v<T>) {
    NumberForm form = choose_form(values);
    for (T v : values) out.push_back(format_float(v, form));
  } else {
    for (T v : values) out.push_back(std::to_string(v));
  }
  size_t width = 0;
  for (const std::string& cell : out) width = std::max(width, cell.size());
  for (std::string& cell : out) cell.insert(0, width - cell.size(), ' ');
  return out;
}

// Arranges the cells in brackets.
class Writer {
 public:
  Writer(const Tensor& x, std::vector<std::string> cells) : x_(x), cells_(std::move(cells)) {}

  std::string axis(int a, int indent) {
    if (a == x_.ndim()) return cells_[next_++];
    std::vector<std::string> items;
    int64_t size = x_.shape()[a];
    bool last = a == x_.ndim() - 1, cut = shortened(x_, size);
    for (int64_t i = 0; i < (cut ? 2 * kEdge : size); ++i) {
      if (cut && i == kEdge) items.push_back(last ? " ..." : "...");
      items.push_back(axis(a + 1, indent + 1));
    }
    std::string margin(static_cast<size_t>(indent + 1), ' ');
    if (last) return fmt::format("[{}]", wrap(items, margin));
    std::string gap(static_cast<size_t>(x_.ndim() - a), '\n'), text = "[";
    gap[0] = ',';
    gap += margin;
    for (size_t i = 0; i < items.size(); ++i) text += (i ? gap : "") + items[i];
    return text + "]";
  }

 private:
  std::string wrap(const std::vector<std::string>& items, const std::string& margin) const {
    size_t room = static_cast<size_t>(kColumns) - std::min<size_t>(margin.size() - 1, kColumns);
    size_t per_line = std::max<size_t>(room / (cells_.front().size() + 2), 1);
    std::string text;
    for (size_t i = 0; i < items.size(); ++i)
      text += (i == 0 ? "" : i % per_line ? ", " : fmt::format(",\n{}", margin)) + items[i];
    return text;
  }

  const Tensor& x_;
  std::vector<std::string> cells_;
  size_t next_ = 0;
};

// Notes after the elements: dtype, shape and history if the elements do not show them.
std::vector<std::string> notes(const Tensor& x) {
  std::vector<std::string> out;
  if (x.numel() == 0 && x.ndim() != 1) out.push_back(fmt::format("size={}", x.shape()));
  bool plain = x.dtype() == DType::f32 || (x.dtype() == DType::i64 && x.numel() > 0);
  if (!plain) out.push_back(fmt::format("dtype={}", x.dtype()));
  if (x.requires_grad())
    out.push_back(x.is_leaf() ? "requires_grad=True" : fmt::format("grad_fn=<{}>", x.node()->name));
  return out;
}

}  // namespace

std::string to_string(const Tensor& t) {
  if (!t.defined()) return "tensor(undefined)";
  std::string text = "tensor(";
  if (t.numel() == 0)
    text += "[]";
  else
    text += Writer(t, dispatch(t.dtype(), [&]<class T>() { return cells<T>(t); })).axis(0, kIndent);
  size_t line = text.size() - (text.rfind('\n') + 1);  // npos + 1 is 0
  for (const std::string& note : notes(t)) {
    bool fits = line + note.size() + 3 <= static_cast<size_t>(kColumns);
    text += fits ? ", " : fmt::format(",\n{:{}}", "", kIndent);
    line = fits ? line + 2 + note.size() : static_cast<size_t>(kIndent) + note.size();
    text += note;
  }
  return text + ")";
}

std::ostream& operator<<(std::ostream& out, const Tensor& t) { return out << to_string(t); }

}  // namespace tern

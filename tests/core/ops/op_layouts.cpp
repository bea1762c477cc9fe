// Lays test operands out in memory, and chooses rows that cover every pair of layouts.
#include "tern/tests/core/ops/op_layouts.h"

#include <limits>

#include "tern/core/ops/ops.h"
#include "tern/core/tape/record.h"
#include "tern/tests/core/ops/op_table.h"

namespace tern::test {
namespace {

// The strides and offset that lay `shape` out.
Layout make_layout(const Shape& shape, Placing::Kind kind) {
  Layout l = Layout::contiguous(shape);
  int64_t step = 1;
  if (kind == Placing::transposed) {
    for (int a = 0; a < shape.size(); ++a) {
      l.strides[a] = step;
      step *= shape[a];
    }
  } else if (kind == Placing::sliced) {
    for (int a = 0; a < shape.size(); ++a) l.strides[a] = l.strides[a] * 2 + (a == 0 ? 1 : 0);
    l.offset = 3;
  } else if (kind == Placing::flipped) {
    for (int a = 0; a < shape.size(); ++a) {
      l.offset += (shape[a] - 1) * l.strides[a];
      l.strides[a] = -l.strides[a];
    }
  }
  return l;
}

// The pairs of choices that no row covers yet.
class OpenPairs {
 public:
  explicit OpenPairs(const std::vector<int>& counts) : counts_(counts) {
    for (size_t i = 0; i < counts.size(); ++i)
      for (size_t j = 0; j < i; ++j)
        open_.emplace_back(static_cast<size_t>(counts[i] * counts[j]), true);
  }
  bool open(size_t i, int a, size_t j, int b) const {
    return i > j ? table(i, j)[at(a, j, b)] : table(j, i)[at(b, i, a)];
  }
  void close(const std::vector<int>& row) {
    for (size_t i = 0; i < row.size(); ++i)
      for (size_t j = 0; j < i; ++j) open_[i * (i - 1) / 2 + j][at(row[i], j, row[j])] = false;
  }
  /// Puts the first open pair into the row; false if there is none.
  bool start(std::vector<int>& row) const {
    for (size_t i = 0; i < counts_.size(); ++i)
      for (size_t j = 0; j < i; ++j)
        for (int a = 0; a < counts_[i]; ++a)
          for (int b = 0; b < counts_[j]; ++b)
            if (open(i, a, j, b)) {
              row[i] = a;
              row[j] = b;
              return true;
            }
    return false;
  }

 private:
  const std::vector<bool>& table(size_t i, size_t j) const { return open_[i * (i - 1) / 2 + j]; }
  size_t at(int a, size_t j, int b) const { return static_cast<size_t>(a * counts_[j] + b); }
  const std::vector<int>& counts_;
  std::vector<std::vector<bool>> open_;
};

}  // namespace

Shape Placing::stored(Shape shape) const {
  for (int a = 0; a < shape.size(); ++a)
    if ((kind == expanded && a == axis) || kind == repeated) shape[a] = 1;
  return shape;
}

std::string to_string(Placing p) {
  const char* names[] = {"contiguous", "transposed", "sliced", "flipped", "expanded", "repeated"};
  std::string name = names[p.kind];
  return p.kind == Placing::expanded ? name + " along " + std::to_string(p.axis) : name;
}

std::vector<Placing> placings(const Shape& shape, bool stretched) {
  std::vector<Placing> all = {{Placing::contiguous}};
  std::vector<int> long_axes;
  for (int a = 0; a < shape.size(); ++a)
    if (shape[a] > 1) long_axes.push_back(a);
  if (long_axes.size() > 1) all.push_back({Placing::transposed});
  all.push_back({Placing::sliced});
  if (!long_axes.empty()) all.push_back({Placing::flipped});
  if (!stretched) return all;
  for (int a : long_axes) all.push_back({Placing::expanded, a});
  if (long_axes.size() > 1) all.push_back({Placing::repeated});
  return all;
}

template <class T>
Tensor lay_out(const Array& a, Placing placing) {
  Layout l = make_layout(a.shape, a.numel() ? placing.kind : Placing::contiguous);
  using Limits = std::numeric_limits<T>;
  std::vector<T> buffer(static_cast<size_t>(detail::extent(l).last + 1),
                        Limits::has_quiet_NaN ? Limits::quiet_NaN() : Limits::max());
  for_each_index(a.shape, [&](const Dims& index) {
    int64_t p = l.offset;
    for (int k = 0; k < index.size(); ++k) p += index[k] * l.strides[k];
    buffer[static_cast<size_t>(p)] = static_cast<T>(a.at(index));
  });
  Tensor whole = tensor(buffer, Dims(static_cast<int64_t>(buffer.size())));
  return not_differentiable(Fresh::view(whole, l));
}

template Tensor lay_out<float>(const Array&, Placing);
template Tensor lay_out<double>(const Array&, Placing);
template Tensor lay_out<int64_t>(const Array&, Placing);
template Tensor lay_out<uint8_t>(const Array&, Placing);

// Greedy: a row starts with an open pair; each further factor takes the choice that closes the most
// pairs.
std::vector<std::vector<int>> covering_array(const std::vector<int>& counts) {
  std::vector<std::vector<int>> rows;
  if (counts.size() == 1)
    for (int a = 0; a < counts[0]; ++a) rows.push_back({a});
  OpenPairs pairs(counts);
  for (std::vector<int> row(counts.size(), -1); pairs.start(row); row.assign(counts.size(), -1)) {
    for (size_t i = 0; i < counts.size(); ++i) {
      if (row[i] >= 0) continue;
      int most = -1;
      for (int k = 0; k < counts[i]; ++k) {
        const int a = (k + static_cast<int>(rows.size())) % counts[i];
        int closes = 0;
        for (size_t j = 0; j < counts.size(); ++j)
          if (row[j] >= 0 && j != i) closes += pairs.open(i, a, j, row[j]);
        if (closes <= most) continue;
        most = closes;
        row[i] = a;
      }
    }
    pairs.close(row);
    rows.push_back(row);
  }
  return rows;
}

}  // namespace tern::test

// Layouts and the strided iterator against brute force: every result is compared with the list of
// all element positions.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "tern/core/base/layout.h"
#include "tern/core/kernels/loops.h"

namespace tern::test_layout {
namespace {

using Positions = std::vector<int64_t>;

// Element positions in row-major order of the index.
Positions positions(const Layout& l) {
  Positions out;
  Dims index = Dims::filled(l.ndim(), 0);
  for (int64_t n = l.numel(); n > 0; --n) {
    int64_t p = l.offset;
    for (int a = 0; a < l.ndim(); ++a) p += index[a] * l.strides[a];
    out.push_back(p);
    for (int a = l.ndim() - 1; a >= 0; --a) {
      if (++index[a] < l.shape[a]) break;
      index[a] = 0;
    }
  }
  return out;
}

class RandomLayouts {
 public:
  int64_t pick(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(engine_);
  }

  // A contiguous tensor of 0 to 4 axes, changed by a few views.
  Layout next() {
    Shape shape;
    for (int64_t n = pick(0, 4); n > 0; --n) shape.push_back(pick(1, 4));
    if (pick(0, 15) == 0 && !shape.empty()) shape[0] = 0;
    Layout l = Layout::contiguous(shape);
    for (int64_t n = pick(0, 3); n > 0 && l.ndim() > 0; --n) change(l);
    return l;
  }

  // A way to write `count` elements as a shape, with some axes of size 1.
  Shape factors(int64_t count) {
    Shape shape;
    if (count == 0) return {2, 0};
    while (count > 1) {
      int64_t f = pick(2, count);
      if (count % f) continue;
      shape.push_back(f);
      count /= f;
    }
    for (int64_t n = pick(0, 2); n > 0; --n)
      shape.insert(static_cast<int>(pick(0, shape.size())), 1);
    return shape;
  }

 private:
  void change(Layout& l) {
    int a = static_cast<int>(pick(0, l.ndim() - 1)), b = static_cast<int>(pick(0, l.ndim() - 1));
    int64_t size = l.shape[a];
    switch (pick(0, 4)) {
      case 0:
        std::swap(l.shape[a], l.shape[b]);
        std::swap(l.strides[a], l.strides[b]);
        break;
      case 1:
        l = slice(l, a, size - 1, size, -1);
        break;
      case 2:
        if (size > 1) l = slice(l, a, pick(0, 1), (size - 1) / 2 + (size % 2 ? 0 : 1), 2);
        break;
      case 3:
        l = insert_axis(l, a, pick(1, 3), 0);
        break;
      default:
        if (size == 1) l.strides[a] = pick(-7, 7);  // the stride of an axis of size 1 has no effect
    }
  }

  std::mt19937 engine_{7};
};

// Whether some strides give a tensor of this shape these positions. The stride of each axis follows
// from the first two elements along it.
bool viewable(const Positions& p, const Shape& shape) {
  Layout guess{shape, contiguous_strides(shape), p.empty() ? 0 : p[0]};
  Strides linear = contiguous_strides(shape);
  for (int a = 0; a < shape.size(); ++a)
    if (!p.empty() && shape[a] > 1) guess.strides[a] = p[static_cast<size_t>(linear[a])] - p[0];
  return positions(guess) == p;
}

TEST_CASE("layout: try_view finds a view exactly where there is one") {
  RandomLayouts random;
  int possible = 0, impossible = 0;
  for (int n = 0; n < 20000; ++n) {
    Layout l = random.next();
    Shape shape = random.factors(l.numel());
    Positions want = positions(l);
    std::optional<Layout> view = try_view(l, shape);
    INFO("shape ", to_string(l.shape), " strides ", to_string(l.strides), " as ", to_string(shape));
    REQUIRE(view.has_value() == viewable(want, shape));
    (view ? possible : impossible)++;
    if (view) {
      REQUIRE(view->shape == shape);
      REQUIRE(positions(*view) == want);
    }
  }
  CHECK(possible > 1000);
  CHECK(impossible > 1000);
}

TEST_CASE("layout: is_contiguous and extent agree with the positions") {
  RandomLayouts random;
  for (int n = 0; n < 5000; ++n) {
    Layout l = random.next();
    Positions p = positions(l);
    bool rising = true;
    for (size_t i = 0; i < p.size(); ++i) rising &= p[i] == p[0] + static_cast<int64_t>(i);
    INFO("shape ", to_string(l.shape), " strides ", to_string(l.strides));
    REQUIRE(l.is_contiguous() == rising);
    detail::Extent e = detail::extent(l);
    if (p.empty()) {
      REQUIRE(e.last == e.first - 1);
    } else {
      REQUIRE(e.first == *std::min_element(p.begin(), p.end()));
      REQUIRE(e.last == *std::max_element(p.begin(), p.end()));
    }
  }
}

TEST_CASE("layout: may_overlap finds the layouts in which two indices share an element") {
  RandomLayouts random;
  int shared = 0;
  for (int n = 0; n < 5000; ++n) {
    Layout l = random.next();
    if (l.ndim() > 0 && random.pick(0, 3) == 0) {  // windows
      const int a = static_cast<int>(random.pick(0, l.ndim() - 1));
      if (l.shape[a] > 1) l = unfold(l, a, 2, random.pick(1, 2));
    }
    Positions p = positions(l);
    std::sort(p.begin(), p.end());
    const bool twice = std::adjacent_find(p.begin(), p.end()) != p.end();
    shared += twice;
    INFO("shape ", to_string(l.shape), " strides ", to_string(l.strides));
    REQUIRE(detail::may_overlap(l) == twice);
  }
  CHECK(shared > 500);
  CHECK_FALSE(detail::may_overlap(diagonal(Layout::contiguous({4, 4, 4}), 0, 2, 1)));
  CHECK_FALSE(detail::may_overlap({{2, 0}, {0, 0}}));
  CHECK(detail::may_overlap({{3, 2}, {1, 1}}));
  CHECK(detail::may_overlap({{2, 3}, {2, -1}}));
}

TEST_CASE("layout: slice, permute, diagonal, unfold and axes by hand") {
  Layout l = Layout::contiguous({3, 4});
  CHECK(positions(slice(l, 1, 3, 2, -2)) == Positions{3, 1, 7, 5, 11, 9});
  CHECK(positions(permute(l, {1, 0})) == Positions{0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11});
  CHECK(positions(diagonal(l, 0, 1, 0)) == Positions{0, 5, 10});
  CHECK(positions(diagonal(l, 0, 1, 2)) == Positions{2, 7});
  CHECK(positions(diagonal(l, 0, 1, -1)) == Positions{4, 9});
  CHECK(positions(diagonal(l, 1, 0, -2)) == Positions{2, 7});
  CHECK(positions(diagonal(l, 0, 1, 4)) == Positions{});
  CHECK(positions(diagonal(l, 0, 1, -3)) == Positions{});
  Layout w = unfold(l, 1, 2, 2);
  CHECK(w.shape == Shape{3, 2, 2});
  CHECK(positions(w) == Positions{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  CHECK(positions(unfold(l, 0, 2, 1)) ==
        Positions{0, 4, 1, 5, 2, 6, 3, 7, 4, 8, 5, 9, 6, 10, 7, 11});
  CHECK(unfold(l, 1, 0, 3).shape == Shape{3, 2, 0});
  CHECK(positions(insert_axis(l, 1, 1, 99)) == positions(l));
  CHECK(erase_axis(l, 0).shape == Shape{4});
  CHECK(positions(expand("test", Layout::contiguous({2, 1}), {3, 2, 2})) ==
        Positions{0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1});
  CHECK_THROWS_AS(expand("test", l, {4}), Error);
  CHECK_THROWS_AS(expand("test", l, {3, 5}), Error);
}

TEST_CASE(
    "loops: runs and blocks cover every element of every operand once, in order, from any start") {
  RandomLayouts random;
  for (int n = 0; n < 5000; ++n) {
    Layout a = random.next(), b = random.next();
    Layout c = Layout::contiguous(a.shape);
    b.shape = a.shape;  // any strides will do: the elements are never read
    b.strides.resize(a.ndim(), 5);
    kernels::Loops loops = kernels::plan_loops(a.shape, {&a, &b, &c});
    REQUIRE(loops.numel == a.numel());
    if (a.is_contiguous() && a.numel() > 0)
      REQUIRE(kernels::plan_loops(a.shape, {&a, &c}).sizes.size() == 1);
    int64_t first = random.pick(0, loops.numel), last = random.pick(first, loops.numel);
    Positions got[3];
    kernels::for_each_run(loops, first, last, [&](const kernels::Offsets& at, int64_t count) {
      REQUIRE(count > 0);
      for (int k = 0; k < 3; ++k)
        for (int64_t i = 0; i < count; ++i)
          got[k].push_back(at[static_cast<size_t>(k)] + i * loops.inner_stride(k));
    });
    Positions in_blocks[3];
    int64_t blocks = 0;
    kernels::for_each_block(
        loops, first, last, [&](const kernels::Offsets& at, int64_t rows, int64_t count) {
          REQUIRE(std::min(rows, count) > 0);
          ++blocks;
          for (int k = 0; k < 3; ++k)
            for (int64_t i = 0; i < rows * count; ++i)
              in_blocks[k].push_back(at[static_cast<size_t>(k)] + i / count * loops.row_stride(k) +
                                     i % count * loops.inner_stride(k));
        });
    // A plane is one block of whole rows, after and before a part of a row.
    if (loops.sizes.size() <= 2) CHECK(blocks <= 3);
    const Layout* operands[] = {&a, &b, &c};
    for (int k = 0; k < 3; ++k) {
      REQUIRE(in_blocks[k] == got[k]);
      Layout l = *operands[k];
      l.offset = 0;
      Positions all = positions(l);
      REQUIRE(got[k] == Positions(all.begin() + first, all.begin() + last));
    }
  }
}

}  // namespace
}  // namespace tern::test_layout

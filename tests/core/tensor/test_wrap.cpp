// Tensors on foreign memory: both sides see writes, read-only memory refuses them, the owner stays
// as long as needed, and tern neither counts nor reuses the memory. That ops compute the same bits
// there is tested by the op table (tests/core/ops/op_table.h) and test_subjects.cpp.
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

#include "tern/core/base/allocator.h"
#include "tern/core/base/bf16_way.h"
#include "tern/core/base/precision.h"
#include "tern/core/base/rng.h"
#include "tern/core/base/shape_only.h"
#include "tern/core/io/tensor_file.h"
#include "tern/core/ops/convolution/conv.h"
#include "tern/core/ops/indexing/indexing.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/nn/nn.h"
#include "tern/optim/optim.h"
#include "tern/tests/support/data_files.h"
#include "tern/tests/support/errors.h"
#include "tern/tests/support/foreign_memory.h"
#include "tern/tests/support/same_bits.h"
#include "tern/tests/support/tensors.h"

namespace tern::test_wrap {
namespace {

using test::error_of;

std::vector<float> counted(int64_t n) {
  std::vector<float> v(static_cast<size_t>(n));
  std::iota(v.begin(), v.end(), 0.f);
  return v;
}

using Write = std::function<void(const Tensor&)>;
const std::vector<Write> kWrites = {
    [](const Tensor& x) { copy_(x, ones(x.shape())); },
    [](const Tensor& x) { fill_(x, 1); },
    [](const Tensor& x) { add_(x, ones(x.shape())); },
    [](const Tensor& x) { mul_(x, 2); },
    [](const Tensor& x) { x += 1; },
    [](const Tensor& x) { x /= ones({}); },
    [](const Tensor& x) { x.mutable_data<float>()[0] = 5; },
    [](const Tensor& x) { x.begin_write("camera"); },
    [](const Tensor& x) { nn::init::constant(x, 3); },
};

TEST_CASE("wrap: both sides see writes, through every view") {
  std::vector<float> v = counted(12);
  const Tensor x = Tensor::wrap(v.data(), {3, 4});
  CHECK(x.data<float>() == v.data());
  CHECK(x.is_contiguous());
  v[5] = 50;
  CHECK(x[1][1].item() == 50);
  transpose(x, 0, 1)[3] = 7;
  CHECK(v == std::vector<float>{0, 1, 2, 7, 4, 50, 6, 7, 8, 9, 10, 7});
  Tensor::wrap(v.data(), {2}) = tensor({-1, -2});  // a write into a temporary arrives too
  CHECK(v[0] == -1);
  CHECK(v[1] == -2);
  Tensor::wrap(v.data() + 2, {}) = 9;
  CHECK(v[2] == 9);
}

TEST_CASE("wrap: strides of any sign, offsets, every type of elements") {
  std::vector<double> v(24);
  std::iota(v.begin(), v.end(), 0.);
  const auto numbers = [&](const double* p, const Shape& shape, const Strides& strides) {
    return Tensor::wrap(p, shape, {.strides = strides}).to_vector<double>();
  };
  CHECK(numbers(v.data(), {2, 3}, {1, 2}) == std::vector<double>{0, 2, 4, 1, 3, 5});
  CHECK(numbers(v.data() + 23, {2, 2}, {-12, -1}) == std::vector<double>{23, 22, 11, 10});
  CHECK(numbers(v.data() + 11, {2, 2}, {-1, 12}) == std::vector<double>{11, 23, 10, 22});
  CHECK(numbers(v.data() + 3, {2, 2}, {0, 5}) == std::vector<double>{3, 8, 3, 8});
  CHECK(numbers(v.data(), {3, 2}, {1, 1}) == std::vector<double>{0, 1, 1, 2, 2, 3});
  // Axes with one element lead nowhere.
  const Tensor one = Tensor::wrap(v.data(), {1, 3}, {.strides = Strides{INT64_MIN, 1}});
  CHECK(one.is_contiguous());
  CHECK(flip(one, {0}).to_vector<double>() == std::vector<double>{0, 1, 2});

  const std::array<int64_t, 2> numbers_of_64_bits{-1, int64_t{1} << 60};
  const std::array<uint8_t, 3> bytes{0, 128, 255};
  CHECK(Tensor::wrap(numbers_of_64_bits.data(), {2}).to_vector<int64_t>()[1] == int64_t{1} << 60);
  CHECK(Tensor::wrap(bytes.data() + 1, {2}).to_vector<int>() == std::vector<int>{128, 255});
}

TEST_CASE("wrap: no elements need no memory") {
  const Tensor x = Tensor::wrap(static_cast<float*>(nullptr), {0, 3});
  CHECK(sum(x).item() == 0);
  CHECK(matmul(x, ones({3, 2})).shape() == Shape{0, 2});
  CHECK(x.span<float>().empty());
  CHECK_NOTHROW(fill_(x, 1));
}

TEST_CASE("wrap: wrong pointers and layouts are refused") {
  std::vector<float> v = counted(8);
  const auto refused = [&](const float* p, const Shape& shape, std::optional<Strides> strides,
                           const char* reason) {
    const auto owner = std::make_shared<int>(1);
    const std::string text = error_of(
        [&] { return Tensor::wrap(p, shape, {.strides = strides, .owner = owner}).numel(); });
    CAPTURE(text);
    CHECK(text.starts_with("Tensor::wrap: "));
    CHECK(test::contains(text, reason));
    CHECK(owner.use_count() == 1);
  };
  const int64_t far = int64_t{1} << 61;
  refused(nullptr, {2}, {}, "the pointer is null");
  refused(nullptr, {}, {}, "the pointer is null");
  refused(v.data(), {2, 2}, Strides{1}, "1 strides were given for the shape (2, 2)");
  const float* odd = reinterpret_cast<const float*>(reinterpret_cast<const char*>(v.data()) + 1);
  refused(odd, {1}, {}, "no multiple of 4, the size of a f32");
  refused(v.data(), {far}, {}, "63 bits");
  refused(v.data(), {2, 2}, Strides{far, far}, "63 bits");
  refused(v.data(), {2}, Strides{INT64_MIN}, "63 bits");
  refused(v.data(), {3}, Strides{INT64_MIN}, "63 bits");
  refused(v.data(), {2}, Strides{-(far / 4)}, "leaves the address space");
  CHECK(test::contains(error_of([&] { return Tensor::wrap(v.data(), {-1}).numel(); }), "-1"));
  CHECK(test::contains(error_of([&] {
                         return Tensor::wrap(v.data(), {far, far}).numel();
                       }),
                       "too"));
}

TEST_CASE("wrap: read-only memory refuses every write, through every view") {
  const std::vector<float> v = counted(6);
  const Tensor x = Tensor::wrap(v.data(), {2, 3});
  const std::vector<Tensor> views = {x,          x[1],         transpose(x, 0, 1),
                                     x.detach(), flip(x, {0}), reshape(x, {6})};
  for (const Tensor& view : views)
    for (const Write& write : kWrites) {
      CHECK_THROWS_WITH_AS(write(view), doctest::Contains("read-only memory"), Error);
      const NoGradGuard guard;
      CHECK_THROWS_WITH_AS(write(view), doctest::Contains("read-only memory"), Error);
    }
  const std::string assigned = error_of([&] { return (x[0] = 1).numel(); });
  CHECK(test::contains(assigned, "read-only memory"));
  CHECK(v == counted(6));
  Tensor copy = x.clone();
  copy += 1;  // is tern's own
}

TEST_CASE("wrap: elements that share memory are read, not written") {
  std::vector<float> v = counted(4);
  for (const Strides& strides : {Strides{0, 1}, Strides{1, 1}, Strides{1, 0}}) {
    const Tensor x = Tensor::wrap(v.data(), {3, 2}, {.strides = strides});
    CHECK(sum(x).item() == sum(x.clone()).item());
    CHECK_THROWS_WITH_AS(x += 1, doctest::Contains("share memory"), Error);
  }
  CHECK_THROWS_WITH_AS(fill_(unfold(zeros({4}), 0, 2, 1), 1), doctest::Contains("share memory"),
                       Error);
  CHECK_NOTHROW(fill_(unfold(zeros({4}), 0, 2, 2), 1));
}

TEST_CASE("wrap: copies between two tensors on one memory read before they write") {
  std::vector<float> v = counted(5);
  copy_(Tensor::wrap(v.data() + 1, {4}), Tensor::wrap(v.data(), {4}));
  CHECK(v == std::vector<float>{0, 0, 1, 2, 3});
  copy_(Tensor::wrap(v.data() + 4, {5}, {.strides = Strides{-1}}), Tensor::wrap(v.data(), {5}));
  CHECK(v == std::vector<float>{3, 2, 1, 0, 0});
  Tensor::wrap(v.data() + 1, {4}) += Tensor::wrap(v.data(), {4});
  CHECK(v == std::vector<float>{3, 5, 3, 1, 0});
  std::array<uint8_t, 16> bytes{1, 2, 3, 4};
  alignas(8) std::array<uint8_t, 16> room = bytes;
  copy_(Tensor::wrap(reinterpret_cast<float*>(room.data()), {4}), Tensor::wrap(room.data(), {4}));
  CHECK(Tensor::wrap(reinterpret_cast<float*>(room.data()), {4}).to_vector<int>() ==
        std::vector<int>{1, 2, 3, 4});
}

TEST_CASE("wrap: the owner is released with the last tensor, and the last graph, that need it") {
  const auto owner = std::make_shared<std::vector<float>>(counted(4));
  Tensor x = Tensor::wrap(owner->data(), {4}, {.owner = owner});
  CHECK(owner.use_count() == 2);
  Tensor view = narrow(x, 0, 1, 2), w = ones({2}).set_requires_grad();
  x = {};
  CHECK(owner.use_count() == 2);
  Tensor y = sum(view * w);
  view = {};
  CHECK(owner.use_count() == 2);  // the product keeps it for its gradient
  y.backward();
  CHECK(owner.use_count() == 1);
  CHECK(w.grad().to_vector<float>() == std::vector<float>{1, 2});

  std::vector<float> v = counted(4);
  int calls = 0;
  {
    const Tensor t = Tensor::wrap(
        v.data(), {4}, {.owner = std::shared_ptr<void>(nullptr, [&](void*) { ++calls; })});
    const Tensor copy = t.clone();
    CHECK(calls == 0);
  }
  CHECK(calls == 1);
  Tensor last = Tensor::wrap(v.data(), {4},
                             {.owner = std::shared_ptr<void>(nullptr, [&](void*) { ++calls; })});
  std::thread([moved = std::move(last)] { CHECK(sum(moved).item() == 6); }).join();
  CHECK(calls == 2);
}

TEST_CASE("wrap: backward notices writes by tern and announced ones") {
  std::vector<float> v = counted(3);
  const Tensor x = Tensor::wrap(v.data(), {3}), w = ones({3}).set_requires_grad();
  const std::vector<std::function<void()>> changes = {
      [&] { x[0] = 8; },
      [&] { x.increment_version(), v[1] = 4; },
      [&] {
        transpose(reshape(x, {3, 1}), 0, 1).increment_version();
      },
  };
  for (const auto& change : changes) {
    const Tensor y = sum(x * w);
    change();
    CHECK_THROWS_WITH_AS(y.backward(), doctest::Contains("written in place"), Error);
  }
  CHECK_NOTHROW(sum(x * w).backward());
  const Tensor constant = Tensor::wrap(std::as_const(v).data(), {3});
  const Tensor y = sum(constant * w);
  constant.increment_version();
  CHECK_THROWS_WITH_AS(y.backward(), doctest::Contains("written in place"), Error);
}

TEST_CASE("wrap: a tensor that requires a gradient follows the rules of in-place writes") {
  std::vector<float> v = counted(3);
  const Tensor x = Tensor::wrap(v.data(), {3}).set_requires_grad();
  CHECK_THROWS_WITH_AS(x[0] = 1, doctest::Contains("NoGradGuard"), Error);
  sum(square(x)).backward();
  CHECK(x.grad().to_vector<float>() == std::vector<float>{0, 2, 4});
  const std::vector<float> constant = counted(3);
  const Tensor c = Tensor::wrap(constant.data(), {3}).set_requires_grad();
  sum(square(c)).backward();
  CHECK(c.grad().to_vector<float>() == std::vector<float>{0, 2, 4});
}

// tern adds to a gradient, and puts results in place of inputs, where no one else holds the memory.
TEST_CASE("wrap: foreign memory is never reused for results") {
  const std::vector<float> before = counted(6);
  std::vector<float> a = before, b = before, c = before;
  {
    Tensor w = ones({2, 3}).set_requires_grad();
    w.set_grad(Tensor::wrap(a.data(), {2, 3}));
    sum(w * 3).backward();
    sum(w * 3).backward();
    CHECK(w.grad().to_vector<float>() == std::vector<float>{6, 7, 8, 9, 10, 11});
  }
  {
    Tensor w = ones({2, 3}).set_requires_grad();
    backward(relu(softmax(w, 1)) + w, {.gradient = Tensor::wrap(b.data(), {2, 3})});
  }
  {
    Tensor y = tanh(mul(Tensor::wrap(c.data(), {2, 3}).set_requires_grad(), 2));
    backward(sum(layer_norm(y, {3})));
  }
  CHECK(a == before);
  CHECK(b == before);
  CHECK(c == before);
}

TEST_CASE("wrap: products in bf16 keep foreign operands as they are, in every way") {
  Rng rng(3);
  const MatmulPrecisionScope bf16(MatmulPrecision::bf16);
  for (const auto& [m, k, n] : {std::array<int64_t, 3>{16, 33, 17}, {71, 1301, 93}, {1, 130, 65}}) {
    const Tensor x = randn({m, k}, rng), w = randn({k, n}, rng);
    const auto gradients = [&](Tensor input, const Tensor& weight) {
      const Tensor leaf = weight.detach().set_requires_grad();
      const Tensor y = matmul(input, leaf);
      input = {};  // tern's own operand is rounded now
      sum(square(y)).backward();
      return std::pair(y, leaf.grad());
    };
    const auto want = gradients(x.clone(), w);
    for (Bf16Way way : bf16_ways())
      for (test::Edge edge : {test::Edge::begin, test::Edge::end}) {
        CAPTURE(to_string(way));
        const Bf16WayScope scope(way);
        const auto got =
            gradients(test::in_foreign_memory(x, edge), test::in_foreign_memory(w, edge));
        CHECK(test::same_bits(got.first, want.first));
        CHECK(test::same_bits(got.second, want.second));
      }
    const auto owner = std::make_shared<std::vector<float>>(x.to_vector<float>());
    const auto got = gradients(Tensor::wrap(owner->data(), x.shape(), {.owner = owner}), w);
    CHECK(test::same_bits(got.second, want.second));
    CHECK(owner.use_count() == 1);
  }
}

// Rounding a whole buffer would read what lies between the rows of a foreign matrix.
TEST_CASE("wrap: nothing is read between elements that lie far apart") {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* mapped =
      mmap(nullptr, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(mapped != MAP_FAILED);
  REQUIRE(mprotect(static_cast<char*>(mapped) + page, page, PROT_NONE) == 0);
  const std::shared_ptr<void> owner(mapped, [page](void* p) { munmap(p, 3 * page); });
  const auto stride = static_cast<int64_t>(2 * page / sizeof(float));
  Tensor x = Tensor::wrap(static_cast<float*>(mapped), {2, 5},
                          {.strides = Strides{stride, 1}, .owner = owner});
  x += 2;
  const Tensor w = ones({5, 3}).set_requires_grad();
  for (MatmulPrecision precision : {MatmulPrecision::f32, MatmulPrecision::bf16}) {
    const MatmulPrecisionScope scope(precision);
    w.zero_grad();
    const Tensor y = sum(matmul(std::exchange(x, Tensor()), w));
    y.backward();
    CHECK(w.grad().to_vector<float>() == std::vector<float>(15, 4));
    x = Tensor::wrap(static_cast<float*>(mapped), {2, 5},
                     {.strides = Strides{stride, 1}, .owner = owner});
  }
}

TEST_CASE("wrap: indices, masks and targets in foreign memory give the same bits") {
  Rng rng(5);
  const Tensor table = randn({9, 7}, rng), x = randn({5, 9}, rng);
  struct Row {
    const char* name;
    Tensor operand;
    std::function<Tensor(const Tensor&, const Tensor&)> fn;  // of x and the operand
  };
  const Tensor index = tensor({3, 0, 8, 8, 1}), mask = tensor({0, 1, 1, 0, 1, 1, 1, 0, 1}) > 0;
  const std::vector<Row> rows = {
      {"embedding", index, [&](auto&, auto& i) { return embedding(i, table); }},
      {"index_select", index, [](auto& x, auto& i) { return index_select(x, 1, i); }},
      {"gather", reshape(index, {5, 1}), [](auto& x, auto& i) { return gather(x, 1, i); }},
      {"scatter_add", reshape(index, {5, 1}),
       [](auto& x, auto& i) { return scatter_add(x, 1, i, narrow(x, 1, 0, 1)); }},
      {"one_hot", index, [](auto& x, auto& i) { return one_hot(i, 9, DType::f32) + x; }},
      {"cross_entropy", index, [](auto& x, auto& i) { return cross_entropy(x, i); }},
      {"where", mask, [](auto& x, auto& m) { return where(m, x, 0); }},
      {"masked_fill", mask, [](auto& x, auto& m) { return masked_fill(x, m, -1); }},
      {"softmax", mask, [](auto& x, auto& m) { return softmax(x, 1, m); }},
      {"cast", mask, [](auto& x, auto& m) { return m.to(DType::f32) * x; }},
      {"sum of u8", mask, [](auto& x, auto& m) { return sum(m) * x; }},
      {"topk of i64", index, [](auto& x, auto& i) { return sum(topk(i, 3).values) + x; }},
  };
  const auto outcome = [&](const Row& row, const Tensor& x, const Tensor& operand) {
    const Tensor leaf = x.detach().set_requires_grad();
    Tensor y = row.fn(leaf, operand);
    if (y.requires_grad()) backward(sum(y * y));
    return std::pair(y, leaf.grad().defined() ? leaf.grad() : zeros({}));
  };
  for (const Row& row : rows) {
    CAPTURE(std::string(row.name));
    const auto want = outcome(row, x, row.operand);
    for (test::Edge edge : {test::Edge::begin, test::Edge::end}) {
      const auto got = outcome(row, test::in_foreign_memory(x, edge),
                               test::in_foreign_memory(row.operand, edge));
      CHECK(test::same_bits(got.first, want.first));
      CHECK(test::same_bits(got.second, want.second));
    }
  }
}

TEST_CASE("wrap: tern neither counts the memory nor returns it") {
  std::vector<float> v = counted(1 << 20);
  trim_memory();
  const MemoryStats before = memory_stats();
  reset_peak_memory();
  {
    const Tensor x = Tensor::wrap(v.data(), {1 << 20});
    CHECK(memory_stats().live == before.live);
    set_memory_cap(memory_stats().live + 1);
    CHECK_NOTHROW(Tensor::wrap(v.data(), {1 << 20}).numel());
    set_memory_cap(0);
  }
  trim_memory();
  CHECK(memory_stats().peak == before.live);
  CHECK(memory_stats().cached == before.cached);
  CHECK(v == counted(1 << 20));
  const ShapeOnlyScope scope;
  const Tensor x = Tensor::wrap(v.data(), {1 << 20});
  CHECK(scope.live_bytes() == 0);
  x += 1;
  CHECK(v[7] == 7);
}

TEST_CASE("wrap: a parameter is trained where it is, and its model's copy is tern's own") {
  Rng rng(4);
  const Tensor start = randn({5, 3}, rng), x = randn({8, 5}, rng);
  const auto train = [&](nn::Parameter& p, int steps) {
    optim::AdamW optimizer(std::vector<Tensor>{p.own()}, {.lr = 0.1});
    const NamedTensors named = {{"p", p.own()}};
    optim::Ema ema(named);
    for (int i = 0; i < steps; ++i) {
      backward(sum(square(matmul(x, p))));
      optim::clip_grad_norm(named, 1);
      optimizer.step();
      optimizer.zero_grad();
      ema.update();
    }
    const optim::EmaScope averaged(ema);
    return p.own().detach().clone();
  };
  nn::Parameter own(start.clone());
  std::vector<float> room(16);
  Tensor::wrap(room.data() + 1, {5, 3}) = start;
  nn::Parameter foreign(Tensor::wrap(room.data() + 1, {5, 3}));
  CHECK(test::same_bits(train(own, 3), train(foreign, 3)));
  CHECK(std::vector<float>(room.begin() + 1, room.end()) == own.own().to_vector<float>());
  CHECK_FALSE(test::same_bits(own, start));
  nn::Parameter copy = foreign;
  train(copy, 1);
  CHECK(test::same_bits(foreign, own));
}

TEST_CASE("wrap: optimizers, averages and load_state refuse read-only memory before they write") {
  const std::vector<float> v = counted(3);
  nn::Parameter first(zeros({3})), second(Tensor::wrap(v.data(), {3}));
  const NamedTensors both = {{"first", first.own()}, {"second", second.own()}};
  optim::AdamW optimizer(std::vector<Tensor>{first.own(), second.own()}, {.lr = 0.1});
  backward(sum(square(first + second)));
  CHECK_THROWS_WITH_AS(optimizer.step(), doctest::Contains("read-only memory"), Error);
  CHECK(test::same(first, zeros({3})));
  CHECK(optimizer.state_dict().empty());
  CHECK_THROWS_WITH_AS(optim::Ema{both}, doctest::Contains("read-only memory"), Error);
  CHECK_THROWS_WITH_AS(load_state("load", both, {{"first", ones({3})}, {"second", ones({3})}}),
                       doctest::Contains("read-only memory"), Error);
  CHECK(test::same(first, zeros({3})));
  second.own().set_requires_grad(false);  // frozen, it may stay where it is
  CHECK_NOTHROW(optimizer.step());
  CHECK(v == counted(3));
}

TEST_CASE("wrap: files are written from foreign memory and read into it") {
  const std::vector<float> v = counted(12);
  const Tensor x = transpose(Tensor::wrap(v.data(), {3, 4}), 0, 1);
  const test::TempDir folder;
  save_safetensors(folder / "x.safetensors", {{{"x", x}}, {}});
  std::vector<float> room(14, -1);
  const Tensor target = Tensor::wrap(room.data() + 1, {4, 3});
  load_state("load", {{"x", target}}, load_tensors(folder / "x.safetensors").tensors,
             {.take = true});
  CHECK(target.data<float>() == room.data() + 1);
  CHECK(test::same(target, x));
  CHECK(room[4] == 1);
  CHECK((room.front() == -1 && room.back() == -1));
}

TEST_CASE("wrap: threads read one tensor and let go of it at the same time") {
  std::atomic<int> calls = 0;
  const std::vector<float> v = counted(1000);
  Tensor x = Tensor::wrap(v.data(), {1000},
                          {.owner = std::shared_ptr<void>(nullptr, [&](void*) { ++calls; })});
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([mine = x] {
      for (int k = 0; k < 50; ++k) CHECK(sum(narrow(mine, 0, k, 100)).item() == 4950 + 100 * k);
    });
  x = {};
  for (std::thread& t : threads) t.join();
  threads.clear();
  CHECK(calls == 1);
}

TEST_CASE("span: the elements where they are, of contiguous tensors of the type asked for") {
  const Tensor x = tensor({1, 2, 3, 4, 5, 6}, {2, 3});
  CHECK(x.span<float>().data() == x.data<float>());
  CHECK(x.span<float>().size() == 6);
  const Tensor row = x[1];
  row.mutable_span<float>()[2] = 9;
  CHECK(x.to_vector<int>() == std::vector<int>{1, 2, 3, 4, 5, 9});
  const Tensor turned = transpose(x, 0, 1);
  CHECK_THROWS_WITH_AS(turned.span<float>(), doctest::Contains("not contiguous"), Error);
  CHECK_THROWS_WITH_AS(turned.mutable_span<float>(), doctest::Contains("not contiguous"), Error);
  CHECK_THROWS_WITH_AS(x.span<double>(), doctest::Contains("f64 was asked for"), Error);
  const Tensor w = ones({2}).set_requires_grad();
  CHECK_THROWS_WITH_AS(w.mutable_span<float>(), doctest::Contains("NoGradGuard"), Error);
}

}  // namespace
}  // namespace tern::test_wrap

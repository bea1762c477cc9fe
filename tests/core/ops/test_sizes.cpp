// Sizes near 2^63: an op gives the right shape or an Error with its name, and no product or sum
// overflows on the way (the build with sanitizers stops at the first that does).
#include <doctest/doctest.h>

#include <functional>
#include <limits>
#include <random>
#include <vector>

#include "tern/core/base/allocator.h"
#include "tern/core/base/rng.h"
#include "tern/core/ops/attention/attention.h"
#include "tern/core/ops/convolution/conv.h"
#include "tern/core/ops/convolution/interpolate.h"
#include "tern/core/ops/convolution/padding.h"
#include "tern/core/ops/convolution/pooling.h"
#include "tern/core/ops/einsum/einsum.h"
#include "tern/core/ops/elementwise/elementary.h"
#include "tern/core/ops/fft/stft.h"
#include "tern/core/ops/ops.h"
#include "tern/core/ops/recurrent/ntm.h"
#include "tern/core/ops/statistics/statistics.h"
#include "tern/core/tape/autograd.h"
#include "tern/nn/init.h"
#include "tern/nn/positions.h"
#include "tern/nn/rnn.h"

namespace tern::test_sizes {
namespace {

constexpr int64_t k40 = int64_t{1} << 40, kMax = std::numeric_limits<int64_t>::max(),
                  kMin = std::numeric_limits<int64_t>::min();

/// Caps the memory, so that a wrongly accepted size fails instead of swapping.
struct SmallMemory {
  SmallMemory() {
    trim_memory();
    set_memory_cap(memory_stats().live + (int64_t{64} << 20));
  }
  ~SmallMemory() { set_memory_cap(0); }
};

/// Checks in 128 bits that the size and the extents of a layout fit 64 bits.
void check_layout(const Layout& l) {
  __int128 elements = 1;
  for (int a = 0; a < l.ndim(); ++a) {
    REQUIRE(l.shape[a] >= 0);
    elements *= std::max<int64_t>(l.shape[a], 1);
    REQUIRE(elements <= kMax);
    __int128 reach = static_cast<__int128>(std::max<int64_t>(l.shape[a] - 1, 0)) * l.strides[a];
    REQUIRE((reach <= kMax && reach >= kMin));
  }
}

/// Random arguments: small numbers, and numbers whose products or sums overflow.
class Draw {
 public:
  explicit Draw(uint64_t seed) : bits_(seed) {}
  int64_t any() {
    // clang-format off
    constexpr int64_t kNumbers[] = {kMin, -kMax, -k40, -3, -1, 0, 1, 2, 3, 4, 1 << 20,
                                    int64_t{1} << 31, k40, int64_t{1} << 61, int64_t{1} << 62,
                                    kMax - 1, kMax};
    // clang-format on
    return kNumbers[bits_() % std::size(kNumbers)];
  }
  int64_t size() {
    constexpr int64_t kSizes[] = {
        0, 0, 1, 1, 2, 3, 1 << 20, int64_t{1} << 31, k40, int64_t{1} << 62, kMax};
    return kSizes[bits_() % std::size(kSizes)];
  }
  int64_t axis() { return static_cast<int64_t>(bits_() % 6) - 3; }
  Dims some(int most) {
    Dims d;
    for (auto n = bits_() % static_cast<unsigned>(most + 1); n > 0; --n) d.push_back(any());
    return d;
  }
  size_t below(size_t n) { return bits_() % n; }

 private:
  std::mt19937_64 bits_;
};

/// An empty tensor of a huge shape, or a single element expanded to it.
Tensor draw_tensor(Draw& draw) {
  Shape shape;
  for (size_t n = 1 + draw.below(4); n > 0; --n) shape.push_back(draw.size());
  return draw.below(2) ? empty(shape) : expand(zeros({}), shape);
}

using Op = std::function<Tensor(const Tensor&, Draw&)>;

// Views, and ops whose result may be empty despite large sizes.
const std::vector<Op> kOps = {
    [](const Tensor& x, Draw& d) { return unsqueeze(x, d.axis()); },
    [](const Tensor& x, Draw& d) { return squeeze(x, d.axis()); },
    [](const Tensor& x, Draw& d) { return expand(x, d.some(4)); },
    [](const Tensor& x, Draw& d) { return slice(x, d.axis(), d.any(), d.any(), d.any()); },
    [](const Tensor& x, Draw& d) { return narrow(x, d.axis(), d.any(), d.any()); },
    [](const Tensor& x, Draw& d) { return select(x, d.axis(), d.any()); },
    [](const Tensor& x, Draw& d) { return diagonal(x, d.any(), d.axis(), d.axis()); },
    [](const Tensor& x, Draw& d) { return unfold(x, d.axis(), d.any(), d.any()); },
    [](const Tensor& x, Draw& d) { return transpose(x, d.axis(), d.axis()); },
    [](const Tensor& x, Draw& d) { return flip(x, d.axis()); },
    [](const Tensor& x, Draw& d) { return flatten(x, d.axis(), d.axis()); },
    [](const Tensor& x, Draw& d) { return unflatten(x, d.axis(), d.some(3)); },
    [](const Tensor& x, Draw& d) { return view(x, d.some(4)); },
    [](const Tensor& x, Draw& d) { return reshape(x, d.some(4)); },
    [](const Tensor& x, Draw& d) { return repeat_interleave(x, d.any(), d.axis()); },
    [](const Tensor& x, Draw& d) { return repeat(x, d.some(4)); },
    [](const Tensor& x, Draw& d) { return tile(x, d.some(4)); },
    [](const Tensor& x, Draw& d) { return pad(x, d.some(4)); },
    [](const Tensor& x, Draw& d) { return roll(x, d.any(), d.axis()); },
    [](const Tensor& x, Draw& d) { return tril(x, d.any()); },
    [](const Tensor& x, Draw&) {
      return cat({x, x, x});
    },
    [](const Tensor& x, Draw&) {
      return stack({x, x, x});
    },
    [](const Tensor& x, Draw&) { return x + unsqueeze(x, 0); },
    [](const Tensor& x, Draw&) { return rearrange(x, "a b ... -> ... (a b)"); },
    [](const Tensor& x, Draw& d) {
      return rearrange(x, "(a b) ... -> a b ...", {{"a", d.any()}, {"b", d.any()}});
    },
    [](const Tensor& x, Draw& d) {
      return repeat(x, "a ... -> (a n) ...", {{"n", d.any()}});
    },
    [](const Tensor& x, Draw& d) {
      return conv2d(x, zeros({1, 1, 2, 3}), {},
                    {.stride = {d.any(), d.any()},
                     .padding = {d.any(), d.any()},
                     .dilation = {d.any(), d.any()},
                     .groups = d.any()});
    },
    [](const Tensor& x, Draw& d) {
      return max_pool2d(x, {.kernel = {d.any(), d.any()},
                            .stride = {d.any(), d.any()},
                            .padding = {d.any(), d.any()}});
    },
    [](const Tensor& x, Draw& d) {
      return max_pool2d(x, {.kernel = 2,
                            .stride = d.any(),
                            .padding = d.any(),
                            .dilation = {d.any(), d.any()},
                            .ceil_mode = true});
    },
    [](const Tensor& x, Draw& d) {
      return avg_pool2d(x, {.stride = d.any(), .padding = d.any(), .ceil_mode = true});
    },
    [](const Tensor& x, Draw& d) {
      return adaptive_avg_pool2d(x, {d.any(), d.any()});
    },
    [](const Tensor& x, Draw& d) {
      return adaptive_max_pool2d(x, {d.any(), d.any()});
    },
    [](const Tensor& x, Draw& d) {
      return conv_transpose2d(x, zeros({x.size(1), 1, 2, 3}), {},
                              {.stride = {d.any(), d.any()},
                               .padding = {d.any(), d.any()},
                               .output_padding = {d.any(), d.any()},
                               .groups = d.any(),
                               .dilation = {d.any(), d.any()}});
    },
    [](const Tensor& x, Draw& d) {
      return unfold(x, {.kernel = {d.any(), d.any()}, .padding = d.any(), .stride = d.any()});
    },
    [](const Tensor& x, Draw& d) {
      return fold(flatten(x, 2), {d.any(), d.any()}, {.kernel = d.any(), .padding = d.any()});
    },
    [](const Tensor& x, Draw& d) {
      return pad(x, {d.any(), d.any(), d.any(), d.any()}, PaddingMode::replicate);
    },
    [](const Tensor& x, Draw& d) {
      return pad(x, {d.any(), d.any()}, PaddingMode::reflect);
    },
    [](const Tensor& x, Draw& d) {
      return pad(x, {d.any(), d.any()}, PaddingMode::circular);
    },
    [](const Tensor& x, Draw& d) {
      return interpolate(x, {.size = {d.any(), d.any()}, .mode = Interpolation::bicubic});
    },
    [](const Tensor& x, Draw& d) {
      return interpolate(x, {.size = d.any(), .mode = Interpolation::area});
    },
    [](const Tensor& x, Draw& d) {
      return interpolate(x, {.scale_factor = static_cast<double>(d.any())});
    },
    [](const Tensor& x, Draw& d) { return pixel_shuffle(x, d.any()); },
    [](const Tensor& x, Draw& d) { return pixel_unshuffle(x, d.any()); },
    [](const Tensor& x, Draw& d) { return glu(x, d.any()); },
    [](const Tensor&, Draw& d) { return arange(d.any(), d.any(), d.any()); },
    [](const Tensor&, Draw& d) { return linspace(0, 1, d.any()); },
    [](const Tensor&, Draw& d) { return eye(d.any(), d.any()); },
    [](const Tensor&, Draw& d) { return zeros(d.some(4)); },
    [](const Tensor&, Draw& d) {
      return one_hot(zeros({0, 2}, DType::i64), d.any());
    },
    [](const Tensor&, Draw& d) {
      Rng rng(0);
      return randint(d.any(), d.any(), {3}, rng);
    },
    [](const Tensor&, Draw& d) { return var(ones({3}), 0, d.any()); },
};

}  // namespace

TEST_CASE("sizes: a shape whose strides overflow is refused, even if empty") {
  const char* many = "too many elements";
  CHECK_THROWS_WITH_AS(zeros({0, k40, k40}), doctest::Contains(many), Error);
  CHECK_THROWS_WITH_AS(zeros({k40, k40, 0}), doctest::Contains(many), Error);
  CHECK_THROWS_WITH_AS(expand(zeros({}), {k40, 0, k40}), doctest::Contains(many), Error);
  CHECK_THROWS_WITH_AS(contiguous_strides({0, k40, k40}), doctest::Contains(many), Error);
  Tensor x = zeros({0, k40, 1 << 20});
  CHECK(x.numel() == 0);
  CHECK(x.strides() == Strides{int64_t{1} << 60, 1 << 20, 1});
}

TEST_CASE("sizes: arguments whose products or sums overflow give an error with the op's name") {
  SmallMemory guard;
  Tensor none = zeros({0, k40}), one = expand(zeros({}), k40);
  auto says = [](const char* what, auto fn) {
    CHECK_THROWS_WITH_AS(static_cast<void>(fn()), doctest::Contains(what), Error);
  };
  says("repeat_interleave: ", [&] { return repeat_interleave(none, k40, 1); });
  says("repeat: ", [&] { return repeat(none, {1, k40}); });
  says("tile: ", [&] { return tile(none, {k40}); });
  says("cat: ", [&] { return cat({expand(zeros({}), kMax), expand(zeros({}), kMax)}); });
  says("pad: ", [&] { return pad(none, {kMax, 0}); });
  says("pad: ", [&] { return pad(none, {kMin, 0}); });
  says("repeat: ", [&] { return repeat(one, "a -> (a b)", {{"b", k40}}); });
  says("rearrange: ", [&] { return rearrange(one, "(a b c) -> a b c", {{"a", k40}, {"b", k40}}); });
  Tensor x = zeros({1, 2, 4, 4}), w = zeros({2, 2, 3, 3});
  says("conv2d: ", [&] { return conv2d(x, w, {}, {.padding = {kMax, 1}}); });
  says("conv2d: ", [&] { return conv2d(x, w, {}, {.dilation = kMax}); });
  says("conv2d: ", [&] { return conv2d(x, w, {}, {.groups = int64_t{1} << 62}); });
  says("max_pool2d: ", [&] { return max_pool2d(x, {.padding = kMax}); });
  says("arange: ", [&] { return arange(kMin, kMax); });
  Rng rng(0);
  says("randint: ", [&] { return randint(kMin, kMax, {2}, rng); });
  says("self_attention: ", [&] { return self_attention(ones({1, 2, 6}), {int64_t{1} << 62}); });
  says("cross_attention: ", [&] {
    return cross_attention(ones({1, 2, 6}), ones({1, 2, 6}), {int64_t{1} << 62});
  });
  says("ntm_step: ",
       [&] { return ntm_step(x, x, {.locations = 1, .width = 3, .reads = int64_t{1} << 62}); });
  says("ntm_reads: ", [&] { return ntm_reads(x, {.locations = k40, .width = k40}); });
  says("polygamma: ", [&] { return polygamma(kMax, x); });
  says("multinomial: ", [&] { return multinomial(zeros({0, 2}), kMax, rng); });
  says("fft::istft: ", [&] { return fft::istft(ones({1, 4, 4, 2}), 7, {.hop = kMax}); });
  says("recurrent network: ",
       [&] { nn::Rnn(1, 1, rng, {.layers = int64_t{1} << 62, .bidirectional = true}); });
  says("positions: ", [&] { return nn::rotary(ones({2, 4}), {.offset = kMax - 1}); });
  says("out of memory", [&] { return nn::alibi_bias(int64_t{1} << 55, 0, 1); });
  says("init: ", [&] { nn::init::fans({2, k40, k40}); });
}

TEST_CASE("sizes: numbers at the limits of i64 give exact results") {
  CHECK(arange(int64_t{1} << 60, (int64_t{1} << 60) + 1).numel() == 1);
  Tensor t = arange(kMax - 2, kMax);
  CHECK(t.to_vector<int64_t>() == std::vector<int64_t>{kMax - 2, kMax - 1});
  CHECK(arange(kMin + 1, kMin, -1).to_vector<int64_t>() == std::vector<int64_t>{kMin + 1});
  CHECK(arange(3, kMin, kMin).to_vector<int64_t>() == std::vector<int64_t>{3, kMin + 3});
  CHECK(roll(arange(0, 4), kMax, 0).to_vector<int>() == std::vector<int>{1, 2, 3, 0});
  CHECK(roll(arange(0, 4), kMin + 1, 0).to_vector<int>() == std::vector<int>{3, 0, 1, 2});
}

TEST_CASE("sizes: a stride beyond the input reads one window and needs no memory of its size") {
  SmallMemory guard;
  Rng rng(3);
  const Tensor x = randn({2, 3, 6, 5}, rng), w = randn({4, 3, 2, 3}, rng);
  const Tensor want = conv2d(x, w, {}, {.stride = 7});
  for (int64_t far : {int64_t{1} << 31, (int64_t{1} << 62) + 1, kMax}) {
    const Tensor got = conv2d(x, w, {}, {.stride = far});
    CHECK(got.to_vector<float>() == want.to_vector<float>());
  }
}

TEST_CASE("sizes: more bytes than a machine can have are refused without overflow") {
  const MemoryStats before = memory_stats();
  for (int64_t n : {kMax / 4, kMax / 8, int64_t{1} << 55})
    CHECK_THROWS_WITH_AS(empty({n}), doctest::Contains("out of memory"), Error);
  CHECK(memory_stats().live == before.live);
  CHECK(memory_stats().cached == before.cached);
}

TEST_CASE("sizes: any op with any numbers gives a valid layout or an Error") {
  SmallMemory guard;
  Draw draw(7);
  int sound = 0;
  for (int trial = 0; trial < 30000; ++trial) {
    try {
      Tensor x = draw_tensor(draw);
      for (int steps = 0; steps < 4; ++steps) {
        const size_t op = draw.below(kOps.size());
        INFO("trial ", trial, ", op ", op, " of shape ", to_string(x.shape()));
        x = kOps[op](x, draw);
        check_layout(x.layout());
        ++sound;
      }
    } catch (const Error&) {
    }
  }
  CHECK(sound > 5000);
}

}  // namespace tern::test_sizes

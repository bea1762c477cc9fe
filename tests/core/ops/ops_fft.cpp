// Fourier transforms against their sums of sines and cosines, for every length and norm.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "tern/core/base/rng.h"
#include "tern/core/ops/fft/fft.h"
#include "tern/core/tape/autograd.h"
#include "tern/tests/core/ops/op_table.h"
#include "tern/tests/support/tensors.h"
#include "tern/tests/support/threads.h"

namespace tern::ops_fft {
namespace {

using test::op, test::Args, test::Array, test::Arrays, test::Doubles, test::for_each_index;

/// The angle of sample j at frequency k. j * k is reduced modulo n, so large products stay exact.
double angle(int64_t j, int64_t k, int64_t n) {
  return 2 * M_PI * static_cast<double>(j * k % n) / static_cast<double>(n);
}

/// rfft, (lines, any) -> (lines, n / 2 + 1, 2): the signal is cropped or padded to n.
Array spectrum_of(const Array& x, int64_t n) {
  Array y({x.shape[0], n / 2 + 1, 2});
  for_each_index({x.shape[0], n / 2 + 1}, [&](const Dims& i) {
    for (int64_t j = 0; j < std::min(n, x.shape[1]); ++j) {
      y.at({i[0], i[1], 0}) += x.at({i[0], j}) * std::cos(angle(j, i[1], n));
      y.at({i[0], i[1], 1}) -= x.at({i[0], j}) * std::sin(angle(j, i[1], n));
    }
  });
  return y;
}

/// irfft, (lines, frequencies, 2) -> (lines, n).
Array signal_of(const Array& y, int64_t n) {
  Array x({y.shape[0], n});
  for_each_index(x.shape, [&](const Dims& i) {
    for (int64_t k = 0; k < std::min(n / 2 + 1, y.shape[1]); ++k) {
      const double times = k == 0 || 2 * k == n ? 1 : 2, a = angle(i[1], k, n);
      x.at(i) += times / static_cast<double>(n) *
                 (y.at({i[0], k, 0}) * std::cos(a) - y.at({i[0], k, 1}) * std::sin(a));
    }
  });
  return x;
}

/// fft or its inverse along axis a of (..., 2), whose sizes become n there.
Array complex_of(const Array& z, int a, int64_t n, bool inverse) {
  Shape shape = z.shape;
  shape[a] = n;
  Array y(shape);
  for_each_index(shape, [&](const Dims& i) {
    const bool imaginary = i.back() == 1;
    for (int64_t j = 0; j < std::min(n, z.shape[a]); ++j) {
      const double turn = (inverse ? 1 : -1) * angle(j, i[a], n);
      Dims re = i;
      re[a] = j;
      re[re.size() - 1] = 0;
      Dims im = re;
      im[im.size() - 1] = 1;
      y.at(i) += imaginary ? z.at(re) * std::sin(turn) + z.at(im) * std::cos(turn)
                           : z.at(re) * std::cos(turn) - z.at(im) * std::sin(turn);
    }
    if (inverse) y.at(i) /= static_cast<double>(n);
  });
  return y;
}

TEST_CASE("op table: fft, ifft, and along several axes") {
  auto line = [](int64_t n, bool inverse) {
    return [=](const Arrays& z) { return complex_of(z[0], 1, n, inverse); };
  };
  auto both = [](bool inverse) {
    return
        [=](const Arrays& z) { return complex_of(complex_of(z[0], 1, 4, inverse), 0, 3, inverse); };
  };
  op("fft", {{3, 4, 2}}, [](const Args& z) { return fft::fft(z[0]); }).equals(line(4, false));
  op("ifft", {{3, 5, 2}}, [](const Args& z) { return fft::ifft(z[0]); }).equals(line(5, true));
  op("fft, cropped", {{2, 5, 2}}, [](const Args& z) {
    return fft::fft(z[0], {.n = 3});
  }).equals(line(3, false));
  op("ifft, padded", {{2, 3, 2}}, [](const Args& z) {
    return fft::ifft(z[0], {.n = 6});
  }).equals(line(6, true));
  op("fft, a large prime", {{2, 3, 2}}, [](const Args& z) {
    return fft::fft(z[0], {.n = 37});
  }).equals(line(37, false));
  op("fft, first axis", {{4, 3, 2}}, [](const Args& z) { return fft::fft(z[0], {.axis = 0}); })
      .no_empty()
      .equals([](const Arrays& z) { return complex_of(z[0], 0, 4, false); });
  op("fft2", {{3, 4, 2}}, [](const Args& z) { return fft::fft2(z[0]); })
      .no_empty()
      .equals(both(false));
  op("ifft2", {{3, 4, 2}}, [](const Args& z) { return fft::ifft2(z[0]); })
      .no_empty()
      .equals(both(true));
  op("rfft2", {{3, 4}}, [](const Args& x) { return fft::rfft2(x[0]); })
      .no_empty()
      .equals([](const Arrays& x) { return complex_of(spectrum_of(x[0], 4), 0, 3, false); });
  op("irfft2", {{3, 4, 2}},
     [](const Args& z) {
       return fft::irfft2(z[0], {.sizes = {3, 5}});
     })
      .no_empty()
      .equals([](const Arrays& z) { return signal_of(complex_of(z[0], 0, 3, true), 5); });
}

TEST_CASE("op table: rfft, irfft") {
  auto forward = [](int64_t n) { return [n](const Args& x) { return fft::rfft(x[0], {.n = n}); }; };
  auto back = [](int64_t n) { return [n](const Args& x) { return fft::irfft(x[0], {.n = n}); }; };
  auto spectrum = [](int64_t n) { return [n](const Arrays& x) { return spectrum_of(x[0], n); }; };
  auto signal = [](int64_t n) { return [n](const Arrays& x) { return signal_of(x[0], n); }; };
  auto columns = [](const Arrays& in) {  // the transform along axis 0
    Array x({in[0].shape[1], in[0].shape[0]});
    for_each_index(x.shape, [&](const Dims& i) { x.at(i) = in[0].at({i[1], i[0]}); });
    Array y = spectrum_of(x, 5), turned({3, x.shape[0], 2});
    for_each_index(turned.shape, [&](const Dims& i) { turned.at(i) = y.at({i[1], i[0], i[2]}); });
    return turned;
  };
  op("rfft", {{3, 8}}, [](const Args& x) { return fft::rfft(x[0]); }).equals(spectrum(8));
  op("rfft, odd", {{3, 5}}, forward(5)).equals(spectrum(5));
  op("rfft, cropped", {{2, 7}}, forward(4)).equals(spectrum(4));
  op("rfft, padded", {{2, 3}}, forward(6)).equals(spectrum(6));
  op("rfft, a large prime", {{2, 5}}, forward(37)).equals(spectrum(37));
  op("rfft, first axis", {{5, 3}}, [](const Args& x) { return fft::rfft(x[0], {.axis = 0}); })
      .no_empty()
      .equals(columns);
  op("irfft", {{3, 4, 2}}, [](const Args& x) { return fft::irfft(x[0]); }).equals(signal(6));
  op("irfft, odd", {{3, 4, 2}}, back(7)).equals(signal(7));
  op("irfft, cropped", {{2, 5, 2}}, back(5)).equals(signal(5));
  op("irfft, padded", {{2, 3, 2}}, back(8)).equals(signal(8));
  op("irfft, a large prime", {{2, 3, 2}}, back(37)).equals(signal(37));
}

TEST_CASE("fft: forward and inverse give the signal, for every length and norm") {
  Rng rng(2);
  std::vector<int64_t> lengths = {97, 127, 128, 210, 1000, 1009, 2 * 1009, 4096, 9 * 11 * 13};
  for (int64_t n = 1; n < 40; ++n) lengths.push_back(n);
  for (int64_t n : lengths) {
    CAPTURE(n);
    Tensor x = randn({3, n}, rng, DType::f64);
    Array want = spectrum_of(test::to_array(x), n);
    Doubles got = fft::rfft(x).to_vector<double>();
    double error = 0;
    for (size_t i = 0; i < got.size(); ++i) error = std::max(error, std::abs(got[i] - want.v[i]));
    CHECK(error <= 1e-14 * 8 * static_cast<double>(n));
    for (fft::Norm norm : {fft::Norm::backward, fft::Norm::ortho, fft::Norm::forward}) {
      Tensor again = fft::irfft(fft::rfft(x, {.norm = norm}), {.n = n, .norm = norm});
      CHECK(all_close(again, x, 1e-12, 1e-12));
      Tensor narrow_one = x.to(DType::f32);
      again = fft::irfft(fft::rfft(narrow_one, {.norm = norm}), {.n = n, .norm = norm});
      CHECK(all_close(again, narrow_one, 1e-5, 3e-6));
    }
  }
  Tensor x = randn({4}, rng, DType::f64);
  CHECK(all_close(fft::rfft(x, {.norm = fft::Norm::ortho}) * 2, fft::rfft(x), 1e-14, 1e-14));
  CHECK(all_close(fft::rfft(x, {.norm = fft::Norm::forward}) * 4, fft::rfft(x), 1e-14, 1e-14));
}

TEST_CASE("fft: several axes are one after the other; inverses, norms and sizes") {
  Rng rng(3);
  const Tensor x = randn({2, 3, 4, 5}, rng, DType::f64), z = stack({x, zeros_like(x)}, -1);
  auto same = [](const Tensor& a, const Tensor& b) {
    CHECK(a.shape() == b.shape());
    CHECK(all_close(a, b, 1e-12, 1e-12));
  };
  const Tensor all = fft::fftn(z);
  Tensor turn = z;
  for (int64_t axis = 0; axis < 4; ++axis) turn = fft::fft(turn, {.axis = axis});
  same(all, turn);
  same(narrow(all, -2, 0, 3), fft::rfftn(x));
  same(narrow(fft::fft2(z), -2, 0, 3), fft::rfft2(x));
  same(fft::fftn(z, {.axes = {0, -2}}), fft::fft(fft::fft(z, {.axis = 0}), {.axis = 2}));
  same(fft::rfftn(x, {.axes = {3, 1}}), fft::fft(fft::rfft(x, {.axis = 1}), {.axis = 3}));
  same(fft::fftn(z, {.sizes = {6, 2}}), fft::fft2(z, {.sizes = {6, 2}}));
  CHECK(fft::rfft2(x, {.sizes = {6, 2}}).shape() == Shape{2, 3, 6, 2, 2});
  for (fft::Norm norm : {fft::Norm::backward, fft::Norm::ortho, fft::Norm::forward}) {
    same(fft::ifftn(fft::fftn(z, {.norm = norm}), {.norm = norm}), z);
    same(fft::ifft2(fft::fft2(z, {.norm = norm}), {.norm = norm}), z);
    same(fft::irfftn(fft::rfftn(x, {.norm = norm}), {.sizes = {2, 3, 4, 5}, .norm = norm}), x);
    same(fft::irfft2(fft::rfft2(x, {.norm = norm}), {.sizes = {4, 5}, .norm = norm}), x);
  }
  same(fft::fft2(z, {.norm = fft::Norm::ortho}) * std::sqrt(20.), fft::fft2(z));
  CHECK(fft::fftfreq(5, 0.5).to_vector<float>() == std::vector<float>{0, 0.4F, 0.8F, -0.8F, -0.4F});
  CHECK(fft::fftfreq(4).to_vector<float>() == std::vector<float>{0, 0.25F, -0.5F, -0.25F});
  CHECK(fft::fftshift(arange(0, 5), 0).to_vector<int>() == std::vector<int>{3, 4, 0, 1, 2});
  CHECK(fft::ifftshift(fft::fftshift(x, {1, 3}), {1, 3}).to_vector<double>() ==
        x.to_vector<double>());
}

TEST_CASE("fft: errors of complex transforms and of several axes") {
  const Tensor z = zeros({3, 4, 2});
  CHECK_THROWS_WITH_AS(fft::fft(zeros({4, 3})), doctest::Contains("stack({x, zeros_like(x)}, -1)"),
                       Error);
  CHECK_THROWS_WITH_AS(fft::fft(z, {.axis = 2}), doctest::Contains("fft::fft"), Error);
  CHECK_THROWS_WITH_AS(fft::ifft(z, {.n = 0}), doctest::Contains("fft::ifft: the length"), Error);
  CHECK_THROWS_WITH_AS(fft::fftn(z, {.axes = {0, -2}}), doctest::Contains("axis 0 occurs twice"),
                       Error);
  CHECK_THROWS_WITH_AS(fft::fftn(z, {.sizes = {4}, .axes = {0, 1}}),
                       doctest::Contains("1 sizes for 2 axes"), Error);
  CHECK_THROWS_WITH_AS(fft::rfftn(zeros({4}), {.sizes = {4, 4}}),
                       doctest::Contains("2 sizes for a tensor with 1 axes"), Error);
  CHECK_THROWS_WITH_AS(fft::fft2(zeros({4, 2})), doctest::Contains("fft::fft2"), Error);
  CHECK_THROWS_WITH_AS(fft::rfft2(zeros({4})), doctest::Contains("fft::rfft2"), Error);
  CHECK_THROWS_WITH_AS(fft::irfft2(zeros({3, 4})), doctest::Contains("fft::irfft2"), Error);
  CHECK_THROWS_WITH_AS(fft::rfftn(zeros({})), doctest::Contains("at least one axis"), Error);
}

TEST_CASE("fft: shapes, ignored elements, frequencies, errors") {
  CHECK(fft::rfft(zeros({2, 6, 3}), {.axis = 1}).shape() == Shape{2, 4, 3, 2});
  CHECK(fft::irfft(zeros({2, 4, 3, 2}), {.axis = 1}).shape() == Shape{2, 6, 3});
  CHECK(fft::irfft(zeros({2, 4, 3, 2}), {.n = 7, .axis = -2}).shape() == Shape{2, 7, 3});
  CHECK(fft::rfft(zeros({0, 6})).shape() == Shape{0, 4, 2});
  CHECK(fft::irfft(zeros({0, 4, 2})).shape() == Shape{0, 6});
  Tensor y = tensor({1, 9, 2, 3, 4, 9}, {3, 2}), same = tensor({1, 0, 2, 3, 4, 0}, {3, 2});
  CHECK(fft::irfft(y).to_vector<float>() == fft::irfft(same).to_vector<float>());
  CHECK(fft::rfftfreq(5, 0.5).to_vector<float>() == std::vector<float>{0, 0.4F, 0.8F});
  CHECK_THROWS_WITH_AS(fft::rfft(zeros({0})), doctest::Contains("fft::rfft: the length"), Error);
  CHECK_THROWS_WITH_AS(fft::irfft(zeros({1, 2})), doctest::Contains("{.n = ...}"), Error);
  CHECK_THROWS_WITH_AS(fft::irfft(zeros({4, 3})), doctest::Contains("last axis is 2"), Error);
  CHECK_THROWS_WITH_AS(fft::rfft(arange(0, 4)), doctest::Contains("f32 or f64"), Error);
  CHECK_THROWS_WITH_AS(fft::rfft(zeros({4}), {.axis = 1}), doctest::Contains("fft::rfft"), Error);
}

TEST_CASE("fft: the sum of a line with an infinite element is infinite") {
  const double inf = std::numeric_limits<double>::infinity();
  CHECK(fft::rfft(tensor({inf, 1})).to_vector<double>() == std::vector<double>{inf, 0, inf, 0});
}

TEST_CASE("fft: a line has the same bits whatever its neighbours are") {
  Rng rng(4);
  const double inf = std::numeric_limits<double>::infinity();
  for (const DType type : {DType::f32, DType::f64})
    for (const int64_t n : {1, 2, 4, 5, 37, 74}) {
      CAPTURE(n);
      const auto check_lines = [&](const Tensor& lines, auto transform) {
        const auto all = test::numbers_of({transform(lines)});
        const size_t size = all.size() / 3;
        const auto first = test::numbers_of({transform(narrow(lines, 0, 0, 1))});
        const std::vector<double> in_all(all.begin(), all.begin() + static_cast<int64_t>(size));
        CHECK(in_all == first);
      };
      const Tensor x = randn({3, n}, rng, type), y = randn({3, n / 2 + 1, 2}, rng, type);
      for (const double factor : {1e17, inf, std::nan("")}) {
        const Tensor scale = tensor({1, factor, factor}, {3, 1}).to(type);
        const auto forward = [](const Tensor& t) { return fft::rfft(t); };
        const auto back = [n](const Tensor& t) { return fft::irfft(t, {.n = n}); };
        const auto gradient = [](auto fn, const Tensor& like) {
          return [fn, like](const Tensor& dy) {
            const Tensor in = narrow(like, 0, 0, dy.size(0)).detach().set_requires_grad();
            return grad({fn(in)}, {in}, {.gradients = {dy}})[0];
          };
        };
        check_lines(x * scale, forward);
        check_lines(y * unsqueeze(scale, 2), back);
        check_lines(y * unsqueeze(scale, 2), gradient(forward, x));
        check_lines(x * scale, gradient(back, y));
      }
    }
}

TEST_CASE("fft: same bits on any number of threads") {
  Rng rng(6);
  Tensor x = randn({301, 210}, rng), p = randn({31, 1009}, rng);
  test::check_threads({3}, [&] {
    const Tensor z = fft::rfft(x);
    return test::numbers_of({fft::irfft(z), fft::irfft(fft::rfft(p)), fft::fft(z), fft::ifft2(z)});
  });
}

}  // namespace
}  // namespace tern::ops_fft

// Matrices of Eigen as tensors and tensors as matrices, as docs/sharing.md shows them. Built where
// Eigen is installed.
#include <tern/tern.h>

#include <Eigen/Core>

using namespace tern;

namespace {

/// The matrix as a tensor (rows, columns), which must not outlive it.
Tensor as_tensor(Eigen::Ref<Eigen::MatrixXf> m) {
  return Tensor::wrap(m.data(), {m.rows(), m.cols()},
                      {.strides = Strides{m.innerStride(), m.outerStride()}});
}

using RowMajor = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// A contiguous tensor (rows, columns) as a matrix, which must not outlive it.
Eigen::Map<const RowMajor> as_matrix(const Tensor& x) {
  return {x.span<float>().data(), x.size(0), x.size(1)};
}

}  // namespace

int main() {
  Eigen::MatrixXf m = Eigen::MatrixXf::Random(3, 4);
  const Tensor x = as_tensor(m);
  x[1] = 0;  // row 1 of m
  const Tensor products = matmul(x, transpose(x, 0, 1));
  const Eigen::VectorXf sums = as_matrix(products).rowwise().sum();
  check(m.row(1).isZero(0) && !m.row(0).isZero(0), "the write");
  check(as_matrix(products).isApprox(m * m.transpose(), 1e-5f), "the products");
  check(sums.isApprox((m * m.transpose()).rowwise().sum(), 1e-5f), "the sums");
  const Tensor part = as_tensor(m.block(0, 1, 2, 2));  // its columns are 3 numbers apart
  check(part[0][1].item<float>() == m(0, 2), "a block");
}

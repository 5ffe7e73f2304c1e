// Matrices of Eigen as buffers.
#if __has_include(<Eigen/Core>)

#include <Eigen/Core>

#include <complex>
#include <string>
#include <vector>

#include "conformance/world.h"
#include "unisono/eigen.h"

using namespace unisono;
using namespace conformance;

namespace {

using Eigen::Map;
using Eigen::MatrixXf;
using Eigen::VectorXf;
using RowMatrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

static_assert(Buffer<MatrixXf&> && Buffer<VectorXf&> && Buffer<Eigen::Array3d&> && Buffer<Eigen::MatrixXcd&>);
static_assert(InBuffer<const MatrixXf&> && !Buffer<const MatrixXf&> && !Buffer<MatrixXf> && !Buffer<const VectorXf&> && !Buffer<VectorXf>);
static_assert(Buffer<Map<MatrixXf>> && Buffer<Map<VectorXf>> && Buffer<Eigen::Ref<MatrixXf>&> && Buffer<decltype(std::declval<MatrixXf&>().col(0))> &&
              Buffer<decltype(std::declval<VectorXf&>().head(1))>);
static_assert(!Buffer<Map<const MatrixXf>&> && !Buffer<Map<const VectorXf>> && !Buffer<Eigen::Ref<const VectorXf>&> &&
              !Buffer<decltype(std::declval<const MatrixXf&>().col(0))> && !Buffer<decltype(std::declval<const VectorXf&>().head(1))>);
static_assert(InBuffer<Map<const MatrixXf>&> && InBuffer<Eigen::Ref<const VectorXf>&>);
static_assert(!InBuffer<decltype(std::declval<MatrixXf&>() + std::declval<MatrixXf&>())>, "an expression has no memory");
static_assert(!InBuffer<Eigen::Matrix<std::string, 2, 2>&>);

/// A matrix of this rank's values, in the order of its memory.
template <class M>
M matrix_of(int rows, int columns, int of) {
  M m(rows, columns);
  for (Eigen::Index i = 0; i < m.size(); ++i) m.data()[i] = value<typename M::Scalar>(of, static_cast<std::size_t>(i));
  return m;
}
template <class M>
std::vector<typename M::Scalar> memory_of(const M& m) {
  return {m.data(), m.data() + m.size()};
}

WORLD_TEST(Eigen, MatricesAndVectorsAreBuffers) {
  const int n = world_size();
  auto columns = matrix_of<MatrixXf>(2, 3, rank());
  all_reduce(columns);
  EXPECT_EQ(memory_of(columns), sums<float>(6, n));
  auto rows = matrix_of<RowMatrix>(2, 3, rank());
  all_reduce(rows, [](float a, float b) { return a + b; });
  EXPECT_EQ(memory_of(rows), sums<float>(6, n));
  EXPECT_EQ(detail::view_of(columns).shape()[0], 3) << "three columns of two elements";
  EXPECT_EQ(detail::view_of(rows).shape()[0], 2) << "two rows of three elements";

  VectorXf vector = VectorXf::Constant(5, static_cast<float>(rank()));
  broadcast(vector, n - 1);
  EXPECT_EQ(vector, VectorXf::Constant(5, static_cast<float>(n - 1)));
  EXPECT_EQ(detail::view_of(vector).shape().size(), 1U);
  Eigen::Matrix2cd fixed;
  fixed << 1, 2, 3, std::complex<double>(0, rank());
  all_reduce(fixed);
  EXPECT_EQ(fixed(1, 1), std::complex<double>(0, n * (n - 1) / 2));
  MatrixXf empty(0, 3);
  all_reduce(empty);

  const auto own = matrix_of<MatrixXf>(2, 2, rank());
  MatrixXf side_by_side(2, 2 * n);
  all_gather(own, side_by_side);
  for (int r = 0; r < n; ++r) EXPECT_EQ(side_by_side.middleCols(2 * r, 2), matrix_of<MatrixXf>(2, 2, r));
}

WORLD_TEST(Eigen, HalvesTravelAsFloat16) {
  Eigen::Matrix<Eigen::half, 3, 1> x;
  x << Eigen::half(1.0F), Eigen::half(0.5F), Eigen::half(static_cast<float>(rank()));
  EXPECT_EQ(detail::view_of(x).dtype(), DType::float16);
  all_reduce(x, ReduceOp::max);
  EXPECT_EQ(static_cast<float>(x(2)), static_cast<float>(world_size() - 1));
}

WORLD_TEST(Eigen, PartsWithoutGapsAreBuffers) {
  const int n = world_size();
  auto m = matrix_of<MatrixXf>(3, 4, rank());
  const MatrixXf before = m;
  const auto sum = sums<float>(12, n);
  all_reduce(m.col(1));
  all_reduce(m.rightCols(2));
  for (Eigen::Index i = 0; i < 12; ++i) EXPECT_EQ(m.data()[i], i < 3 ? before.data()[i] : sum[static_cast<std::size_t>(i)]) << i;

  auto memory = values<float>(6, rank());
  Map<MatrixXf> map(memory.data(), 2, 3);
  all_reduce(map);
  EXPECT_EQ(memory, sums<float>(6, n));
  VectorXf vector = VectorXf::Constant(6, 1);
  Eigen::Ref<VectorXf> middle = vector.segment(2, 2);
  all_reduce(middle);
  all_reduce(vector.tail(1));
  const auto ranks = static_cast<float>(n);
  EXPECT_EQ(memory_of(vector), (std::vector<float>{1, 1, ranks, ranks, 1, ranks}));
}

WORLD_TEST(Eigen, PartsWithGapsAreRefusedAndNothingIsCopied) {
  auto m = matrix_of<MatrixXf>(3, 4, rank());
  const MatrixXf before = m;
  const auto error = thrown_by<InvalidArgument>([&] { all_reduce(m.topRows(2)); });
  EXPECT_NE(error.message().find("an Eigen matrix of {4, 2} elements with strides of {3, 1} is not contiguous"), std::string::npos) << error.what();
  const auto row = thrown_by<InvalidArgument>([&] { all_reduce(m.row(1)); });
  EXPECT_NE(row.message().find("an Eigen vector of {4} elements with strides of {3}"), std::string::npos) << row.what();
  Map<MatrixXf, 0, Eigen::OuterStride<>> map(m.data(), 2, 2, Eigen::OuterStride<>(6));
  EXPECT_THROW(broadcast(map), InvalidArgument);
  EXPECT_EQ(m, before);
  auto rows = matrix_of<RowMatrix>(3, 4, rank());
  all_reduce(rows.row(1));  // here they lie without gaps
  EXPECT_THROW(all_reduce(rows.col(1)), InvalidArgument);
}

}  // namespace

#else

#include <gtest/gtest.h>

TEST(Eigen, MatricesAndVectorsAreBuffers) { GTEST_SKIP() << "Eigen was not found when this was built (package libeigen3-dev)"; }

#endif

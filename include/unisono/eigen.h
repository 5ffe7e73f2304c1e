#pragma once

#include <Eigen/Core>

#include <array>
#include <cstddef>
#include <cstdint>

#include "unisono/detail/dense_view.h"
#include "unisono/tensor.h"

// Dense matrices, arrays and vectors of Eigen are buffers, and so are Map, Ref, Block (block(),
// col(), row(), …) and VectorBlock (head(), segment(), …) of them.
//
// ```cpp
// Eigen::MatrixXd gradients(rows, columns);
// all_reduce(gradients);
// broadcast(gradients.col(0), 0);
// ```
//
// The elements travel in the order of the memory: column by column, unless the type is RowMajor.
// All ranks have the same storage order. all_gather into a matrix therefore puts the ranks' columns
// side by side.
//
// Elements lie without gaps. A part of a matrix that does not, such as a row of a matrix of
// columns, is InvalidArgument, or does not compile where the compiler knows its strides. Nothing is
// copied. Other expressions (a + b, m.transpose(), m.diagonal()) are no buffers: eval() makes a
// matrix of them. Map, Ref, Block and VectorBlock are handles: a temporary or constant one can be
// written to, unless its elements are constant.

namespace unisono {

template <>
struct dtype_of<Eigen::half> : detail::dtype_constant<DType::float16> {};
template <>
struct dtype_of<Eigen::bfloat16> : detail::dtype_constant<DType::bfloat16> {};

namespace detail {

/// A type of Eigen's whose elements are memory, and have a dtype.
template <class T>
concept eigen_memory = Element<typename T::Scalar> &&(static_cast<unsigned>(T::Flags) & Eigen::DirectAccessBit) != 0;

/// The view of an Eigen type's elements: one dimension for a vector, otherwise the columns (of
/// RowMajor: the rows) and the elements of each.
template <class T>
TensorView view_of_eigen(const T& x) {
  using Scalar = typename T::Scalar;
  constexpr auto dtype = dtype_of<Scalar>::value;
  auto* const data = const_cast<Scalar*>(x.data());
  constexpr int inner = static_cast<int>(T::InnerStrideAtCompileTime);
  static_assert(inner == 1 || inner == Eigen::Dynamic || static_cast<int>(T::SizeAtCompileTime) == 1,
                "unisono: there are gaps between the elements of this Eigen type: eval() copies them to a matrix");
  if constexpr (static_cast<bool>(T::IsVectorAtCompileTime)) {
    const std::array<std::int64_t, 1> extent{x.size()}, stride{x.innerStride()};
    return dense_view(data, dtype, extent, stride, "an Eigen vector");
  } else {
    const std::array<std::int64_t, 2> extents{x.outerSize(), x.innerSize()}, strides{x.outerStride(), x.innerStride()};
    return dense_view(data, dtype, extents, strides, "an Eigen matrix");
  }
}

template <class T>
struct eigen_buffer {
  static TensorView view(const T& x) { return view_of_eigen(x); }
};
template <class T>
struct eigen_handle : eigen_buffer<T> {
  static constexpr bool is_handle = true;
};

/// Tells whether the elements of one of Eigen's handles can be written to.
template <class T>
inline constexpr bool is_eigen_lvalue = (static_cast<unsigned>(T::Flags) & Eigen::LvalueBit) != 0;

}  // namespace detail

/// Makes a dense matrix a buffer.
template <class S, int R, int C, int O, int MR, int MC>
requires Element<S>
struct buffer_traits<Eigen::Matrix<S, R, C, O, MR, MC>> : detail::eigen_buffer<Eigen::Matrix<S, R, C, O, MR, MC>> {
};

/// Makes a dense array a buffer.
template <class S, int R, int C, int O, int MR, int MC>
requires Element<S>
struct buffer_traits<Eigen::Array<S, R, C, O, MR, MC>> : detail::eigen_buffer<Eigen::Array<S, R, C, O, MR, MC>> {
};

/// Makes a Map a buffer.
template <class P, int O, class S>
requires detail::eigen_memory<Eigen::Map<P, O, S>>
struct buffer_traits<Eigen::Map<P, O, S>> : detail::eigen_handle<Eigen::Map<P, O, S>> {
};

/// Makes a Ref a buffer.
template <class P, int O, class S>
requires detail::eigen_memory<Eigen::Ref<P, O, S>>
struct buffer_traits<Eigen::Ref<P, O, S>> : detail::eigen_handle<Eigen::Ref<P, O, S>> {
};

/// Makes a block of a matrix a buffer.
template <class X, int R, int C, bool I>
requires detail::eigen_memory<Eigen::Block<X, R, C, I>>
struct buffer_traits<Eigen::Block<X, R, C, I>> : detail::eigen_handle<Eigen::Block<X, R, C, I>> {
};

/// Makes a part of a vector a buffer.
template <class X, int N>
requires detail::eigen_memory<Eigen::VectorBlock<X, N>>
struct buffer_traits<Eigen::VectorBlock<X, N>> : detail::eigen_handle<Eigen::VectorBlock<X, N>> {
};

namespace detail {

template <class P, int O, class S>
inline constexpr bool writable_range<Eigen::Map<P, O, S>> = is_eigen_lvalue<Eigen::Map<P, O, S>>;
template <class P, int O, class S>
inline constexpr bool writable_range<const Eigen::Map<P, O, S>> = is_eigen_lvalue<Eigen::Map<P, O, S>>;
template <class P, int O, class S>
inline constexpr bool writable_range<Eigen::Ref<P, O, S>> = is_eigen_lvalue<Eigen::Ref<P, O, S>>;
template <class P, int O, class S>
inline constexpr bool writable_range<const Eigen::Ref<P, O, S>> = is_eigen_lvalue<Eigen::Ref<P, O, S>>;
template <class X, int R, int C, bool I>
inline constexpr bool writable_range<Eigen::Block<X, R, C, I>> = is_eigen_lvalue<Eigen::Block<X, R, C, I>>;
template <class X, int R, int C, bool I>
inline constexpr bool writable_range<const Eigen::Block<X, R, C, I>> = is_eigen_lvalue<Eigen::Block<X, R, C, I>>;
template <class X, int N>
inline constexpr bool writable_range<Eigen::VectorBlock<X, N>> = is_eigen_lvalue<Eigen::VectorBlock<X, N>>;
template <class X, int N>
inline constexpr bool writable_range<const Eigen::VectorBlock<X, N>> = is_eigen_lvalue<Eigen::VectorBlock<X, N>>;

template <class S, int R, int C, int O, int MR, int MC>
struct element_type<Eigen::Matrix<S, R, C, O, MR, MC>> {
  using type = S;
};
template <class S, int R, int C, int O, int MR, int MC>
struct element_type<Eigen::Array<S, R, C, O, MR, MC>> {
  using type = S;
};
template <class P, int O, class S>
struct element_type<Eigen::Map<P, O, S>> {
  using type = typename P::Scalar;
};
template <class P, int O, class S>
struct element_type<Eigen::Ref<P, O, S>> {
  using type = typename P::Scalar;
};
template <class X, int R, int C, bool I>
struct element_type<Eigen::Block<X, R, C, I>> {
  using type = typename X::Scalar;
};
template <class X, int N>
struct element_type<Eigen::VectorBlock<X, N>> {
  using type = typename X::Scalar;
};

}  // namespace detail

}  // namespace unisono

#pragma once

#include <thrust/device_vector.h>
#include <thrust/host_vector.h>

#include <cstddef>
#include <type_traits>

#include "unisono/detail/dense_view.h"
#include "unisono/tensor.h"

// thrust::host_vector and thrust::device_vector are buffers.
//
// ```cpp
// thrust::device_vector<float> gradients(n);
// all_reduce(gradients);                             // on the device, in the order of the current stream (cuda.h)
// ```
//
// The memory of a device_vector is a CUDA device's if the program is compiled for Thrust's device
// system CUDA, and the host's with the others (CPP, OMP, TBB). Its elements are device_ptr's own
// types: numbers, std::complex and thrust::complex.

namespace unisono {

/// Makes a thrust::host_vector a buffer.
template <class T, class A>
requires Element<T>
struct buffer_traits<thrust::host_vector<T, A>> {
  static TensorView view(thrust::host_vector<T, A>& vector) {
    return {thrust::raw_pointer_cast(vector.data()), dtype_of<T>::value, static_cast<std::size_t>(vector.size())};
  }
};

/// Makes a thrust::device_vector a buffer.
template <class T, class A>
requires Element<T>
struct buffer_traits<thrust::device_vector<T, A>> {
  static TensorView view(thrust::device_vector<T, A>& vector) {
    T* const data = thrust::raw_pointer_cast(vector.data());
#if THRUST_DEVICE_SYSTEM == THRUST_DEVICE_SYSTEM_CUDA
    const std::int64_t shape[] = {static_cast<std::int64_t>(vector.size())};
    return {data, dtype_of<T>::value, shape, {}, detail::cuda_device_of(data)};
#else
    return {data, dtype_of<T>::value, static_cast<std::size_t>(vector.size())};
#endif
  }
};

namespace detail {
template <class T, class A>
struct element_type<thrust::host_vector<T, A>> {
  using type = T;
};
template <class T, class A>
struct element_type<thrust::device_vector<T, A>> {
  using type = T;
};
}  // namespace detail

}  // namespace unisono

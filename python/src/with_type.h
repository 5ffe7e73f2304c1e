#pragma once

#include <complex>
#include <cstdint>
#include <utility>

#include "unisono/tensor.h"

namespace unisono::python {

/// f(the C++ type of the dtype).
template <class F>
auto with_type(DType dtype, F&& f) {
  // NOLINTBEGIN(bugprone-branch-clone): each branch calls it with another type
  switch (dtype) {
    case DType::boolean: return f(bool());
    case DType::int8: return f(std::int8_t());
    case DType::int16: return f(std::int16_t());
    case DType::int32: return f(std::int32_t());
    case DType::int64: return f(std::int64_t());
    case DType::uint8: return f(std::uint8_t());
    case DType::uint16: return f(std::uint16_t());
    case DType::uint32: return f(std::uint32_t());
    case DType::uint64: return f(std::uint64_t());
    case DType::float16: return f(float16());
    case DType::bfloat16: return f(bfloat16());
    case DType::float32: return f(float());
    case DType::float64: return f(double());
    case DType::complex64: return f(std::complex<float>());
    case DType::complex128: break;
  }
  // NOLINTEND(bugprone-branch-clone)
  return f(std::complex<double>());
}

}  // namespace unisono::python

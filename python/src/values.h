#pragma once

#include <nanobind/nanobind.h>

#include <array>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "unisono/reduce_op.h"
#include "unisono/tensor.h"

namespace unisono::python {

namespace nb = nanobind;

/// One element: a bool, an int (int64), a float (float64), a complex (complex128), or a number of NumPy, of its own dtype.
class Value {
 public:
  /// Whether the object is such a number.
  static bool is_value(nb::handle object);
  /// InvalidArgument for what is none, and for an int that int64 does not hold.
  Value(nb::handle object, const char* operation);

  TensorView view() { return {bytes_.data(), dtype_, std::size_t{1}}; }
  DType dtype() const { return dtype_; }
  /// The number as it is now, of the type that was given.
  nb::object object() const { return object_from(bytes_.data()); }
  /// The same of elements of this dtype elsewhere.
  nb::object object_from(const void* element) const;
  /// InvalidArgument for an int of Python of which so many, combined, may need more than the 64 bits in which they travel. Numbers of NumPy wrap, as
  /// they do there.
  void check_result_fits(ReduceOp op, std::size_t ranks, const char* operation) const;

 private:
  alignas(16) std::array<std::byte, 16> bytes_{};
  DType dtype_ = DType::float64;
  bool is_numpy_ = false;
};

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

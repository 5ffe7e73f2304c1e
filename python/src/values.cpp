#include "values.h"

#include <nanobind/stl/string.h>

#include <complex>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>

#include "buffer.h"
#include "failure.h"
#include "imports.h"

namespace unisono::python {
namespace {

template <class T>
T read(const void* element) {
  T x;
  std::memcpy(&x, element, sizeof x);
  return x;
}

/// Whether so many numbers of this size have a sum or product within the 63 bits.
bool fits(std::uint64_t size, ReduceOp op, std::size_t ranks) {
  constexpr auto largest = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (op == ReduceOp::sum || op == ReduceOp::avg) return size <= largest / ranks;
  if (op != ReduceOp::product || size <= 1) return true;
  std::uint64_t product = 1;
  for (std::size_t r = 0; r < ranks; ++r) {
    if (size > largest / product) return false;
    product *= size;
  }
  return true;
}

}  // namespace

bool Value::is_value(nb::handle object) {
  PyObject* const x = object.ptr();
  return PyFloat_Check(x) || PyLong_Check(x) || PyComplex_Check(x) || is_numpy_scalar(object);
}

Value::Value(nb::handle object, const char* operation) {
  PyObject* const x = object.ptr();
  const auto keep = [&](DType dtype, const auto& element) {
    dtype_ = dtype;
    std::memcpy(bytes_.data(), &element, sizeof element);
  };
  if (is_numpy_scalar(object)) {  // numpy.float64 is a float as well
    const nb::object array = imported("numpy").attr("asarray")(object);
    const Buffer buffer(array, Use::read, operation);
    dtype_ = buffer.view().dtype();
    is_numpy_ = true;
    std::memcpy(bytes_.data(), buffer.view().data(), size_of(dtype_));
  } else if (PyBool_Check(x)) {
    keep(DType::boolean, x == Py_True);
  } else if (PyLong_Check(x)) {
    int overflow = 0;
    const long long number = PyLong_AsLongLongAndOverflow(x, &overflow);
    if (number == -1 && overflow == 0 && PyErr_Occurred() != nullptr) throw nb::python_error();
    if (overflow != 0) throw_invalid(operation, "an int travels as int64, and this one does not fit", "all_gather_object takes ints of any size");
    keep(DType::int64, static_cast<std::int64_t>(number));
  } else if (PyFloat_Check(x)) {
    keep(DType::float64, PyFloat_AsDouble(x));
  } else if (PyComplex_Check(x)) {
    keep(DType::complex128, std::complex<double>(PyComplex_RealAsDouble(x), PyComplex_ImagAsDouble(x)));
  } else {
    throw_invalid(operation, "a number is meant, or a buffer, and this is a " + kind_name(object),
                  "other objects travel by the object calls (all_gather_object, …)");
  }
}

void Value::check_result_fits(ReduceOp op, std::size_t ranks, const char* operation) const {
  if (is_numpy_ || dtype_ != DType::int64 || ranks == 1) return;
  const auto number = read<std::int64_t>(bytes_.data());
  const std::uint64_t size = number < 0 ? 0 - static_cast<std::uint64_t>(number) : static_cast<std::uint64_t>(number);
  if (fits(size, op, ranks)) return;
  throw_invalid(operation,
                "an int travels in 64 bits, and the " + std::string(op == ReduceOp::product ? "product" : "sum") + " of " + std::to_string(ranks) +
                    " ints as large as " + std::to_string(number) + " needs more",
                "all_gather_object takes ints of any size, mean averages them exactly, and a number of NumPy wraps");
}

nb::object Value::object_from(const void* element) const {
  if (is_numpy_) {
    const nb::object array = empty_array(dtype_, {});
    const Buffer buffer(array, Use::write, "");
    std::memcpy(buffer.view().data(), element, size_of(dtype_));
    return array[nb::tuple()];
  }
  switch (dtype_) {
    case DType::boolean: return nb::bool_(read<std::uint8_t>(element) != 0);
    case DType::int64: return nb::steal(PyLong_FromLongLong(read<std::int64_t>(element)));
    case DType::float64: return nb::steal(PyFloat_FromDouble(read<double>(element)));
    default: {
      const auto z = read<std::complex<double>>(element);
      return nb::steal(PyComplex_FromDoubles(z.real(), z.imag()));
    }
  }
}

}  // namespace unisono::python

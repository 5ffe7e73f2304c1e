// The names that Python's libraries have for the element types, and new arrays of them.

#include <nanobind/stl/string.h>

#include <bit>
#include <string>

#include "buffer.h"
#include "failure.h"
#include "imports.h"

namespace unisono::python {
namespace {

std::optional<DType> number(char kind, Py_ssize_t size) {
  switch (kind) {
    case 'i':
      if (size == 1) return DType::int8;
      if (size == 2) return DType::int16;
      if (size == 4) return DType::int32;
      if (size == 8) return DType::int64;
      break;
    case 'u':
      if (size == 1) return DType::uint8;
      if (size == 2) return DType::uint16;
      if (size == 4) return DType::uint32;
      if (size == 8) return DType::uint64;
      break;
    case 'f':
      if (size == 2) return DType::float16;
      if (size == 4) return DType::float32;
      if (size == 8) return DType::float64;
      break;
    case 'c':
      if (size == 8) return DType::complex64;
      if (size == 16) return DType::complex128;
      break;
    case 'b':
      if (size == 1) return DType::boolean;
      break;
    default: break;
  }
  return std::nullopt;
}

constexpr char own_order = std::endian::native == std::endian::little ? '<' : '>';

}  // namespace

std::optional<DType> dtype_of_format(const char* format, Py_ssize_t item_size) {
  if (format == nullptr) return DType::uint8;
  if (*format == '@' || *format == '=' || *format == own_order ||
      (item_size == 1 && (*format == '<' || *format == '>' || *format == '!' || *format == '|')))
    ++format;
  if (*format == 'Z' && format[1] != '\0' && format[2] == '\0') {
    return format[1] == 'f' || format[1] == 'd' ? number('c', item_size) : std::nullopt;
  }
  if (*format == '\0' || format[1] != '\0') return std::nullopt;
  switch (*format) {
    case '?': return number('b', item_size);
    case 'b':
    case 'h':
    case 'i':
    case 'l':
    case 'q':
    case 'n': return number('i', item_size);
    case 'c':
    case 'B':
    case 'H':
    case 'I':
    case 'L':
    case 'Q':
    case 'N': return number('u', item_size);
    case 'e':
    case 'f':
    case 'd': return number('f', item_size);
    case 'F':  // complex numbers in ctypes of Python 3.14 and newer
    case 'D': return number('c', item_size);
    default: return std::nullopt;
  }
}

std::optional<DType> dtype_of_typestr(std::string_view type) {
  if (type.size() < 3 || (type[0] != own_order && type[0] != '|')) return std::nullopt;
  return number(type[1], std::stoi(std::string(type.substr(2))));
}

const char* numpy_name(DType dtype) {
  switch (dtype) {
    case DType::boolean: return "bool";
    case DType::int8: return "int8";
    case DType::int16: return "int16";
    case DType::int32: return "int32";
    case DType::int64: return "int64";
    case DType::uint8: return "uint8";
    case DType::uint16: return "uint16";
    case DType::uint32: return "uint32";
    case DType::uint64: return "uint64";
    case DType::float16: return "float16";
    case DType::bfloat16: return "bfloat16";
    case DType::float32: return "float32";
    case DType::float64: return "float64";
    case DType::complex64: return "complex64";
    case DType::complex128: return "complex128";
  }
  return "";
}

/// The library that makes the arrays of a call's results.
static nb::handle maker(const char* module, const char* name) {
  try {
    return imported(module);
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_ImportError)) throw;
    throw Unsupported(std::string("a new array is asked for, and ") + name + ", which makes it, is not installed",
                      {.hint = std::string("pip install ") + module + ", or give the output (out=)"});
  }
}

nb::object empty_array(DType dtype, const std::vector<std::int64_t>& shape) {
  const nb::handle np = maker("numpy", "NumPy");
  nb::object name = nb::str(numpy_name(dtype));
  if (dtype == DType::bfloat16) name = maker("ml_dtypes", "ml_dtypes").attr("bfloat16");
  nb::list extents;
  for (const std::int64_t extent : shape) extents.append(extent);
  return np.attr("empty")(nb::tuple(extents), name);
}

nb::object empty_like(nb::handle like, const TensorView& view, const std::vector<std::int64_t>& shape) {
  nb::list extents;
  for (const std::int64_t extent : shape) extents.append(extent);
  if (is_torch_tensor(like)) return like.attr("new_empty")(nb::tuple(extents));
  if (is_jax(like)) {
    const nb::object made = imported("jax.numpy").attr("empty")(nb::tuple(extents), like.attr("dtype"), nb::arg("device") = like.attr("sharding"));
    return made.attr("block_until_ready")();
  }
  if (view.device().type == Device::Type::cuda) {
    return maker("cupy", "CuPy").attr("empty")(nb::tuple(extents), numpy_name(view.dtype()));
  }
  return empty_array(view.dtype(), shape);
}

}  // namespace unisono::python

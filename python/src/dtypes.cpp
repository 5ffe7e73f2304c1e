// The names that Python's libraries have for the element types, and new arrays of them.

#include <nanobind/stl/string.h>

#include <bit>
#include <string>

#include "buffer.h"
#include "failure.h"
#include "imports.h"

namespace unisono::python {
namespace {

constexpr char own_order = std::endian::native == std::endian::little ? '<' : '>';

}  // namespace

std::optional<DType> dtype_of_kind(char kind, std::size_t size) {
  constexpr std::string_view kinds = "biiiiuuuufVffcc";  // of each DType
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    if (const auto dtype = static_cast<DType>(i); kinds[i] == kind && size_of(dtype) == size) return dtype;
  }
  return std::nullopt;
}

std::optional<DType> dtype_of_format(const char* format, Py_ssize_t item_size) {
  if (format == nullptr) return DType::uint8;
  if (*format == '@' || *format == '=' || *format == own_order ||
      (item_size == 1 && (*format == '<' || *format == '>' || *format == '!' || *format == '|')))
    ++format;
  const std::string_view text(format);
  if (text == "Zf" || text == "Zd") return dtype_of_kind('c', static_cast<std::size_t>(item_size));
  constexpr std::string_view formats = "?bhilqncBHILQNefdFD", kinds = "biiiiiiuuuuuuufffcc";  // F and D: in ctypes of Python 3.14 and newer
  const auto known = text.size() == 1 ? formats.find(text[0]) : text.npos;
  return known == text.npos ? std::nullopt : dtype_of_kind(kinds[known], static_cast<std::size_t>(item_size));
}

std::optional<DType> dtype_of_typestr(std::string_view type) {
  if (type.size() < 3 || (type[0] != own_order && type[0] != '|')) return std::nullopt;
  return type[1] == 'V' ? std::nullopt : dtype_of_kind(type[1], std::stoul(std::string(type.substr(2))));
}

const char* numpy_name(DType dtype) { return dtype == DType::boolean ? "bool" : to_string(dtype).data(); }

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

static nb::tuple extents_of(const std::vector<std::int64_t>& shape) {
  nb::list extents;
  for (const std::int64_t extent : shape) extents.append(extent);
  return nb::tuple(extents);
}

nb::object empty_array(DType dtype, const std::vector<std::int64_t>& shape) {
  const nb::handle np = maker("numpy", "NumPy");
  nb::object name = nb::str(numpy_name(dtype));
  if (dtype == DType::bfloat16) name = maker("ml_dtypes", "ml_dtypes").attr("bfloat16");
  return np.attr("empty")(extents_of(shape), name);
}

nb::object empty_like(nb::handle like, const TensorView& view, const std::vector<std::int64_t>& shape) {
  const nb::tuple extents = extents_of(shape);
  if (is_torch_tensor(like)) return like.attr("new_empty")(extents);
  if (is_jax(like)) {
    const nb::object made = imported("jax.numpy").attr("empty")(extents, like.attr("dtype"), nb::arg("device") = like.attr("sharding"));
    return made.attr("block_until_ready")();
  }
  if (view.device().type == Device::Type::cuda) {
    return maker("cupy", "CuPy").attr("empty")(extents, numpy_name(view.dtype()));
  }
  return empty_array(view.dtype(), shape);
}

}  // namespace unisono::python

#include "imports.h"

#include <nanobind/stl/string.h>

#include <array>
#include <cstring>
#include <string>

namespace unisono::python {
namespace {

/// The module if the program has imported it already, null elsewhere.
nb::handle loaded(const char* name) {
  PyObject* const modules = PyImport_GetModuleDict();
  return PyDict_GetItemString(modules, name);  // borrowed, and no error where it is missing
}

/// False where another thread imports the module just now.
bool is_complete(nb::handle module) {
  const nb::object spec = nb::getattr(module, "__spec__", nb::none());
  return spec.is_none() || !nb::cast<bool>(nb::getattr(spec, "_initializing", nb::bool_(false)));
}

bool begins_with(nb::handle type, std::string_view prefix) {
  const nb::object module = nb::getattr(type, "__module__", nb::none());
  if (!PyUnicode_Check(module.ptr())) return false;
  const char* const name = PyUnicode_AsUTF8AndSize(module.ptr(), nullptr);
  if (name == nullptr) {
    PyErr_Clear();
    return false;
  }
  const std::string_view text(name);
  return text.starts_with(prefix) && (text.size() == prefix.size() || text[prefix.size()] == '.' || prefix.back() == '_');
}

/// A type of another library, which is looked for where its module is loaded. What was found stays right: the modules are never unloaded.
struct ForeignType {
  const char* module;
  const char* name;
  nb::handle known = {};

  bool is_of(nb::handle object) {
    if (known.ptr() == nullptr) {
      const nb::handle found = loaded(module);
      if (found.ptr() == nullptr) return false;
      nb::object type = nb::getattr(found, name, nb::none());
      if (type.is_none()) return false;  // it is being imported just now
      known = type.release();
    }
    return PyObject_TypeCheck(object.ptr(), reinterpret_cast<PyTypeObject*>(known.ptr())) != 0;
  }
} ndarray{"numpy", "ndarray"}, masked_array{"numpy.ma", "MaskedArray"}, numpy_scalar{"numpy", "generic"}, torch_tensor{"torch", "Tensor"};

}  // namespace

nb::handle imported(const char* module) {
  if (const nb::handle there = loaded(module); there.ptr() != nullptr && is_complete(there)) return there;
  return nb::module_::import_(module).release();
}

nb::handle numpy() {
  static nb::handle module;
  static bool looked = false;
  if (module.ptr() != nullptr || looked) return module;
  try {
    module = imported("numpy");
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_ImportError)) throw;
  }
  looked = true;
  return module;
}

bool is_ndarray(nb::handle object) { return ndarray.is_of(object); }
bool is_masked_array(nb::handle object) { return is_ndarray(object) && masked_array.is_of(object); }
bool is_numpy_scalar(nb::handle object) { return numpy_scalar.is_of(object); }
bool is_torch_tensor(nb::handle object) { return torch_tensor.is_of(object); }

const dlpack::Exchange* exchange_of(nb::handle object) {
  // The last types asked for: a program has one or two.
  struct Known {
    PyTypeObject* type = nullptr;
    const dlpack::Exchange* exchange = nullptr;
  };
  static std::array<Known, 4> known;
  static std::size_t next = 0;
  PyTypeObject* const type = Py_TYPE(object.ptr());
  for (const Known& entry : known) {
    if (entry.type == type) return entry.exchange;
  }
  Known found{.type = type};
  const nb::object capsule = nb::getattr(nb::handle(reinterpret_cast<PyObject*>(type)), "__dlpack_c_exchange_api__", nb::none());
  if (PyCapsule_IsValid(capsule.ptr(), "dlpack_exchange_api") != 0) {
    const auto* exchange = static_cast<const dlpack::Exchange*>(PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api"));
    if (exchange->version.major == 1) found.exchange = exchange;
  }
  Py_INCREF(reinterpret_cast<PyObject*>(type));  // so that no other type comes to lie there
  known[next++ % known.size()] = found;
  return found.exchange;
}

bool is_jax(nb::handle object) {
  const nb::handle type(reinterpret_cast<PyObject*>(Py_TYPE(object.ptr())));
  return begins_with(type, "jax") || begins_with(type, "jaxlib");
}
bool is_immutable(nb::handle object) {
  return is_jax(object) || begins_with(nb::handle(reinterpret_cast<PyObject*>(Py_TYPE(object.ptr()))), "pyarrow");
}

void* current_stream_of(nb::handle object, int device) {
  nb::object number = nb::none();
  if (is_torch_tensor(object)) {
    number = imported("torch").attr("cuda").attr("current_stream")(device).attr("cuda_stream");
  } else if (begins_with(nb::handle(reinterpret_cast<PyObject*>(Py_TYPE(object.ptr()))), "cupy")) {
    number = imported("cupy").attr("cuda").attr("get_current_stream")().attr("ptr");
  } else if (!is_jax(object)) {  // which does not say; what it hands over is complete
    const nb::object interface = nb::getattr(object, "__cuda_array_interface__", nb::none());
    if (!interface.is_none()) number = interface.attr("get")("stream", nb::none());
  }
  if (number.is_none()) return nullptr;
  const auto address = nb::cast<std::uintptr_t>(number);
  if (address == 1) return nullptr;         // the legacy default stream
  return reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr): Python hands a stream over as a number
}

}  // namespace unisono::python

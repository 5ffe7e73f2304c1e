// What nanobind's functions lack: a __signature__, and one sentence where a call fits no signature, in place of a list of all of them. The linker's
// --wrap (core.cmake) puts the two functions below between nanobind and Python. Neither is on the way of a call that goes well: nanobind sets an
// error where no signature fits, and looks an attribute up where a program asks for it. The package's module _signatures has what is said.

#include <nanobind/nanobind.h>

#include <string_view>

#include "imports.h"

namespace unisono::python {
namespace {

// nanobind's own words, behind the name of the function.
constexpr std::string_view no_signature_fits = "(): incompatible function arguments.";

/// Returns what a function of _signatures returns; null where it raises, with no error left.
nb::object told(const char* function, nb::handle argument) {
  try {
    return imported("unisono._signatures").attr(function)(argument);
  } catch (nb::python_error&) {
    return {};  // nanobind's own text is still better than an error within an error
  }
}

bool is_signature(nb::handle name) { return PyUnicode_CompareWithASCIIString(name.ptr(), "__signature__") == 0; }

}  // namespace
}  // namespace unisono::python

namespace nb = nanobind;

extern "C" {
// Python's functions, and those that nanobind calls by their names.
void python_set_error(PyObject* type, const char* text) __asm__("__real_PyErr_SetString");
PyObject* python_get_attribute(PyObject* self, PyObject* name) __asm__("__real_PyObject_GenericGetAttr");
void set_error(PyObject* type, const char* text) __asm__("__wrap_PyErr_SetString");
PyObject* get_attribute(PyObject* self, PyObject* name) __asm__("__wrap_PyObject_GenericGetAttr");

void set_error(PyObject* type, const char* text) {
  using namespace unisono::python;
  if (type == PyExc_TypeError && std::string_view(text).find(no_signature_fits) != std::string_view::npos) {
    if (const nb::object sentence = told("refusal_of", nb::str(text))) return PyErr_SetObject(type, sentence.ptr());
  }
  python_set_error(type, text);
}

PyObject* get_attribute(PyObject* self, PyObject* name) {
  using namespace unisono::python;
  PyObject* const found = python_get_attribute(self, name);
  if (found != nullptr || !is_signature(name) || PyErr_ExceptionMatches(PyExc_AttributeError) == 0) return found;
  PyErr_Clear();
  nb::object signature = told("signature_of", self);
  if (!signature) PyErr_SetObject(PyExc_AttributeError, name);
  return signature.release().ptr();
}
}

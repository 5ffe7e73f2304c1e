#pragma once

#include <nanobind/nanobind.h>

#include <exception>
#include <memory>
#include <string>
#include <utility>

#include "unisono/error.h"

namespace unisono::python {

namespace nb = nanobind;

/// The name of the object's class.
std::string kind_name(nb::handle object);
[[noreturn]] void throw_invalid(const char* operation, const std::string& what, const char* hint = "");

/// Returns what an object of a class of ours holds. Throws InvalidArgument if its `__init__` was never called, which a subclass can forget.
void check_ready(nb::handle object, const char* operation);
template <class T>
T& content_of(nb::handle object, const char* operation) {
  check_ready(object, operation);
  return *nb::inst_ptr<T>(object);
}

/// Returns a pointer that any thread may drop, with the interpreter lock or without, to something that is destroyed with it. Once the interpreter has
/// ended it is left behind.
template <class T>
std::shared_ptr<T> dropped_locked(std::unique_ptr<T> x) {
  return {x.release(), [](T* last) {
            if (Py_IsInitialized() == 0) return;
            if (const nb::gil_scoped_acquire locked; locked.is_valid()) delete last;
          }};
}

/// A reference to an object that any thread may drop.
class Kept {
 public:
  explicit Kept(nb::object object) : object_(dropped_locked(std::make_unique<nb::object>(std::move(object)))) {}
  /// With the interpreter lock.
  const nb::object& object() const { return *object_; }
  /// What keeps it, for owners that know no Python.
  const std::shared_ptr<nb::object>& owner() const { return object_; }

 private:
  std::shared_ptr<nb::object> object_;
};

/// An exception of Python on its way through the library: its text is the line that Python would print last ("ValueError: bad data"). It becomes
/// itself again where it arrives in Python.
class Raised : public std::exception {
 public:
  /// Takes the exception over. With the interpreter lock.
  explicit Raised(nb::object exception);
  explicit Raised(nb::python_error& error) : Raised(nb::borrow(error.value())) {}
  const char* what() const noexcept override { return text_->c_str(); }
  /// With the interpreter lock.
  const nb::object& exception() const { return kept_.object(); }

 private:
  std::shared_ptr<const std::string> text_;
  Kept kept_;
};

/// A PeerFailed of Python on its way through the library, which knows it as one of its own.
class RaisedPeerFailed : public PeerFailed {
 public:
  /// With the interpreter lock.
  explicit RaisedPeerFailed(nb::object raised);
  const Raised& raised() const { return raised_; }

 private:
  Raised raised_;
};

/// The same as an exception_ptr, and with the type that the library knows it by where the exception is one of ours.
std::exception_ptr as_cpp(nb::handle exception);
/// The name of the error's class, which is the same in Python.
const char* class_of(const Error& error);
/// The exception of Python that stands for what the pointer holds. Its place is the error's own, or else the line that the program is in.
nb::object as_python(const std::exception_ptr& error);

void register_failures();

}  // namespace unisono::python

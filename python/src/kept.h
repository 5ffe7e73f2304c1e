#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <utility>

namespace unisono::python {

namespace nb = nanobind;

/// A reference to an object that any thread may drop, with the interpreter lock or without. Nothing is dropped once the interpreter has ended.
class Kept {
 public:
  explicit Kept(nb::object object)
      : object_(new nb::object(std::move(object)), [](nb::object* kept) {
          if (Py_IsInitialized() != 0) {
            if (const nb::gil_scoped_acquire locked; locked.is_valid()) {
              kept->reset();
            }
          }
          static_cast<void>(kept->release());  // where it could not be dropped, it is left behind
          delete kept;
        }) {}
  /// With the interpreter lock.
  const nb::object& object() const { return *object_; }

 private:
  std::shared_ptr<nb::object> object_;
};

}  // namespace unisono::python

#pragma once

#include <nanobind/nanobind.h>

#include <optional>
#include <vector>

#include "imports.h"
#include "unisono/tensor.h"

namespace unisono::python {

namespace nb = nanobind;

/// What a call does with a buffer. `fill` writes to an array that the call has made, of a library whose arrays nobody else may write to.
enum class Use { read, write, fill };

/// The elements of a Python object, in place: of anything with the buffer protocol, DLPack or __cuda_array_interface__. It keeps them where they are
/// as long as it lives. Made and destroyed with the interpreter lock.
class Buffer {
 public:
  /// InvalidArgument, in the name of the operation, for what is no buffer, has elements of no DType, or is to be written to and read-only.
  Buffer(nb::handle object, Use use, const char* operation);
  ~Buffer();
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&&) = delete;

  const TensorView& view() const { return *view_; }
  nb::handle object() const { return object_; }
  /// The stream of the object's library, of memory of a device.
  const std::optional<void*>& stream() const { return stream_; }
  /// Whether the host has to wait until the device has written to it: its library (JAX) does not say on which streams it will read it.
  bool is_awaited() const { return is_awaited_; }

 private:
  bool take_buffer(Use use, const char* operation);
  bool take_dlpack(Use use, const char* operation);
  bool take_exchange(Use use, const char* operation);
  bool take_cuda_interface(Use use, const char* operation);
  bool take_extension_dtype(Use use, const char* operation);
  void take(const dlpack::Array& array, const char* operation);

  nb::object object_;
  nb::object owner_;  // of what was asked of the object
  Py_buffer bytes_{};
  bool has_bytes_ = false;
  std::optional<TensorView> view_;
  std::optional<void*> stream_;
  bool is_awaited_ = false;
};

/// Whether the object is a buffer: not a number (those of NumPy offer their bytes as well), bytes or text.
bool is_buffer(nb::handle object);

/// The DType of a kind, as NumPy writes it ('b', 'i', 'u', 'f', 'c', and 'V' for bfloat16), and of so many bytes.
std::optional<DType> dtype_of_kind(char kind, std::size_t size);
/// The DType of an element of the buffer protocol ("<f4") or, of a format that NumPy has no code for, nullopt.
std::optional<DType> dtype_of_format(const char* format, Py_ssize_t item_size);
/// NumPy's name of the dtype; bfloat16 is one of ml_dtypes.
const char* numpy_name(DType dtype);

/// A new array of the library of `like` (NumPy's, where that has none of its own), on the same device, with elements that are not initialised. It is
/// for Use::fill.
nb::object empty_like(nb::handle like, const TensorView& view, const std::vector<std::int64_t>& shape);
nb::object empty_array(DType dtype, const std::vector<std::int64_t>& shape);

}  // namespace unisono::python

#include "buffer.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <nanobind/stl/pair.h>

#include <array>
#include <cstdint>
#include <string>
#include <utility>

#include "failure.h"
#include "imports.h"

namespace unisono::python {
namespace {

[[noreturn]] void refuse(const char* operation, const std::string& what, const char* hint = "") { throw_invalid(operation, what, hint); }

/// Returns the alignment of an element, as NumPy has it: a complex number has that of its parts.
std::size_t alignment_of(DType dtype) { return dtype == DType::complex64 || dtype == DType::complex128 ? size_of(dtype) / 2 : size_of(dtype); }

void check_writable(bool is_read_only, Use use, const char* operation) {
  if (is_read_only && use == Use::write)
    refuse(operation, "the buffer is read-only, and the result goes there", "give a copy that can be written to");
}

}  // namespace

bool Buffer::take_buffer(Use use, const char* operation) {
  if (PyObject_GetBuffer(object_.ptr(), &bytes_, PyBUF_STRIDES | PyBUF_FORMAT) != 0) {
    PyErr_Clear();
    return take_extension_dtype(use, operation);
  }
  has_bytes_ = true;
  if (is_masked_array(object_))
    refuse(operation, "an operation takes the elements of a masked array without its mask", "give x.filled(value), or x.data");
  check_writable(bytes_.readonly != 0, use, operation);
  const std::optional<DType> dtype = dtype_of_format(bytes_.format, bytes_.itemsize);
  if (!dtype) {
    if (bytes_.format != nullptr && bytes_.format[0] == 'E' && take_extension_dtype(use, operation)) return true;
    refuse(operation, std::string("no operation is on elements of the format \"") + (bytes_.format == nullptr ? "B" : bytes_.format) + "\"",
           "numbers and booleans in the machine's own byte order are; other objects travel by the object calls (all_gather_object, …)");
  }
  // The memory of an array without elements may be anywhere: that of an empty array.array is a text of the interpreter's.
  if (bytes_.len != 0 && reinterpret_cast<std::uintptr_t>(bytes_.buf) % alignment_of(*dtype) != 0) {
    refuse(operation, "the elements of the buffer are not aligned in memory", "give a copy");
  }
  if (bytes_.ndim == 1 && (bytes_.strides == nullptr || bytes_.strides[0] == bytes_.itemsize || bytes_.shape[0] <= 1)) {
    view_.emplace(bytes_.buf, *dtype, static_cast<std::size_t>(bytes_.len / bytes_.itemsize));
    return true;
  }
  std::vector<std::int64_t> shape(static_cast<std::size_t>(bytes_.ndim)), strides(shape.size());
  for (std::size_t i = 0; i < shape.size(); ++i) {
    shape[i] = bytes_.shape[i];
    if (bytes_.strides == nullptr) continue;
    if (bytes_.strides[i] % bytes_.itemsize != 0) {
      refuse(operation, "the elements of the buffer lie between parts of others (a field of records?)", "give a copy");
    }
    strides[i] = bytes_.strides[i] / bytes_.itemsize;
  }
  if (bytes_.strides == nullptr) view_.emplace(bytes_.buf, *dtype, shape);
  else view_.emplace(bytes_.buf, *dtype, shape, strides);
  return true;
}

// ml_dtypes: NumPy does not hand out the elements of a dtype that it does not know itself. Their bits are those of an integer of the same width.
bool Buffer::take_extension_dtype(Use use, const char* operation) {
  if (!is_ndarray(object_)) return false;
  const nb::object name = object_.attr("dtype").attr("name");
  if (std::string_view(nb::cast<const char*>(name)) != "bfloat16") {
    const auto kind = nb::cast<std::string>(object_.attr("dtype").attr("str"));
    refuse(operation, "no operation is on elements of the dtype " + nb::cast<std::string>(name) + " (" + kind + ")",
           "numbers and booleans in the machine's own byte order are; other objects travel by the object calls (all_gather_object, …)");
  }
  if (has_bytes_) PyBuffer_Release(&bytes_);
  has_bytes_ = false;
  owner_ = object_.attr("view")("uint16");
  Buffer bits(owner_, use, operation);
  const TensorView& view = bits.view();
  view_.emplace(view.data(), DType::bfloat16, view.shape(), view.strides());
  return true;
}

void Buffer::take(const dlpack::Array& array, const char* operation) {
  constexpr std::string_view kinds = "iuf Vcb";  // of DLPack's codes
  const auto [code, bits, lanes] = array.element;
  const std::optional<DType> dtype = lanes == 1 && code < kinds.size() && bits % 8 == 0 ? dtype_of_kind(kinds[code], bits / 8) : std::nullopt;
  if (!dtype) refuse(operation, "no operation is on elements of DLPack's type " + std::to_string(code) + " with " + std::to_string(bits) + " bits");
  Device device;
  switch (array.device.type) {
    case dlpack::cpu:
    case dlpack::cuda_host: break;
    case dlpack::cuda:
    case dlpack::cuda_managed: device = {Device::Type::cuda, array.device.index}; break;
    default: refuse(operation, "no operation is on memory of DLPack's device type " + std::to_string(array.device.type), "copy it to the host");
  }
  void* const data = array.data == nullptr ? nullptr : static_cast<char*>(array.data) + array.byte_offset;
  const auto n = static_cast<std::size_t>(array.dimensions);
  if (array.strides == nullptr) view_.emplace(data, *dtype, std::span<const std::int64_t>(array.shape, n), std::span<const std::int64_t>(), device);
  else view_.emplace(data, *dtype, std::span<const std::int64_t>(array.shape, n), std::span<const std::int64_t>(array.strides, n), device);
}

// The quick way: no call in Python, and no capsule. The array lasts as long as the object, which is kept.
bool Buffer::take_exchange(Use use, const char* operation) {
  static_cast<void>(use);  // the libraries that offer it have no read-only arrays
  const dlpack::Exchange* const exchange = exchange_of(object_);
  if (exchange == nullptr || exchange->array_of == nullptr) return false;
  dlpack::Array array{};
  if (exchange->array_of(object_.ptr(), &array) != 0) throw nb::python_error();
  take(array, operation);
  void* stream = nullptr;
  if (view_->device().type == Device::Type::cuda && exchange->current_stream(array.device.type, array.device.index, &stream) == 0) stream_ = stream;
  return true;
}

bool Buffer::take_dlpack(Use use, const char* operation) {
  nb::object array = object_;
  const bool is_torch = is_torch_tensor(array);
  if (is_torch && nb::cast<bool>(array.attr("requires_grad"))) array = array.attr("detach")();
  nb::object capsule;
  try {
    capsule = array.attr("__dlpack__")(nb::arg("max_version") = nb::make_tuple(1, 0));
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_TypeError)) throw;
    capsule = array.attr("__dlpack__")();  // before DLPack 1
  }
  owner_ = capsule;
  if (void* const versioned =
          PyCapsule_IsValid(capsule.ptr(), "dltensor_versioned") ? PyCapsule_GetPointer(capsule.ptr(), "dltensor_versioned") : nullptr) {
    const auto* managed = static_cast<dlpack::ManagedVersioned*>(versioned);
    check_writable((managed->flags & dlpack::read_only) != 0, use, operation);
    take(managed->array, operation);
  } else {
    const auto* managed = static_cast<dlpack::Managed*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor"));
    if (managed == nullptr) throw nb::python_error();
    check_writable(is_immutable(object_), use, operation);
    take(managed->array, operation);
  }
  if (view_->device().type == Device::Type::cuda) {
    stream_ = current_stream_of(object_, view_->device().index);
    is_awaited_ = use == Use::fill && is_jax(object_);
  }
  return true;
}

bool Buffer::take_cuda_interface(Use use, const char* operation) {
  nb::object interface = nb::getattr(object_, "__cuda_array_interface__", nb::none());
  if (interface.is_none()) return false;
  const auto entries = nb::cast<nb::dict>(interface);
  const auto data = nb::cast<std::pair<std::uintptr_t, bool>>(entries["data"]);
  check_writable(data.second, use, operation);
  const auto type = nb::cast<std::string>(entries["typestr"]);
  const auto dtype = dtype_of_typestr(type);
  if (!dtype) refuse(operation, "no operation is on elements of the type " + type);
  const auto shape = nb::cast<std::vector<std::int64_t>>(entries["shape"]);
  std::vector<std::int64_t> strides;
  if (entries.contains("strides") && !nb::object(entries["strides"]).is_none()) {
    strides = nb::cast<std::vector<std::int64_t>>(entries["strides"]);
    for (auto& stride : strides) stride /= static_cast<std::int64_t>(size_of(*dtype));
  }
  const nb::object device = nb::getattr(object_, "device", nb::none());
  const nb::object id = device.is_none() ? nb::none() : nb::getattr(device, "id", nb::none());
  void* const first = reinterpret_cast<void*>(data.first);  // NOLINT(performance-no-int-to-ptr): the interface gives an address as a number
  view_.emplace(first, *dtype, shape, strides, Device{Device::Type::cuda, id.is_none() ? 0 : nb::cast<int>(id)});
  stream_ = current_stream_of(object_, view_->device().index);
  return true;
}

Buffer::Buffer(nb::handle object, Use use, const char* operation) : object_(nb::borrow(object)) {
  if (PyObject_CheckBuffer(object.ptr()) ? take_buffer(use, operation) : take_exchange(use, operation)) return;
  if (nb::hasattr(object, "__dlpack__") && take_dlpack(use, operation)) return;
  if (take_cuda_interface(use, operation)) return;
  refuse(operation, "a buffer is meant, and this is a " + kind_name(object),
         "a buffer is an array, a tensor, a bytearray or a memoryview; other objects travel by the object calls (all_gather_object, …)");
}

Buffer::Buffer(Buffer&& other) noexcept
    : object_(std::move(other.object_)),
      owner_(std::move(other.owner_)),
      bytes_(other.bytes_),
      has_bytes_(std::exchange(other.has_bytes_, false)),
      view_(std::move(other.view_)),
      stream_(other.stream_),
      is_awaited_(other.is_awaited_) {}

Buffer::~Buffer() {
  if (has_bytes_) PyBuffer_Release(&bytes_);
}

bool is_buffer(nb::handle object) {
  if (is_ndarray(object)) return true;
  PyObject* const x = object.ptr();
  if (PyFloat_Check(x) || PyLong_Check(x) || PyUnicode_Check(x) || PyBytes_Check(x) || x == Py_None) return false;
  if (PyObject_CheckBuffer(x)) return !is_numpy_scalar(object);
  if (is_torch_tensor(object)) return true;
  return nb::hasattr(object, "__dlpack__") || nb::hasattr(object, "__cuda_array_interface__");
}

}  // namespace unisono::python

// Arrays in memory that every rank of the host can reach.

#include "unisono/shared_memory.h"

#include <cstring>
#include <string>

#include "buffer.h"
#include "docs/shared_memory.h"
#include "failure.h"
#include "imports.h"
#include "module.h"

namespace unisono::python {
namespace {

using namespace nb::literals;

/// Bytes of the pool, as an object with the buffer protocol.
class SharedBytes {
 public:
  explicit SharedBytes(std::size_t n) : size_(n), memory_(shared_resource()->allocate(n == 0 ? 1 : n, alignment)) { std::memset(memory_, 0, n); }
  ~SharedBytes() { shared_resource()->deallocate(memory_, size_ == 0 ? 1 : size_, alignment); }
  SharedBytes(const SharedBytes&) = delete;
  SharedBytes& operator=(const SharedBytes&) = delete;
  void* data() { return memory_; }
  std::size_t size() const { return size_; }

 private:
  static constexpr std::size_t alignment = 64;
  std::size_t size_;
  void* memory_;
};

extern "C" int shared_bytes_buffer(PyObject* self, Py_buffer* view, int flags) {
  if (!nb::inst_ready(nb::handle(self))) {
    PyErr_SetString(PyExc_BufferError, "these SharedBytes have no memory: their __init__ was not called");
    return -1;
  }
  auto& bytes = *nb::inst_ptr<SharedBytes>(nb::handle(self));
  return PyBuffer_FillInfo(view, self, bytes.data(), static_cast<Py_ssize_t>(bytes.size()), 0, flags);
}

PyType_Slot slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(shared_bytes_buffer)}, {0, nullptr}};

bool lies_in_shared_memory(nb::handle x) {
  const Buffer buffer(x, Use::read, "is_shared");
  return buffer.view().is_contiguous() && is_shared(buffer.view().data(), buffer.view().bytes());
}

}  // namespace

void bind_shared_memory(nb::module_& m) {
  nb::class_<SharedBytes>(m, "SharedBytes", nb::type_slots(slots), docs::shared_bytes)
      .def(nb::init<std::size_t>(), "nbytes"_a)
      .def("__len__", &SharedBytes::size);
  m.def("is_shared", &lies_in_shared_memory, "x"_a.none(), nb::sig("def is_shared(x: Buffer) -> bool"), docs::is_shared);
}

}  // namespace unisono::python

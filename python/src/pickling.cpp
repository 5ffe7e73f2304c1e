#include "pickling.h"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "failure.h"
#include "imports.h"
#include "unisono/detail/object_exchange.h"

namespace unisono::python {
namespace {

/// A stream longer than this is a segment itself.
constexpr std::size_t longest_stream = std::size_t{64} << 10;
constexpr std::uint64_t stream_is_segment = std::uint64_t{1} << 63;

/// The buffers of the object that this thread is writing, and how long one has to be to be kept.
struct Collected {
  nb::list* buffers = nullptr;
  std::size_t least = 0;
};
thread_local Collected kept_buffers;

/// Told of each buffer; what it says is whether the stream is to have its contents.
bool goes_into_stream(nb::handle buffer) {
  const nb::object bytes = buffer.attr("raw")();
  if (nb::len(bytes) < kept_buffers.least) return true;
  kept_buffers.buffers->append(bytes);
  return false;
}

/// f(arguments…, names[0]=…, …), where the last arguments are those with names.
nb::object call(nb::handle function, std::initializer_list<PyObject*> arguments, nb::handle names) {
  const std::size_t positional = arguments.size() - nb::len(names);
  PyObject* const result = PyObject_Vectorcall(function.ptr(), arguments.begin(), positional, names.ptr());
  if (result == nullptr) throw nb::python_error();
  return nb::steal(result);
}

nb::object dumped(nb::handle object) {
  static nb::handle known_dumps, known_protocol, known_callback, known_names;
  const nb::handle dumps = made_once(known_dumps, [] { return nb::object(imported("pickle").attr("dumps")); });
  const nb::handle protocol = made_once(known_protocol, [] { return nb::object(nb::int_(5)); });
  const nb::handle callback = made_once(known_callback, [] { return nb::object(nb::cpp_function(&goes_into_stream)); });
  const nb::handle names = made_once(known_names, [] { return nb::object(nb::make_tuple("protocol", "buffer_callback")); });
  return call(dumps, {object.ptr(), protocol.ptr(), callback.ptr()}, names);
}

nb::object loaded(nb::handle stream, nb::handle buffers) {
  static nb::handle known_loads, known_names;
  const nb::handle loads = made_once(known_loads, [] { return nb::object(imported("pickle").attr("loads")); });
  const nb::handle names = made_once(known_names, [] { return nb::object(nb::make_tuple("buffers")); });
  return call(loads, {stream.ptr(), buffers.ptr()}, names);
}

struct Table {
  std::size_t count = 0;
  bool has_stream = false;  // the first segment is the stream
  std::size_t end = 0;      // where it ends in the head
};

Table table_of(std::span<const std::byte> head) {
  std::uint64_t word = 0;
  if (head.size() < sizeof word) throw ProtocolError("the head of an object is too short");
  std::memcpy(&word, head.data(), sizeof word);
  const Table table{.count = static_cast<std::size_t>(word & ~stream_is_segment), .has_stream = (word & stream_is_segment) != 0};
  if (table.count > (head.size() - sizeof word) / sizeof word || (table.has_stream && table.count == 0)) {
    throw ProtocolError("the head of an object has no room for its " + std::to_string(table.count) + " lengths");
  }
  return {.count = table.count, .has_stream = table.has_stream, .end = (1 + table.count) * sizeof word};
}

nb::object view_of(std::span<const std::byte> bytes) {
  return nb::steal(
      PyMemoryView_FromMemory(const_cast<char*>(reinterpret_cast<const char*>(bytes.data())), static_cast<Py_ssize_t>(bytes.size()), PyBUF_READ));
}

}  // namespace

const detail::ObjectType& python_object_type() {
  static const auto& type = *new const detail::ObjectType([] {
    const std::string name(detail::python_object);
    return detail::ObjectType{name, detail::fingerprint_of(name)};
  }());
  return type;
}

Pickled::Pickled(nb::handle object, std::size_t least_segment) {
  try {
    nb::list kept;
    nb::object stream;
    {
      // What an object does while it is written may be to send another one.
      struct Collecting {
        Collected before;
        explicit Collecting(Collected now) : before(std::exchange(kept_buffers, now)) {}
        ~Collecting() { kept_buffers = before; }
      } collecting({&kept, least_segment});
      stream = dumped(object);
    }
    char* text = nullptr;
    Py_ssize_t length = 0;
    if (PyBytes_AsStringAndSize(stream.ptr(), &text, &length) != 0) throw nb::python_error();
    const std::span<const std::byte> written(reinterpret_cast<const std::byte*>(text), static_cast<std::size_t>(length));
    const bool is_long = written.size() > longest_stream;
    if (is_long) {
      stream_ = stream;
      segments_.push_back(written);
    }
    for (const nb::handle each : kept) {
      Py_buffer buffer;
      if (PyObject_GetBuffer(each.ptr(), &buffer, PyBUF_SIMPLE) != 0) throw nb::python_error();
      held_.push_back(buffer);
      segments_.emplace_back(static_cast<const std::byte*>(buffer.buf), static_cast<std::size_t>(buffer.len));
    }
    std::vector<std::uint64_t> table{segments_.size() | (is_long ? stream_is_segment : 0)};
    for (const auto& segment : segments_) {
      table.push_back(segment.size());
      body_size_ += aligned(segment.size());
    }
    const auto bytes = std::as_bytes(std::span(table));
    head_.reserve(bytes.size() + (is_long ? 0 : written.size()));
    head_.assign(bytes.begin(), bytes.end());
    if (!is_long) head_.insert(head_.end(), written.begin(), written.end());
  } catch (nb::python_error& error) {
    error_ = std::make_exception_ptr(Raised(error));
  }
}

Pickled::Pickled(Pickled&& other) noexcept
    : head_(std::move(other.head_)),
      held_(std::exchange(other.held_, {})),
      segments_(std::move(other.segments_)),
      stream_(std::move(other.stream_)),
      body_size_(other.body_size_),
      error_(std::move(other.error_)) {}

Pickled::~Pickled() {
  for (Py_buffer& buffer : held_) PyBuffer_Release(&buffer);
}

bool Pickled::is_read_only(std::size_t segment) const {
  const std::size_t streams = segments_.size() - held_.size();
  return segment < streams || held_[segment - streams].readonly != 0;
}

void Pickled::pack(std::byte* body) const {
  for (const auto& segment : segments_) {
    std::memcpy(body, segment.data(), segment.size());
    std::memset(body + segment.size(), 0, aligned(segment.size()) - segment.size());
    body += aligned(segment.size());
  }
}

std::vector<std::size_t> segment_sizes(std::span<const std::byte> head) {
  const Table table = table_of(head);
  std::vector<std::size_t> sizes;
  for (std::size_t i = 1; i <= table.count; ++i) {
    std::uint64_t size = 0;
    std::memcpy(&size, head.data() + i * sizeof size, sizeof size);
    sizes.push_back(static_cast<std::size_t>(size));
  }
  return sizes;
}

Segments segments_in(std::span<const std::byte> head, std::span<const std::byte> body) {
  Segments segments;
  std::size_t at = 0;
  for (const std::size_t size : segment_sizes(head)) {
    if (size > body.size() || at > body.size() - size) throw ProtocolError("an object is longer than its bytes");
    segments.push_back(body.subspan(at, size));
    at += aligned(size);
  }
  return segments;
}

nb::object unpickled(std::span<const std::byte> head, const std::vector<nb::object>& segments) {
  const Table table = table_of(head);
  nb::list buffers;
  for (std::size_t i = table.has_stream ? 1 : 0; i < segments.size(); ++i) buffers.append(segments[i]);
  const nb::object stream = table.has_stream ? segments.front() : view_of(head.subspan(table.end));
  return loaded(stream, buffers);
}

nb::object unpickled(std::span<const std::byte> head, const Segments& segments) {
  const Table table = table_of(head);
  std::vector<nb::object> own;
  for (const auto& segment : segments) {
    if (table.has_stream && own.empty()) {  // which is read, and not kept
      own.push_back(view_of(segment));
      continue;
    }
    const nb::object memory = new_bytearray(segment.size());
    std::memcpy(data_of(memory), segment.data(), segment.size());
    own.push_back(nb::steal(PyMemoryView_FromObject(memory.ptr())));
  }
  return unpickled(head, own);
}

std::vector<std::byte> packed(const Pickled& object) {
  const std::uint64_t head = object.head().size();
  const std::size_t begin = aligned(sizeof head + object.head().size());
  std::vector<std::byte> bytes(begin + object.body_size());
  std::memcpy(bytes.data(), &head, sizeof head);
  std::memcpy(bytes.data() + sizeof head, object.head().data(), object.head().size());
  object.pack(bytes.data() + begin);
  return bytes;
}

nb::object unpacked(std::span<const std::byte> bytes) {
  std::uint64_t head = 0;
  if (bytes.size() < sizeof head) throw ProtocolError("an object has no head");
  std::memcpy(&head, bytes.data(), sizeof head);
  const std::size_t begin = aligned(sizeof head + static_cast<std::size_t>(std::min<std::uint64_t>(head, bytes.size())));
  if (head > bytes.size() - sizeof head || begin > bytes.size()) throw ProtocolError("the head of an object is longer than its bytes");
  const auto own = bytes.subspan(sizeof head, static_cast<std::size_t>(head));
  return unpickled(own, segments_in(own, bytes.subspan(begin)));
}

nb::object new_bytearray(std::size_t n) {
  PyObject* const bytes = PyByteArray_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(n));
  if (bytes == nullptr) throw nb::python_error();
  return nb::steal(bytes);
}

std::byte* data_of(nb::handle bytearray) { return reinterpret_cast<std::byte*>(PyByteArray_AsString(bytearray.ptr())); }

}  // namespace unisono::python

// The things that a state of Python lists: buffers in place, objects by pickle, and bytes that the program writes and reads itself.

#include "elastic_state.h"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "failure.h"
#include "imports.h"
#include "pickling.h"
#include "signals.h"
#include "unisono/detail/object_type.h"

namespace unisono::python {
namespace {

constexpr const char* operation = "ElasticState";

nb::handle helpers() {
  static nb::handle module;
  return made_once(module, [] { return nb::borrow(imported("unisono._elastic")); });
}

std::string quoted(const std::string& name) { return "\"" + name + "\""; }

/// A buffer that a result may go to. JAX arrays, and arrays that are read-only, are objects: another one takes their place.
bool is_writable_buffer(nb::handle object) {
  if (!is_buffer(object)) return false;
  try {
    static_cast<void>(Buffer(object, Use::write, operation));
    return true;
  } catch (const InvalidArgument&) {
    return false;
  }
}

/// A model, an optimizer, a sampler: what keeps its identity and takes another's state.
bool is_stateful(nb::handle object) {
  return PyType_Check(object.ptr()) == 0 && nb::hasattr(object, "state_dict") && nb::hasattr(object, "load_state_dict");
}

std::vector<std::byte> pickled(nb::handle object) {
  const Pickled own(object);
  if (own.error()) std::rethrow_exception(own.error());
  return packed(own);
}

const detail::ObjectType& state_dict_type() {
  static const detail::ObjectType& type = *new const detail::ObjectType([] {
    const std::string name = "the state_dict of " + python_object_type().name;
    return detail::ObjectType{name, detail::fingerprint_of(name)};
  }());
  return type;
}

/// Fills a list, dict or set anew, which other names of the program's may refer to. False for what is none.
bool refilled(nb::handle container, nb::handle content) {
  PyObject* const x = container.ptr();
  PyObject* const y = content.ptr();
  if (PyList_CheckExact(x) && PyList_CheckExact(y)) {
    if (PyList_SetSlice(x, 0, PY_SSIZE_T_MAX, y) != 0) throw nb::python_error();
  } else if (PyDict_CheckExact(x) && PyDict_CheckExact(y)) {
    PyDict_Clear(x);
    if (PyDict_Update(x, y) != 0) throw nb::python_error();
  } else if (Py_TYPE(x) == &PySet_Type && Py_TYPE(y) == &PySet_Type) {
    if (PySet_Clear(x) != 0) throw nb::python_error();
    container.attr("update")(content);
  } else {
    return false;
  }
  return true;
}

/// The entries of Python are called by the library without the interpreter lock.
template <class F>
auto locked_in_call(F f) {
  return [f = std::move(f)](auto&&... arguments) { return locked([&] { return f(std::forward<decltype(arguments)>(arguments)...); }); };
}

bool is_function(nb::handle object) { return PyCallable_Check(object.ptr()) != 0 && !is_buffer(object); }

}  // namespace

ElasticEntry::ElasticEntry(std::string name, Kind kind, nb::object value, nb::object second)
    : name_(std::move(name)),
      kind_(kind),
      value_(std::move(value)),
      second_(std::move(second)),
      is_function_(kind == Kind::bytes || (kind == Kind::buffer && is_function(value_))) {}

TensorView ElasticEntry::open() {
  release();
  device_ = is_function_ ? nb::object(value_()) : value_;
  held_.emplace(device_, Use::write, "synchronize");
  if (held_->view().device() == Device{}) {
    device_.reset();
  } else if (nb::object host = helpers().attr("to_host")(device_); !host.is_none()) {
    held_.reset();
    held_.emplace(std::move(host), Use::write, "synchronize");
  }
  return held_->view();
}

void ElasticEntry::close(bool is_new) {
  if (device_.is_valid() && is_new) helpers().attr("from_host")(device_, held_->object());
  release();
  if (!second_.is_none()) second_(is_new);
}

void ElasticEntry::release() {
  held_.reset();
  device_.reset();
}

std::vector<std::byte> ElasticEntry::write() const {
  if (kind_ == Kind::object) return pickled(value_);
  if (kind_ == Kind::stateful) return pickled(helpers().attr("state_of")(value_));
  const nb::object written = value_();
  Py_buffer content;
  if (PyObject_GetBuffer(written.ptr(), &content, PyBUF_SIMPLE) != 0) {
    PyErr_Clear();
    throw_invalid("synchronize", "the function that writes " + quoted(name_) + " returned a " + kind_name(written) + ", and bytes are meant");
  }
  const auto* const begin = static_cast<const std::byte*>(content.buf);
  std::vector<std::byte> bytes(begin, begin + content.len);
  PyBuffer_Release(&content);
  return bytes;
}

std::function<void()> ElasticEntry::read(std::span<const std::byte> bytes) {
  if (kind_ != Kind::bytes) return [this, content = Kept(unpacked(bytes))] { locked([&] { take(content.object()); }); };
  nb::object put = second_(nb::bytes(bytes.data(), bytes.size()));
  if (PyCallable_Check(put.ptr()) == 0 && !put.is_none()) {
    throw_invalid("synchronize", "the function that reads " + quoted(name_) + " returned a " + kind_name(put),
                  "it returns a function that puts in place what it has read, or None");
  }
  return [put = Kept(std::move(put))] {
    locked([&] {
      if (!put.object().is_none()) put.object()();
    });
  };
}

void ElasticEntry::take(const nb::object& content) {
  if (kind_ == Kind::stateful) value_.attr("load_state_dict")(content);
  else if (!refilled(value_, content)) value_ = content;
}

void ElasticEntry::assign(nb::object other) {
  if (is_function_) {
    throw_invalid(operation, quoted(name_) + " is listed by functions, and cannot be assigned to");
  }
  if (kind_ == Kind::buffer) static_cast<void>(Buffer(other, Use::write, operation));
  if (kind_ == Kind::stateful && !is_stateful(other)) {
    throw_invalid(operation, "a " + kind_name(other) + " without state_dict and load_state_dict cannot take the place of " + quoted(name_));
  }
  value_ = std::move(other);
}

const detail::ObjectType& ElasticEntry::type() const { return kind_ == Kind::stateful ? state_dict_type() : python_object_type(); }

void ElasticEntry::clear() {
  release();
  value_ = nb::none();
  second_ = nb::none();
}

ElasticEntry& PythonState::new_entry(const std::string& name, ElasticEntry::Kind kind, nb::object value, nb::object second) {
  if (name.empty()) throw_invalid(operation, "each entry of a state must have a name");
  if (find(name) != nullptr) throw_invalid(operation, quoted(name) + " is listed already");
  if (nb::hasattr(nb::type<PythonState>(), name.c_str())) throw_invalid(operation, quoted(name) + " is what each ElasticState has itself");
  entries_.push_back(std::make_unique<ElasticEntry>(name, kind, std::move(value), std::move(second)));
  return *entries_.back();
}

void PythonState::add(const std::string& name, nb::object value) {
  if (is_writable_buffer(value)) add_buffer(name, std::move(value), nb::none());
  else add_object(name, std::move(value));
}

PythonState& PythonState::add_buffer(const std::string& name, nb::object value, nb::object done) {
  if (!is_function(value)) static_cast<void>(Buffer(value, Use::write, operation));
  if (!done.is_none() && PyCallable_Check(done.ptr()) == 0) {
    throw_invalid(operation, "a " + kind_name(done) + " stands where the function is meant that is called at the end");
  }
  ElasticEntry& entry = new_entry(name, ElasticEntry::Kind::buffer, std::move(value), std::move(done));
  state.buffer(name, locked_in_call([&entry] { return entry.open(); }), locked_in_call([&entry](bool is_new) { entry.close(is_new); }));
  return *this;
}

PythonState& PythonState::add_object(const std::string& name, nb::object value) {
  const auto kind = is_stateful(value) ? ElasticEntry::Kind::stateful : ElasticEntry::Kind::object;
  ElasticEntry& entry = new_entry(name, kind, std::move(value));
  state.object(name, entry.type(), locked_in_call([&entry] { return entry.write(); }),
               locked_in_call([&entry](std::span<const std::byte> bytes) { return entry.read(bytes); }));
  return *this;
}

PythonState& PythonState::add_bytes(const std::string& name, nb::object write, nb::object read) {
  if (PyCallable_Check(write.ptr()) == 0 || PyCallable_Check(read.ptr()) == 0) {
    throw_invalid(operation, "bytes are listed by a function that writes them and one that reads them");
  }
  ElasticEntry& entry = new_entry(name, ElasticEntry::Kind::bytes, std::move(write), std::move(read));
  state.bytes(name, locked_in_call([&entry] { return entry.write(); }),
              locked_in_call([&entry](std::span<const std::byte> bytes) { return entry.read(bytes); }));
  return *this;
}

ElasticEntry* PythonState::find(std::string_view name) const {
  const auto found = std::ranges::find(entries_, name, [](const auto& entry) { return std::string_view(entry->name()); });
  return found == entries_.end() ? nullptr : found->get();
}

void PythonState::release() const {
  for (const auto& entry : entries_) entry->release();
}

}  // namespace unisono::python

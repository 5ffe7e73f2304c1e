#include "frames.h"

#include <nanobind/stl/string.h>

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "failure.h"
#include "imports.h"
#include "pickling.h"
#include "plain_data.h"

namespace unisono::python {
namespace {

constexpr std::uint8_t failure_bit = 0x80;
/// The slot of a part that nobody may write to where it has arrived.
constexpr std::uint32_t read_only = 1;

std::byte first_byte(Form form, bool is_failure) { return static_cast<std::byte>(static_cast<std::uint8_t>(form) | (is_failure ? failure_bit : 0)); }

void append(std::vector<std::byte>& body, std::span<const std::byte> bytes) { body.insert(body.end(), bytes.begin(), bytes.end()); }

detail::FramePart part_of(std::span<const std::byte> bytes, std::shared_ptr<void> owner, std::uint32_t slot) {
  return {const_cast<std::byte*>(bytes.data()), bytes.size(), std::move(owner), slot};
}

void add_pickle(detail::Frame& frame, nb::handle x) {
  const auto own = dropped_locked(std::make_unique<Pickled>(x, detail::least_part));
  if (own->error()) std::rethrow_exception(own->error());
  append(frame.body, own->head());
  for (std::size_t i = 0; i < own->segments().size(); ++i) {
    frame.parts.push_back(part_of(own->segments()[i], own, own->is_read_only(i) ? read_only : 0));
  }
}

void add_data(detail::Frame& frame, nb::handle x, const char* operation) {
  auto bytes = std::make_shared<std::vector<std::byte>>(data_of_object(x, operation));
  if (bytes->size() < detail::least_part) append(frame.body, *bytes);
  else frame.parts.push_back(part_of(*bytes, bytes, read_only));
}

}  // namespace

detail::Frame frame_of(nb::handle x, Form form, bool is_failure, const char* operation) {
  detail::Frame frame;
  frame.body.push_back(first_byte(form, is_failure));
  if (form == Form::pickle) add_pickle(frame, x);
  else add_data(frame, x, operation);
  return frame;
}

Form form_of(const detail::Frame& frame) {
  if (frame.body.empty()) throw ProtocolError("a frame of Python is empty");
  const auto form = static_cast<Form>(std::to_integer<std::uint8_t>(frame.body.front()) & ~failure_bit);
  if (form != Form::pickle && form != Form::data) throw ProtocolError("a frame of Python is of an unknown form");
  return form;
}

Received received(const detail::Frame& frame) {
  const Form form = form_of(frame);
  const bool is_failure = (std::to_integer<std::uint8_t>(frame.body.front()) & failure_bit) != 0;
  const std::span<const std::byte> rest = std::span(frame.body).subspan(1);
  if (form == Form::data) {
    const bool is_apart = !frame.parts.empty();
    return {object_of_data(is_apart ? std::span<const std::byte>(frame.parts.front().data, frame.parts.front().bytes) : rest), form, is_failure};
  }
  std::vector<nb::object> segments;
  for (const auto& part : frame.parts) segments.push_back(*std::static_pointer_cast<nb::object>(part.owner));
  if (segments.size() != segment_sizes(rest).size()) throw ProtocolError("a frame of Python has not the parts that it names");
  return {unpickled(rest, segments), form, is_failure};
}

detail::FramePart memory_of_part(std::uint32_t slot, std::size_t bytes) {
  const nb::gil_scoped_acquire locked;
  nb::object memory;
  char* data = nullptr;
  if (slot == read_only) {
    memory = nb::steal(PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(bytes)));
    if (memory.is_valid()) data = PyBytes_AsString(memory.ptr());
  } else {
    memory = nb::steal(PyByteArray_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(bytes)));
    if (memory.is_valid()) data = PyByteArray_AsString(memory.ptr());
  }
  if (data == nullptr) {
    PyErr_Clear();
    throw std::bad_alloc();
  }
  return {reinterpret_cast<std::byte*>(data), bytes, Kept(std::move(memory)).owner(), slot};
}

}  // namespace unisono::python

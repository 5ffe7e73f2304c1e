#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>

#include "unisono/detail/remote_call.h"

// What Python sends with a call, and what comes back, as frames. Their first byte says how the rest is to be read.

namespace unisono::python {

namespace nb = nanobind;

/// How an object lies in a frame.
enum class Form : std::uint8_t {
  pickle,  ///< by pickle, protocol 5: its large buffers are parts
  data,    ///< as data alone (plain_data.h)
};

/// A frame of an object, with the interpreter lock. `is_failure` is passed on. Throws what pickle raises, and InvalidArgument, in the name of the
/// operation, for what is no data. The parts lie in the object's own memory.
detail::Frame frame_of(nb::handle x, Form form, bool is_failure, const char* operation);

/// The object of a frame whose parts lie in `memory_of_part`, with the interpreter lock. It keeps the parts, which are its own.
struct Received {
  nb::object object;
  Form form = Form::pickle;
  bool is_failure = false;
};
/// Returns how it lies there. ProtocolError for a frame that is none of ours.
Form form_of(const detail::Frame& frame);
/// Reads it. ProtocolError for a frame that is none of ours.
Received received(const detail::Frame& frame);

/// Memory for a part, any thread: bytes, or a bytearray where what is made of it may be written to.
detail::FramePart memory_of_part(std::uint32_t slot, std::size_t bytes);

}  // namespace unisono::python

#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <vector>

#include "unisono/detail/object_type.h"
#include "unisono/tensor.h"

// Objects of Python as bytes: pickle with protocol 5, whose large buffers stay where they are until they are sent.
//
// They travel in two parts. The head: how many buffers there are, how long each is, and the stream of pickle. The body: the buffers, each at a
// multiple of 64 bytes, so that what is made of them lies where an array should.

namespace unisono::python {

namespace nb = nanobind;

using Segments = std::vector<std::span<const std::byte>>;

/// What ranks compare before anything is moved. The number goes up with the format.
const detail::ObjectType& python_object_type();

/// An object that is to be sent. With the interpreter lock.
class Pickled {
 public:
  /// A buffer of fewer bytes is copied into the stream: a segment of its own costs more.
  static constexpr std::size_t shortest_segment = std::size_t{8} << 10;
  /// What pickle raises is kept: the other ranks are to learn of it.
  explicit Pickled(nb::handle object, std::size_t least_segment = shortest_segment);
  /// Nothing, because of this.
  explicit Pickled(std::exception_ptr error) : error_(std::move(error)) {}
  Pickled() = default;
  Pickled(Pickled&& other) noexcept;
  Pickled& operator=(Pickled&&) = delete;
  ~Pickled();

  const std::exception_ptr& error() const { return error_; }
  std::span<const std::byte> head() const { return head_; }
  const Segments& segments() const { return segments_; }
  /// Whether what is made of the segment may not be written to. Of the stream: true.
  bool is_read_only(std::size_t segment) const;
  /// Of all segments, with what lies between them; a multiple of 64.
  std::size_t body_size() const { return body_size_; }
  /// Copies the segments to where the body lies. Any thread.
  void pack(std::byte* body) const;

 private:
  std::vector<std::byte> head_;
  std::vector<Py_buffer> held_;
  std::vector<std::span<const std::byte>> segments_;
  nb::object stream_;  // where it is one of the segments
  std::size_t body_size_ = 0;
  std::exception_ptr error_;
};

constexpr std::size_t aligned(std::size_t n) { return (n + 63) / 64 * 64; }

// Nothing below may see a head or a segment that has come from another host before its code was checked (detail::ObjectSeal).

/// The lengths of the segments, from a head that has come. ProtocolError for one that is none.
std::vector<std::size_t> segment_sizes(std::span<const std::byte> head);
/// The segments where they lie in a body. ProtocolError where it is too short for them.
Segments segments_in(std::span<const std::byte> head, std::span<const std::byte> body);
/// The object of a head and its segments, which it may keep: each is a memoryview of memory that nobody else has.
nb::object unpickled(std::span<const std::byte> head, const std::vector<nb::object>& segments);
/// The same of segments of which it gets a copy each, so that an array that is kept keeps no memory but its own.
nb::object unpickled(std::span<const std::byte> head, const Segments& segments);

/// An object as one line of bytes: the length of the head, the head, and the body at the next multiple of 64.
std::vector<std::byte> packed(const Pickled& object);
/// The object of such a line. ProtocolError for one that is none.
nb::object unpacked(std::span<const std::byte> bytes);

// A line of bytes or numbers, as a call takes it.
inline TensorView line(const std::byte* bytes, std::size_t n) { return {const_cast<std::byte*>(bytes), DType::uint8, n}; }
inline TensorView line(std::span<const std::byte> bytes) { return line(bytes.data(), bytes.size()); }
inline TensorView line(std::span<std::uint64_t> numbers) { return {numbers.data(), DType::uint64, numbers.size()}; }

/// Memory for what comes, not initialised.
nb::object new_bytearray(std::size_t n);
std::byte* data_of(nb::handle bytearray);

}  // namespace unisono::python

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "unisono/detail/object_concept.h"
#include "unisono/export.h"
#include "unisono/tensor.h"

namespace unisono {

/// The limits of an object that travels.
struct ObjectLimits {
  /// Bytes of a rank's object, or of the whole list if a list travels. It may be as large as
  /// memory allows.
  std::size_t bytes = std::size_t{1} << 30;
  /// Levels of containers within each other; 1024 at most.
  std::size_t depth = 128;
};

/// Sets the limits of this process for every call from now on. If ranks differ, the smallest
/// `bytes` counts.
///
/// @throws InvalidArgument for limits of 0, and above the largest ones
UNISONO_API void set_object_limits(const ObjectLimits& limits);

/// Returns the limits of this process.
UNISONO_API ObjectLimits object_limits() noexcept;

/// Writes objects one behind the other as MessagePack. Programs meet it in
/// `object_traits<T>::write`, and there call `write`.
///
/// Numbers keep their exact type: integers are written in the format of their width. Numbers that
/// MessagePack has no format for (half, complex) are an extension whose type is the DType, and so
/// are the elements of a vector, all in one.
///
/// @throws InvalidArgument for an object that is larger or deeper than the limits
class UNISONO_API ObjectWriter {
 public:
  /// Makes a writer that holds nothing.
  explicit ObjectWriter(const ObjectLimits& limits = object_limits());
  /// Writes objects of any types, one behind the other.
  template <detail::object... O>
  void write(const O&... objects) {
    (detail::codec<O>::write(*this, objects), ...);
  }

  // The parts that objects are made of; codecs call them. array(n) and map(n) are followed by n
  // values, or n keys with their values.
  void nil();
  void number(DType dtype, const void* value);
  void extended(const long double& value);
  void string(std::string_view text);
  void bytes(std::span<const std::byte> bytes);
  void block(DType dtype, const void* elements, std::size_t count);
  void array(std::size_t n);
  void map(std::size_t n);
  /// Begins an array whose length is known when it ends.
  std::size_t open();
  void close(std::size_t mark);

  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  struct Frame {
    std::size_t left;  // values to come; of an open array: values so far
    std::size_t at;    // where an open array begins
    bool open;
  };
  class Sink;
  void value(std::size_t payload);
  void enter(Frame frame);

  ObjectLimits limits_;
  std::vector<std::byte> bytes_;
  std::vector<Frame> frames_;
};

/// Reads what an ObjectWriter wrote. Programs meet it in `object_traits<T>::read`, and there call
/// `read`.
///
/// Nothing is converted: another type than was written is Mismatch. Bytes that are not such a message,
/// or end early, are ProtocolError; a length is compared with the bytes that are left before anything
/// is allocated for it. The views that it returns last as long as the bytes.
class UNISONO_API ObjectReader {
 public:
  /// Reads from these bytes. InvalidArgument for more bytes than the limit.
  explicit ObjectReader(std::span<const std::byte> bytes, const ObjectLimits& limits = object_limits());
  /// Reads the next object.
  template <detail::object O>
  O read() {
    return detail::codec<O>::read(*this);
  }

  void nil();
  void number(DType dtype, void* value);
  void extended(long double& value);
  std::string_view string();
  std::span<const std::byte> bytes();
  std::span<const std::byte> block(DType dtype);  ///< whole elements, at any address
  std::size_t array();
  std::size_t map();
  void array_of(std::size_t n);  ///< ProtocolError for another length
  std::size_t open();            ///< an array that is read to its end, and not beyond, before close
  void close(std::size_t mark);

  /// Returns the number of bytes that are still to be read.
  std::size_t bytes_left() const noexcept { return bytes_.size() - at_; }
  [[noreturn]] void refuse(std::string_view what) const;  ///< ProtocolError, saying where
  /// Ends the reading. ProtocolError if something is left.
  void finish() const;

 private:
  struct Frame {
    std::size_t left;
    bool closed;
  };
  struct Piece;
  std::uint8_t format();
  std::span<const std::byte> take(std::size_t n);
  std::uint64_t length(int width);
  std::size_t wide_length(std::uint8_t expected, std::string_view asked);
  Piece ext();
  std::size_t container(std::size_t n, std::size_t values_each);
  [[noreturn]] void another(std::string_view asked, std::uint8_t found) const;

  ObjectLimits limits_;
  std::span<const std::byte> bytes_;
  std::size_t at_ = 0;
  std::vector<Frame> frames_;
};

}  // namespace unisono

#pragma once

#include <c10/core/ScalarType.h>
#include <c10/util/ArrayRef.h>
#include <c10/util/DimVector.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// The bytes that a controller and a worker exchange for remote tensors. Integers take seven bits a byte, since most of them are small: a command for
// an operator of two matrices has about 40 bytes.

namespace unisono::libtorch {

/// The function of a worker that carries out commands.
inline constexpr const char* command_name = "torch.remote";
inline constexpr const char* command_signature = "(command) -> answer";

/// What a worker is asked to do.
enum class Command : std::uint8_t {
  nothing,      ///< but drop storages
  synchronize,  ///< say whether something has failed
  carry_out,    ///< an operator
  fetch,        ///< the elements of a tensor
  store,        ///< elements into a tensor
  send,         ///< a tensor to another worker
  receive,      ///< a tensor from another worker
  collective,   ///< among all workers
  seed,         ///< a generator, with this number
  get_state,    ///< of a generator
  set_state,    ///< of a generator
};

/// The value that follows in the description of an argument.
enum class Tag : std::uint8_t {
  none,
  undefined,   ///< a tensor without a value
  tensor,      ///< of the worker
  cpu_scalar,  ///< a tensor without dimensions on the controller's cpu
  integer,
  real,
  complex,
  boolean,
  text,
  integers,
  reals,
  booleans,
  list,        ///< of values of any kind, each with its tag
  own_device,  ///< the worker's
  generator,
};

/// Properties of a tensor beside its geometry, as bits.
enum Flag : std::uint8_t { wrapped_number = 1, conjugate = 2, negative = 4 };

/// A tensor's place in its storage.
struct Geometry {
  at::ScalarType dtype = at::kFloat;
  at::DimVector sizes, strides;
  std::int64_t offset = 0;  // in elements

  bool operator==(const Geometry&) const = default;
};

/// Writes values one behind the other.
class WireWriter {
 public:
  void byte(std::uint8_t value) { bytes_.push_back(std::byte{value}); }
  template <class Enum>
  requires std::is_enum_v<Enum>
  void code(Enum value) { byte(static_cast<std::uint8_t>(value)); }
  void number(std::uint64_t value) {
    for (; value >= 128; value >>= 7) byte(static_cast<std::uint8_t>(value | 128));
    byte(static_cast<std::uint8_t>(value));
  }
  /// A number that may be negative.
  void integer(std::int64_t value) { number((static_cast<std::uint64_t>(value) << 1) ^ static_cast<std::uint64_t>(value >> 63)); }
  void real(double value) { raw(&value, sizeof value); }
  void text(std::string_view value);
  void integers(at::IntArrayRef values);
  /// The dtype, sizes and strides, without the offset.
  void shape(at::ScalarType dtype, at::IntArrayRef sizes, at::IntArrayRef strides);
  void raw(const void* data, std::size_t bytes) {
    const auto* begin = static_cast<const std::byte*>(data);
    bytes_.insert(bytes_.end(), begin, begin + bytes);
  }
  void append(std::span<const std::byte> more) { bytes_.insert(bytes_.end(), more.begin(), more.end()); }

  std::span<const std::byte> bytes() const { return bytes_; }
  std::string_view view() const { return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()}; }
  void clear() { bytes_.clear(); }
  void reserve(std::size_t bytes) { bytes_.reserve(bytes); }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

/// Reads what a WireWriter wrote. ProtocolError for bytes that end early.
class WireReader {
 public:
  explicit WireReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::uint8_t byte() { return static_cast<std::uint8_t>(take(1)[0]); }
  template <class Enum>
  Enum code() {
    return static_cast<Enum>(byte());
  }
  std::uint64_t number();
  std::int64_t integer() {
    const std::uint64_t value = number();
    return static_cast<std::int64_t>(value >> 1) ^ -static_cast<std::int64_t>(value & 1);
  }
  double real() {
    double value = 0;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  std::string text();
  at::DimVector integers();
  Geometry shape();
  std::span<const std::byte> take(std::size_t bytes);
  std::span<const std::byte> rest() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

/// Returns a copy of sizes or strides. Not inline: GCC 12 then takes the memory of some for uninitialised, and warns.
[[gnu::noinline]] at::DimVector copied(at::IntArrayRef values);
/// Returns the strides of a tensor of this shape whose elements lie row by row.
at::DimVector row_strides(at::IntArrayRef sizes);
/// Returns the bytes of a storage that holds the tensor.
std::size_t bytes_of(const Geometry& geometry);
/// Returns the sizes and dtype for people: "Float[2, 3]".
std::string described(const Geometry& geometry);

}  // namespace unisono::libtorch

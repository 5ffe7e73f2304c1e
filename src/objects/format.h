#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "unisono/tensor.h"

// Fixes the choices that MessagePack leaves open (https://github.com/msgpack/msgpack/blob/master/spec.md).
namespace unisono::objects {

static_assert(std::endian::native == std::endian::little, "elements travel as they lie in memory");

/// An extension's type is the DType of its elements, or this code for a long double, of which only the meaningful bytes are written (10 on x86-64).
inline constexpr std::int8_t extended_code = 64;
inline constexpr std::size_t extended_bytes = std::numeric_limits<long double>::digits == 64 ? 10 : sizeof(long double);

constexpr std::int8_t code_of(DType dtype) { return static_cast<std::int8_t>(dtype); }

/// The first byte of a value, as MessagePack names it.
enum Format : std::uint8_t {
  fixmap = 0x80,
  fixarray = 0x90,
  fixstr = 0xa0,
  nil = 0xc0,
  wide,  ///< not of MessagePack, which leaves it free: before a value of 4 GiB or more. The format with 32 bits follows, then the length with 64
  no,
  yes = 0xc3,
  bin8 = 0xc4,
  bin16,
  bin32,
  ext8,
  ext16,
  ext32,
  float32,
  float64,
  uint8,
  uint16,
  uint32,
  uint64,
  int8,
  int16,
  int32,
  int64,
  fixext1,
  fixext2,
  fixext4,
  fixext8,
  fixext16,
  str8,
  str16,
  str32,
  array16,
  array32,
  map16,
  map32,
};

/// The longest value whose length MessagePack has a format for.
inline constexpr std::size_t longest_narrow = UINT32_MAX;

/// Returns the beginning of a value that is longer.
inline std::array<char, 10> wide_head(Format format, std::uint64_t length) {
  std::array<char, 10> bytes{static_cast<char>(wide), static_cast<char>(format)};
  for (std::size_t i = bytes.size(); i-- > 2; length >>= 8) bytes[i] = static_cast<char>(length & 0xff);
  return bytes;
}

/// Returns the format of a number of this type; nil for boolean and for types that are written as an extension.
constexpr Format format_of(DType dtype) {
  switch (dtype) {
    case DType::int8: return int8;
    case DType::int16: return int16;
    case DType::int32: return int32;
    case DType::int64: return int64;
    case DType::uint8: return uint8;
    case DType::uint16: return uint16;
    case DType::uint32: return uint32;
    case DType::uint64: return uint64;
    case DType::float32: return float32;
    case DType::float64: return float64;
    default: return nil;
  }
}

}  // namespace unisono::objects

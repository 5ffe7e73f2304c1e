#include <fmt/format.h>

#include <cstring>
#include <string>

#include "objects/format.h"
#include "unisono/detail/object_stream.h"
#include "unisono/error.h"

namespace unisono {

using namespace objects;

namespace {

std::string name_of(std::uint8_t format) {
  static constexpr const char* names[] = {"nil",      "an unknown format",
                                          "false",    "true",
                                          "bytes",    "bytes",
                                          "bytes",    "elements",
                                          "elements", "elements",
                                          "float32",  "float64",
                                          "uint8",    "uint16",
                                          "uint32",   "uint64",
                                          "int8",     "int16",
                                          "int32",    "int64",
                                          "elements", "elements",
                                          "elements", "elements",
                                          "elements", "string",
                                          "string",   "string",
                                          "array",    "array",
                                          "map",      "map"};
  if (format >= Format::nil && format < 0xe0) return names[format - Format::nil];
  if (format < fixmap || format >= 0xe0) return "an integer without a width";
  if (format < fixarray) return "map";
  return format < fixstr ? "array" : "string";
}

}  // namespace

/// The payload of an extension.
struct ObjectReader::Piece {
  std::uint8_t format;
  std::int8_t code;
  std::span<const std::byte> bytes;
};

ObjectReader::ObjectReader(std::span<const std::byte> bytes, const ObjectLimits& limits) : limits_(limits), bytes_(bytes) {
  if (bytes.size() > limits.bytes) {
    throw InvalidArgument(fmt::format("an object of {} bytes is larger than the limit of {}", bytes.size(), limits.bytes),
                          {.hint = "raise the limit with set_object_limits"});
  }
  frames_.push_back({SIZE_MAX, true});
}

void ObjectReader::refuse(std::string_view what) const { throw ProtocolError(fmt::format("not an object of unisono: {} at byte {}", what, at_)); }

void ObjectReader::another(std::string_view asked, std::uint8_t found) const {
  throw Mismatch(fmt::format("{} is asked for where {} was written, before byte {}", asked, name_of(found), at_),
                 {.hint = "the types that are read must be exactly the types that were written; nothing is converted"});
}

// Returns the first byte of the next value, and counts the value.
std::uint8_t ObjectReader::format() {
  while (frames_.back().left == 0) {
    if (frames_.back().closed) {
      throw Mismatch(fmt::format("more is read than was written, at byte {}", at_), {.hint = "object_traits read what they write"});
    }
    frames_.pop_back();
  }
  --frames_.back().left;
  return static_cast<std::uint8_t>(take(1)[0]);
}

std::span<const std::byte> ObjectReader::take(std::size_t n) {
  if (n > bytes_left()) refuse("it ends early");
  const auto part = bytes_.subspan(at_, n);
  at_ += n;
  return part;
}

// Reads a big-endian length or number.
std::uint64_t ObjectReader::length(int width) {
  std::uint64_t n = 0;
  for (const std::byte b : take(static_cast<std::size_t>(width))) n = (n << 8) | static_cast<std::uint64_t>(b);
  return n;
}

// Reads what follows `wide`.
std::size_t ObjectReader::wide_length(std::uint8_t expected, std::string_view asked) {
  const auto f = static_cast<std::uint8_t>(take(1)[0]);
  if (f != expected) another(asked, f);
  return length(8);
}

void ObjectReader::nil() {
  const std::uint8_t f = format();
  if (f != Format::nil) another("nil", f);
}

void ObjectReader::number(DType dtype, void* x) {
  if (dtype == DType::boolean) {
    const std::uint8_t f = format();
    if (f != yes && f != no) another("boolean", f);
    const bool value = f == yes;
    std::memcpy(x, &value, sizeof value);
    return;
  }
  const std::size_t size = size_of(dtype);
  const Format expected = format_of(dtype);
  if (expected == Format::nil) {
    const auto elements = block(dtype);
    if (elements.size() != size) refuse("several elements stand for a number");
    std::memcpy(x, elements.data(), size);
    return;
  }
  const std::uint8_t f = format();
  if (f != expected) another(to_string(dtype), f);
  const std::uint64_t bits = length(static_cast<int>(size));
  std::memcpy(x, &bits, size);
}

void ObjectReader::extended(long double& x) {
  const Piece piece = ext();
  if (piece.code != extended_code) another("long double", piece.format);
  if (piece.bytes.size() != extended_bytes) refuse("a long double of another machine");
  x = 0;
  std::memcpy(&x, piece.bytes.data(), extended_bytes);
}

std::string_view ObjectReader::string() {
  const std::uint8_t f = format();
  std::size_t n = 0;
  if (f >= fixstr && f < Format::nil) n = f - fixstr;
  else if (f >= str8 && f <= str32) n = length(1 << (f - str8));
  else if (f == wide) n = wide_length(str32, "string");
  else another("string", f);
  const auto text = take(n);
  return {reinterpret_cast<const char*>(text.data()), text.size()};
}

std::span<const std::byte> ObjectReader::bytes() {
  const std::uint8_t f = format();
  if (f == wide) return take(wide_length(bin32, "bytes"));
  if (f < bin8 || f > bin32) another("bytes", f);
  return take(length(1 << (f - bin8)));
}

ObjectReader::Piece ObjectReader::ext() {
  const std::uint8_t f = format();
  std::size_t n = 0;
  if (f >= fixext1 && f <= fixext16) n = std::size_t{1} << (f - fixext1);
  else if (f >= ext8 && f <= ext32) n = length(1 << (f - ext8));
  else if (f == wide) n = wide_length(ext32, "elements");
  else another("elements", f);
  const auto code = static_cast<std::int8_t>(take(1)[0]);
  return {f, code, take(n)};
}

std::span<const std::byte> ObjectReader::block(DType dtype) {
  const Piece piece = ext();
  if (piece.code != code_of(dtype)) {
    const bool known = piece.code >= 0 && piece.code <= code_of(DType::complex128);
    throw Mismatch(fmt::format("{} is asked for where {} was written, before byte {}", to_string(dtype),
                               known ? to_string(static_cast<DType>(piece.code)) : "another extension", at_),
                   {.hint = "the types that are read must be exactly the types that were written; nothing is converted"});
  }
  if (piece.bytes.size() % size_of(dtype) != 0) refuse("part of an element");
  if (dtype == DType::boolean) {
    for (const std::byte b : piece.bytes) {
      if (b > std::byte{1}) refuse("neither true nor false");
    }
  }
  return piece.bytes;
}

std::size_t ObjectReader::container(std::size_t n, std::size_t values_each) {
  if (n > bytes_left() / values_each) refuse("a container has more values than there are bytes");
  if (n == 0) return 0;
  if (frames_.size() > limits_.depth) refuse(fmt::format("more than {} containers within each other", limits_.depth));
  frames_.push_back({n * values_each, false});
  return n;
}

std::size_t ObjectReader::array() {
  const std::uint8_t f = format();
  if (f >= fixarray && f < fixstr) return container(f - fixarray, 1);
  if (f == wide) return container(wide_length(array32, "array"), 1);
  if (f != array16 && f != array32) another("array", f);
  return container(length(f == array16 ? 2 : 4), 1);
}

std::size_t ObjectReader::map() {
  const std::uint8_t f = format();
  if (f >= fixmap && f < fixarray) return container(f - fixmap, 2);
  if (f == wide) return container(wide_length(map32, "map"), 2);
  if (f != map16 && f != map32) another("map", f);
  return container(length(f == map16 ? 2 : 4), 2);
}

void ObjectReader::array_of(std::size_t n) {
  if (array() != n) refuse("an array of another length than its type has");
}

std::size_t ObjectReader::open() {
  if (array() == 0) {
    if (frames_.size() > limits_.depth) refuse(fmt::format("more than {} containers within each other", limits_.depth));
    frames_.push_back({0, false});
  }
  frames_.back().closed = true;
  return frames_.size();
}

void ObjectReader::close(std::size_t mark) {
  while (frames_.size() > mark && frames_.back().left == 0) frames_.pop_back();
  if (frames_.size() != mark || frames_.back().left != 0) {
    throw Mismatch(fmt::format("less is read than was written, at byte {}", at_), {.hint = "object_traits read what they write"});
  }
  frames_.pop_back();
}

void ObjectReader::finish() const {
  if (bytes_left() != 0) refuse(fmt::format("{} bytes too many", bytes_left()));
}

}  // namespace unisono

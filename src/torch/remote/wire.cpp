#include "torch/remote/wire.h"

#include <fmt/format.h>

#include <algorithm>

#include "unisono/error.h"

namespace unisono::libtorch {
namespace {

constexpr std::size_t most_dimensions = 64;

bool are_contiguous(at::IntArrayRef sizes, at::IntArrayRef strides) {
  std::int64_t expected = 1;
  for (std::size_t i = sizes.size(); i-- > 0;) {
    if (strides[i] != expected) return false;
    expected *= std::max<std::int64_t>(sizes[i], 1);
  }
  return true;
}

}  // namespace

void WireWriter::text(std::string_view value) {
  number(value.size());
  raw(value.data(), value.size());
}

void WireWriter::integers(at::IntArrayRef values) {
  number(values.size());
  for (const std::int64_t value : values) integer(value);
}

void WireWriter::shape(at::ScalarType dtype, at::IntArrayRef sizes, at::IntArrayRef strides) {
  const bool contiguous = are_contiguous(sizes, strides);
  code(dtype);
  byte(static_cast<std::uint8_t>(sizes.size() << 1 | (contiguous ? 1 : 0)));
  for (const std::int64_t size : sizes) number(static_cast<std::uint64_t>(size));
  if (contiguous) return;
  for (const std::int64_t stride : strides) number(static_cast<std::uint64_t>(stride));
}

std::uint64_t WireReader::number() {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    const std::uint8_t next = byte();
    value |= std::uint64_t{next & 127u} << shift;
    if (next < 128) return value;
  }
  throw ProtocolError("a command for a remote tensor has a number of more than 64 bits");
}

std::string WireReader::text() {
  const auto bytes = take(number());
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

at::DimVector WireReader::integers() {
  const std::uint64_t count = number();
  if (count > bytes_.size()) throw ProtocolError("a command for a remote tensor ends early");
  at::DimVector values;
  values.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i) values.push_back(integer());
  return values;
}

Geometry WireReader::shape() {
  Geometry geometry;
  geometry.dtype = code<at::ScalarType>();
  if (geometry.dtype >= at::ScalarType::NumOptions)
    throw ProtocolError("a command for a remote tensor names a dtype that this PyTorch does not have");
  const std::uint8_t packed = byte();
  const std::size_t dimensions = packed >> 1;
  if (dimensions > most_dimensions) throw ProtocolError("a command for a remote tensor has a tensor of too many dimensions");
  for (std::size_t i = 0; i < dimensions; ++i) geometry.sizes.push_back(static_cast<std::int64_t>(number()));
  if ((packed & 1) != 0) {
    geometry.strides = row_strides(geometry.sizes);
  } else {
    for (std::size_t i = 0; i < dimensions; ++i) geometry.strides.push_back(static_cast<std::int64_t>(number()));
  }
  return geometry;
}

std::span<const std::byte> WireReader::take(std::size_t bytes) {
  if (bytes > bytes_.size()) throw ProtocolError("a command for a remote tensor ends early");
  const auto taken = bytes_.first(bytes);
  bytes_ = bytes_.subspan(bytes);
  return taken;
}

at::DimVector copied(at::IntArrayRef values) { return at::DimVector(values); }

at::DimVector row_strides(at::IntArrayRef sizes) {
  at::DimVector strides(sizes.size());
  std::int64_t next = 1;
  for (std::size_t i = sizes.size(); i-- > 0;) {
    strides[i] = next;
    next *= std::max<std::int64_t>(sizes[i], 1);
  }
  return strides;
}

std::size_t bytes_of(const Geometry& geometry) {
  std::int64_t last = geometry.offset;
  for (std::size_t i = 0; i < geometry.sizes.size(); ++i) {
    if (geometry.sizes[i] == 0) return 0;
    last += (geometry.sizes[i] - 1) * geometry.strides[i];
  }
  return static_cast<std::size_t>(last + 1) * c10::elementSize(geometry.dtype);
}

std::string described(const Geometry& geometry) {
  return fmt::format("{}{}", c10::toString(geometry.dtype), c10::str(at::IntArrayRef(geometry.sizes)));
}

}  // namespace unisono::libtorch

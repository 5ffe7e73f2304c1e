#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "unisono/detail/object_codec.h"
#include "unisono/detail/object_containers.h"
#include "unisono/detail/object_stream.h"
#include "unisono/detail/object_type.h"

namespace unisono::detail {

/// Writes an object behind the fingerprint of its type.
template <object O>
std::vector<std::byte> to_bytes(const O& object) {
  ObjectWriter out;
  out.array(2);
  codec<std::uint64_t>::write(out, object_type<O>().fingerprint);
  codec<O>::write(out, object);
  return out.take();
}

/// Reads an object. Throws Mismatch for the bytes of another type, and ProtocolError for bytes that
/// to_bytes does not make.
template <object O>
O from_bytes(std::span<const std::byte> bytes) {
  ObjectReader in(bytes);
  in.array_of(2);
  check_fingerprint(object_type<O>(), codec<std::uint64_t>::read(in));
  O object = codec<O>::read(in);
  in.finish();
  return object;
}

}  // namespace unisono::detail

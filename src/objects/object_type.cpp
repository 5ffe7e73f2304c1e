#include "unisono/detail/object_type.h"

#include <fmt/format.h>

#include "unisono/error.h"

namespace unisono::detail {

// FNV-1a (Fowler, Noll, Vo), 64 bits.
std::uint64_t fingerprint_of(std::string_view name) noexcept {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return hash;
}

void check_fingerprint(const ObjectType& type, std::uint64_t found) {
  if (found == type.fingerprint) return;
  throw Mismatch(fmt::format("the bytes are of an object of another type than {}", type.name),
                 {.hint = "what is read has exactly the type of what was written"});
}

}  // namespace unisono::detail

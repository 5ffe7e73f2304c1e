#include "unisono/detail/object_type.h"

#include <fmt/format.h>

#include "base/hash.h"
#include "unisono/error.h"

namespace unisono::detail {

std::uint64_t fingerprint_of(std::string_view name) noexcept { return base::stable_hash(name); }

void check_fingerprint(const ObjectType& type, std::uint64_t found) {
  if (found == type.fingerprint) return;
  throw Mismatch(fmt::format("the bytes are of an object of another type than {}", type.name),
                 {.hint = "what is read has exactly the type of what was written"});
}

}  // namespace unisono::detail

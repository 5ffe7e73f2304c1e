#pragma once

#include <cstdint>
#include <string>

#include "unisono/backend.h"

namespace unisono::engine {

/// What the ranks of one call must agree on, in three words that are compared whole.
struct Signature {
  std::uint64_t what = 0;   // operation, dtype, reduce op, custom or not, root + 1
  std::uint64_t count = 0;  // elements
  std::uint64_t extra = 0;  // tag, hash of a custom operation's type

  friend bool operator==(const Signature&, const Signature&) = default;
};

Signature signature_of(const CollectiveCall& call) noexcept;
/// "all_reduce(float32 × 1000, sum)"
std::string describe(const Signature& signature);

}  // namespace unisono::engine

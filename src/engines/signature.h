#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "unisono/call.h"

namespace unisono::engines {

/// The terms on which the ranks of one call must agree, in three words that are compared whole.
struct Signature {
  std::uint64_t what = 0;   // operation, dtype, reduce op, custom or not, labelled or not, deterministic or not, root + 1
  std::uint64_t count = 0;  // elements
  std::uint64_t extra = 0;  // tag, hash of a custom operation's type and of the label

  friend bool operator==(const Signature&, const Signature&) = default;
};

Signature signature_of(const CollectiveCall& call) noexcept;
/// Returns "all_reduce_multigpu of 3 x float16, avg"; empty for a call without a label.
std::string label_of(const CollectiveCall& call);
bool has_label(const Signature& signature) noexcept;
/// Returns "all_reduce(float32 × 1000, sum)"; for a labelled call "all_gather_object: all_gather(uint64 × 1)".
std::string describe(const Signature& signature, std::string_view label);

}  // namespace unisono::engines

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "unisono/call.h"

namespace unisono::engines {

/// The terms on which the ranks of one call must agree, in three words that are compared whole.
struct Signature {
  std::uint64_t what = 0;   // operation, dtype, reduce op, custom or not, labelled or not, deterministic or not, the callable is to be tried or not,
                            // named or not, root + 1
  std::uint64_t count = 0;  // elements
  std::uint64_t extra = 0;  // tag, hash of a callable and of the label

  friend bool operator==(const Signature&, const Signature&) = default;
};

/// Tells whether the calls of two ranks fit each other, whatever callables of the program's they have.
bool fit(const Signature& a, const Signature& b) noexcept;
/// Returns the signature as it is with any callable of the program's.
Signature without_callable(Signature signature) noexcept;
/// Tells whether a callable is compared by what it does even where all ranks have the same signature.
bool is_to_be_tried(const Signature& signature) noexcept;

Signature signature_of(const CollectiveCall& call) noexcept;
/// Returns "all_reduce_multigpu of 3 x float16, avg"; empty for a call without a label.
std::string label_of(const CollectiveCall& call);
bool has_label(const Signature& signature) noexcept;
/// Returns "all_reduce(float32 × 1000, sum)"; for a labelled call "all_gather_object: all_gather(uint64 × 1)".
std::string describe(const Signature& signature, std::string_view label);

/// Thrown on every rank of a call on which the ranks agree, but for their callables: what these do decides. Nothing was moved.
struct CallablesDiffer {};

}  // namespace unisono::engines

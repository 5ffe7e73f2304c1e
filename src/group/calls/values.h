#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/environment.h"
#include "unisono/engine.h"
#include "unisono/tensor.h"

namespace unisono::group {

/// The values that a rank may not send.
enum class RefusedValues : std::uint8_t { none, nan, not_finite };

/// Reads UNISONO_CHECK: "nan" refuses NaN, "finite" infinities as well. Throws InvalidArgument for any other value.
RefusedValues refused_values(const base::Environment& environment);

/// The numbers of a view that are refused.
struct Refused {
  std::size_t count = 0;
  std::size_t first = 0;  ///< the index of its element, row by row
  bool is_nan = false;    ///< of the first: else it is infinite
};
/// Looks at memory of the host. Integers are never refused, and a complex number has two parts.
Refused look_for(RefusedValues values, const TensorView& tensor);

/// Returns true under UNISONO_COMPARE=shapes: the ranks compare shapes as well, in calls whose numbers of elements are the same on all ranks. Throws
/// InvalidArgument for any other value.
bool wants_shapes(const base::Environment& environment);

/// Adds the shape to the terms that the ranks must agree on. A call of blocks of different length is left as it is.
void add_shape(CollectiveCall& call);

}  // namespace unisono::group

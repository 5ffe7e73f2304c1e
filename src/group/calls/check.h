#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/environment.h"
#include "engines/message.h"
#include "unisono/call.h"
#include "unisono/detail/request.h"
#include "unisono/engine.h"
#include "unisono/tensor.h"

namespace unisono::group {

class GroupFacts;

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

/// Throws where a call is wrong by itself, before anything is sent: InvalidArgument, or Unsupported where only this backend cannot do it. `name`:
/// that of the request. Returns the call with its root found and its count taken; its sequence number is still open.
CollectiveCall check_collective(const GroupFacts& group, const detail::Request& request, std::string_view name, const CallOptions& options);
/// Checks a call whose output will be sized once the counts are known.
void check_exchanging(const GroupFacts& group, const detail::Request& request, const CallOptions& options);
engines::MessageCall check_message(const GroupFacts& group, const detail::MessageRequest& request, const CallOptions& options);

bool lies_on_device(const GroupFacts& group, const TensorView& tensor);
/// Throws InvalidArgument or Unsupported for memory of a device that calls of this group cannot be given.
void check_place(const GroupFacts& group, std::string_view name, const TensorView& tensor);
/// Returns true where the output is a vector that the call itself has sized: it is the host's, wherever the input lies.
bool sizes_its_output(const detail::Request& request);
/// Returns the tensors of a list, each of which says where it lies.
std::vector<TensorView> locate_list(const GroupFacts& group, std::span<const TensorView> tensors);
/// Checks that the tensors of a list have one dtype and length, and that none overlaps another, nor one of `others`. `written`: a result goes there.
void check_list(const GroupFacts& group, std::string_view name, std::span<const TensorView> tensors, std::span<const TensorView> others,
                bool written);
/// Checks that there is one buffer for each rank, of the dtype and length of `single`. `single` may be this rank's own buffer of the list, and does
/// not overlap the others.
void check_rank_list(const GroupFacts& group, std::string_view name, std::span<const TensorView> list, const TensorView& single, bool written);
/// Checks that there are as many wholes as parts, and that each whole is as long as size() times all parts.
void check_block_lists(const GroupFacts& group, std::string_view name, std::span<const TensorView> wholes, std::span<const TensorView> parts);
/// Checks that each tensor of one list lies in the same memory as that of the other in its place, the host's or a device's.
void check_one_place(const GroupFacts& group, std::string_view name, std::span<const TensorView> list, std::span<const TensorView> other);
/// Throws InvalidArgument where UNISONO_CHECK refuses a value that is to be sent. What a prologue takes is to be checked by its maker.
void check_sent(const GroupFacts& group, std::string_view name, std::span<const TensorView> tensors);
/// Checks that the operation is defined on the dtype.
void check_operation(const GroupFacts& group, std::string_view name, DType dtype, ReduceOp op);

/// Throws InvalidArgument where an element is refused, and names the first one. Integers, and memory of a device, are not looked at.
void check_values(const GroupFacts& group, std::string_view name, const TensorView& sent);

}  // namespace unisono::group

#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "engines/message.h"
#include "unisono/call.h"
#include "unisono/detail/request.h"

namespace unisono::group {

class Group;

/// What is wrong with a call by itself, before anything is sent: InvalidArgument, or Unsupported where only this backend cannot do it. The result
/// is the call with its root found and its count taken, its sequence number still open.
CollectiveCall check_collective(const Group& group, const detail::Request& request, const CallOptions& options);
/// The same for a call whose output will be sized once the counts are known.
void check_exchanging(const Group& group, const detail::Request& request, const CallOptions& options);
engines::MessageCall check_message(const Group& group, const detail::MessageRequest& request, const CallOptions& options);

bool lies_on_device(const Group& group, TensorView tensor);
/// InvalidArgument or Unsupported for memory of a device that calls of this group cannot be given.
void check_place(const Group& group, std::string_view name, const TensorView& tensor);
/// Whether the output is a vector that the call itself has sized: it is the host's, wherever the input lies.
bool sizes_its_output(const detail::Request& request);
/// The tensors of a list, each of which says where it lies.
std::vector<TensorView> locate_list(const Group& group, std::span<const TensorView> tensors);
/// Tensors of one list: of one dtype and length, and none in the way of another, nor of one of `others`. `written`: whether a result goes there.
void check_list(const Group& group, std::string_view name, std::span<const TensorView> tensors, std::span<const TensorView> others, bool written);
/// One buffer for each rank, of the dtype and length of `single`; `single` may be this rank's own of them, and lies apart from the others.
void check_rank_list(const Group& group, std::string_view name, std::span<const TensorView> list, const TensorView& single, bool written);
/// As many of the one as of the other, and each whole as long as size() times all parts.
void check_block_lists(const Group& group, std::string_view name, std::span<const TensorView> wholes, std::span<const TensorView> parts);
/// Each tensor of one list in the same memory as its fellow of the other, the host's or a device's.
void check_one_place(const Group& group, std::string_view name, std::span<const TensorView> list, std::span<const TensorView> other);
/// Whether the operation is defined on the dtype.
void check_operation(const Group& group, std::string_view name, DType dtype, ReduceOp op);

}  // namespace unisono::group

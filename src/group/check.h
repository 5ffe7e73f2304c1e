#pragma once

#include "unisono/backend.h"
#include "unisono/detail/request.h"

namespace unisono::group {

class Group;

/// What is wrong with a call by itself, before anything is sent: InvalidArgument, or Unsupported where only this backend cannot do it. The result
/// is the call with its root found and its count taken, its sequence number still open.
CollectiveCall check_collective(const Group& group, const detail::Request& request, const CallOptions& options);
/// The same for a call whose output will be sized once the counts are known.
void check_exchanging(const Group& group, const detail::Request& request, const CallOptions& options);
MessageCall check_message(const Group& group, const detail::MessageRequest& request, const CallOptions& options);

}  // namespace unisono::group

#include "group/calls/composed.h"
#include "unisono/detail/request.h"

namespace unisono::detail {

MessageInfo recv_sized(const TensorView& now, std::optional<Rank> src, const std::function<TensorView(std::size_t count)>& resize,
                       const ProcessGroup& group, const CallOptions& options) {
  group::Composed call(to_string(Operation::recv), group, options);
  const MessageRequest request{Operation::recv, now, src, call.name()};
  const MessageInfo info = *probe(request, group, call.options(), true);
  CallOptions rest = call.options();
  rest.tag = info.tag;
  // The receive of a message of another dtype, or of an object, throws the mismatch and drops the message.
  const bool fits = info.dtype == now.dtype() && !info.is_object;
  return run({Operation::recv, fits ? resize(info.count) : now, Rank(info.source)}, group, rest);
}

}  // namespace unisono::detail

#include "unisono/c/messages.h"

#include <optional>
#include <string_view>

#include "c/arguments.h"
#include "unisono/detail/request.h"

namespace unisono::c {
namespace {

/// A send or a receive as a function of C is given it.
struct Message {
  Operation operation;
  const void* data;
  std::size_t count;
  unisono_dtype dtype;
  std::int32_t peer;
};

/// `operation` is the function that the program called.
detail::MessageRequest request_of(const Message& message, std::string_view operation) {
  const TensorView data = view_of(message.data, message.count, message.dtype, operation, "data");
  const bool is_of_any = message.operation == Operation::recv && message.peer == UNISONO_ANY_SOURCE;
  return {message.operation, data, is_of_any ? std::nullopt : std::optional<Rank>(message.peer)};
}

detail::MessageRequest probe_of(std::int32_t src) {
  return {Operation::recv, detail::nothing(), src == UNISONO_ANY_SOURCE ? std::nullopt : std::optional<Rank>(src), "probe"};
}

unisono_status start_message(const Message& message, const unisono_group* handle, const unisono_call_options* given, unisono_work** work,
                             std::string_view operation) noexcept {
  return started(work, operation, [&] {
    return with_call(handle, given, operation, [&](const ProcessGroup& group, const CallOptions& options) {
      return detail::start(request_of(message, operation), group, options);
    });
  });
}

/// Calls f with the group and the options of a call.
template <class F>
unisono_status call_with(const unisono_group* handle, const unisono_call_options* given, std::string_view operation, F&& f) noexcept {
  return guarded([&] { with_call(handle, given, operation, f); });
}

}  // namespace
}  // namespace unisono::c

using unisono::CallOptions;
using unisono::Operation;
using unisono::ProcessGroup;
using unisono::c::request_of;

unisono_status unisono_send(const void* data, size_t count, unisono_dtype dtype, int32_t dst, unisono_group* group,
                            const unisono_call_options* options) {
  return unisono::c::call_with(group, options, "send", [&](const ProcessGroup& of, const CallOptions& with) {
    static_cast<void>(unisono::detail::run(request_of({Operation::send, data, count, dtype, dst}, "send"), of, with));
  });
}

unisono_status unisono_isend(const void* data, size_t count, unisono_dtype dtype, int32_t dst, unisono_group* group,
                             const unisono_call_options* options, unisono_work** work) {
  return unisono::c::start_message({Operation::send, data, count, dtype, dst}, group, options, work, "isend");
}

unisono_status unisono_recv(void* data, size_t count, unisono_dtype dtype, int32_t src, unisono_group* group, const unisono_call_options* options,
                            unisono_message_info* info) {
  return unisono::c::call_with(group, options, "recv", [&](const ProcessGroup& of, const CallOptions& with) {
    unisono::c::check_info(info, "recv");
    unisono::c::write_info(info, unisono::detail::run(request_of({Operation::recv, data, count, dtype, src}, "recv"), of, with));
  });
}

unisono_status unisono_irecv(void* data, size_t count, unisono_dtype dtype, int32_t src, unisono_group* group, const unisono_call_options* options,
                             unisono_work** work) {
  return unisono::c::start_message({Operation::recv, data, count, dtype, src}, group, options, work, "irecv");
}

unisono_status unisono_send_recv(const void* out, size_t out_count, unisono_dtype out_dtype, int32_t dst, void* in, size_t in_count,
                                 unisono_dtype in_dtype, int32_t src, unisono_group* group, const unisono_call_options* options) {
  return unisono::c::call_with(group, options, "send_recv", [&](const ProcessGroup& of, const CallOptions& with) {
    const auto sent = request_of({Operation::send, out, out_count, out_dtype, dst}, "send_recv");
    const auto received = request_of({Operation::recv, in, in_count, in_dtype, src}, "send_recv");
    static_cast<void>(unisono::detail::send_recv(sent, received, of, with));
  });
}

unisono_status unisono_probe(int32_t src, unisono_group* group, const unisono_call_options* options, unisono_message_info* info) {
  return unisono::c::call_with(group, options, "probe", [&](const ProcessGroup& of, const CallOptions& with) {
    unisono::c::check_info(&unisono::c::target(info, "probe", "info"), "probe");
    unisono::c::write_info(info, *unisono::detail::probe(unisono::c::probe_of(src), of, with, true));
  });
}

unisono_status unisono_try_probe(int32_t src, unisono_group* group, const unisono_call_options* options, int32_t* is_there,
                                 unisono_message_info* info) {
  return unisono::c::call_with(group, options, "try_probe", [&](const ProcessGroup& of, const CallOptions& with) {
    std::int32_t& answer = unisono::c::target(is_there, "try_probe", "is_there");
    unisono::c::check_info(&unisono::c::target(info, "try_probe", "info"), "try_probe");
    const auto found = unisono::detail::probe(unisono::c::probe_of(src), of, with, false);
    answer = found ? 1 : 0;
    if (found) unisono::c::write_info(info, *found);
  });
}

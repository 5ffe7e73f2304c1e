#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include "group/calls/group_calls.h"
#include "group/devices/device_group.h"
#include "unisono/detail/request.h"

namespace unisono::group {

/// The messages of a group: sends, receives and probes.
class MessageCalls {
 public:
  /// Both have to outlive it.
  MessageCalls(GroupCalls& calls, DeviceGroup& devices) : calls_(calls), devices_(devices) {}

  MessageInfo run(const detail::MessageRequest& request, const CallOptions& options);
  Work start(const detail::MessageRequest& request, const CallOptions& options);
  int send_recv(const detail::MessageRequest& out, const detail::MessageRequest& in, const CallOptions& options);
  /// Returns the message that the next receive would take. Null, if it does not wait: nothing is there.
  std::optional<MessageInfo> probe(const detail::MessageRequest& request, const CallOptions& options, bool waits);
  /// Throws if a message is wrong by itself.
  void verify(const detail::MessageRequest& request, const CallOptions& options) const;

 private:
  std::unique_ptr<Task> task_of(const MessageCall& call, bool sends);
  using MakeTask = std::function<std::unique_ptr<Task>()>;
  bool leaves_at_once(const detail::MessageRequest& request) const;
  /// Sends a small message if there is room for it.
  bool leaves(const MessageCall& call, std::string_view operation);
  /// Returns true where a small send waits a moment for its receiver, which then copies by itself.
  bool rather_lends(const MessageCall& call);
  /// Whether a large send leaves all of the work to its receiver, so that no thread is needed beside the caller.
  bool leaves_to_receiver(const MessageCall& call);
  void send_eagerly(const MessageCall& call, std::string_view operation, const CallOptions& options, const recorder::Recorder::Call& record,
                    const MakeTask& make);
  /// Returns true for a receive that the matcher carries out by itself.
  static bool is_plain_receive(const MessageCall& call, Operation operation);
  /// Posts a receive beside its caller, for `other`: see PendingReceive::make.
  PendingReceive* post(const MessageCall& call, std::string_view operation, const CallOptions& options, const recorder::Recorder::Call& record,
                       std::uint64_t other);
  Arrival receive(const MessageCall& call, std::string_view operation, const CallOptions& options, const recorder::Recorder::Call& record);
  /// Returns true where the caller may carry out both halves of a send_recv at the same time.
  bool may_go_both_ways(const detail::MessageRequest& out, const detail::MessageRequest& in, const CallOptions& options) const;
  /// Does so, and returns the source; nullopt where the send leaves at once without that, and nothing has happened.
  std::optional<int> exchange(const detail::MessageRequest& out, const detail::MessageRequest& in, const CallOptions& options);
  /// Waits for a message's task.
  Arrival carry_out(const MessageCall& call, std::string_view operation, const CallOptions& options, const recorder::Recorder::Call& record,
                    const MakeTask& make);
  /// Throws what `f` throws as errors of the call. `peer_waits`: the two sides have agreed on the message, so any error ends the group.
  template <class F>
  auto with_errors(std::string_view operation, std::uint64_t sequence, bool peer_waits, F&& f);

  GroupCalls& calls_;
  DeviceGroup& devices_;
  base::Clock::time_point next_look_{};  // for failures, by probes that do not wait
};

}  // namespace unisono::group

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
  using Record = recorder::Recorder::Call;
  using MakeTask = std::function<std::unique_ptr<Task>()>;
  /// A send, a receive or a probe that has its place among the group's calls.
  struct Begun {
    std::string_view operation;
    Operation kind;
    const CallOptions& options;
    MessageCall call;
  };
  /// How a send leaves its caller.
  enum class Exit {
    eagerly,  ///< into memory of the library, whether or not its receiver comes
    lent,     ///< for a moment, in which its receiver copies it out of the caller's memory
    waits,    ///< when its receiver takes it
  };

  Begun begin(const detail::MessageRequest& request, const CallOptions& options);
  recorder::CallFacts facts_of(const Begun& begun) const { return calls_.facts_of(begun.call, begun.kind, begun.options); }
  Pending pending(const Begun& begun, const Record& record, std::size_t buffered = 0) const;
  std::unique_ptr<Task> task_of(const Begun& begun);

  bool is_eager(const TensorView& data) const;
  Exit exit_of(const MessageCall& call);
  /// Returns true where a small send waits a moment for its receiver, which then copies by itself.
  bool pays_to_lend(const MessageCall& call);
  /// Whether a large send leaves all of the work to its receiver, so that no thread is needed beside the caller.
  bool leaves_to_receiver(const MessageCall& call);
  /// Sends a small message if there is room for it.
  bool leaves(const Begun& sent);
  void send_eagerly(const Begun& sent, const Record& record);

  /// Returns true for a receive that the matcher carries out by itself.
  static bool is_plain_receive(const MessageCall& call, Operation operation);
  /// Posts a receive beside its caller, for `other`: see PendingReceive::make.
  PendingReceive* post(const Begun& received, const Record& record, std::uint64_t other);
  Arrival receive(const Begun& received, const Record& record);
  /// Returns true where the caller may carry out both halves of a send_recv at the same time.
  bool may_go_both_ways(const detail::MessageRequest& out, const detail::MessageRequest& in, const CallOptions& options) const;
  /// Does so, and returns the source; nullopt where the send leaves at once without that, and nothing has happened.
  std::optional<int> exchange(const detail::MessageRequest& out, const detail::MessageRequest& in, const CallOptions& options);

  /// Carries out a message for a caller that waits: behind those that are under way, or by itself.
  Arrival carry_out(const Begun& begun, const Record& record, const MakeTask& make);
  Arrival wait(Task& task, const Begun& begun, const Record& record);
  Arrival wait(const StatePtr& state);
  /// Throws what `f` throws as errors of the call.
  template <class F>
  auto with_errors(const Begun& begun, GroupErrors::Known known, F&& f);

  GroupCalls& calls_;
  DeviceGroup& devices_;
  base::Clock::time_point next_look_{};  // for failures, by probes that do not wait
};

}  // namespace unisono::group

#pragma once

#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "group/fork_guard.h"
#include "group/group_errors.h"
#include "group/progress.h"
#include "group/seals.h"
#include "recorder/recorder.h"
#include "unisono/detail/request.h"
#include "unisono/error.h"
#include "unisono/process_group.h"

namespace unisono::group {

class HostStaging;

/// The one way to the engines. It checks a call, gives it its number, orders it behind what is under way, and turns failures into errors that say
/// where they happened.
class Group : public std::enable_shared_from_this<Group> {
 public:
  explicit Group(GroupParts parts);
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  const GroupFacts& facts() const { return facts_; }
  GroupErrors& errors() { return errors_; }
  const std::string& name() const { return facts_.name(); }
  int rank() const { return facts_.rank(); }
  int size() const { return facts_.size(); }
  GroupCore& core() const { return *parts_.core; }
  coordination::Coordination& coordination() const { return parts_.core->coordination(); }
  /// The memory through which calls on memory of devices go where no engine carries them out there.
  HostStaging& staging(DeviceRuntime& runtime);
  /// The codes of the objects that travel in it.
  Seals& seals() { return seals_; }

  void run(const detail::Request& request, const CallOptions& options);
  /// Calls `issued` when the call has its place among the group's: from then on other threads may call.
  void run(const detail::Request& request, const CallOptions& options, const std::function<void()>& issued);
  Work start(const detail::Request& request, const CallOptions& options);
  MessageInfo run(const detail::MessageRequest& request, const CallOptions& options);
  int send_recv(const detail::MessageRequest& out, const detail::MessageRequest& in, const CallOptions& options);
  Work start(const detail::MessageRequest& request, const CallOptions& options);
  /// Returns the message that the next receive would take. Null, where it does not wait: nothing is there.
  std::optional<MessageInfo> probe(const detail::MessageRequest& request, const CallOptions& options, bool waits);
  /// Throws where a message is wrong by itself.
  void verify(const detail::MessageRequest& request, const CallOptions& options) const;

  /// Waits for all members. It is none of the group's calls: it has no number, and comes before the first of them.
  void assemble(std::chrono::milliseconds timeout);

  /// Waits, at most that long, for what is under way, then leaves the group: no call is possible afterwards.
  void close(std::chrono::milliseconds at_most, coordination::Leaving how);
  /// Leaves the group without waiting, after a failure.
  void drop(coordination::Leaving how);

 private:
  /// Begins a call that is known to be well-formed: throws the error that is left over from before, takes a number.
  std::uint64_t begin(std::string_view operation);
  void throw_deferred();
  std::unique_ptr<Task> task_of(const CollectiveCall& call, const std::shared_ptr<detail::PrologueEpilogue>& edges, const detail::Request& request,
                                const CallOptions& options);
  std::unique_ptr<Task> task_of(const MessageCall& call, bool sends);
  Pending pending(std::string_view operation, std::uint64_t sequence, const CallOptions& options, const recorder::Recorder::Call& record,
                  std::size_t buffered = 0);
  recorder::CallFacts facts_of(const CollectiveCall& call, const CallOptions& options) const;
  recorder::CallFacts facts_of(const MessageCall& call, Operation operation, const CallOptions& options) const;
  void end_pending();
  /// Waits for what is under way. What takes longer than a moment is named in the log.
  void drain(std::chrono::milliseconds at_most);
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
  /// Carries the call out behind the collectives that are pending.
  void run_in_turn(CollectiveCall& call, const detail::Request& request, const CallOptions& options);
  /// Has the device watched that has yet to finish a task that is done. Null: no device has anything to finish.
  StatePtr watch(const Task& task, Pending pending);
  /// Throws what `f` throws as errors of the call. `peer_waits`: the two sides have agreed on the message, so any error ends the group.
  template <class F>
  auto with_errors(std::string_view operation, std::uint64_t sequence, bool peer_waits, F&& f);
  /// Prepares for an operation that goes on without its caller. Where that cannot be, the group is over, so that the others do not wait.
  void get_ready(std::string_view operation, std::uint64_t sequence);
  /// Returns the prologue and epilogue of a call on memory of the host. Where this rank has no memory for them, the group is over.
  std::shared_ptr<detail::PrologueEpilogue> surroundings(CollectiveCall& call, const detail::Request& request);
  /// Waits for a blocking call. Everything that is put on the caller's current stream afterwards comes after it.
  void finish(detail::WorkState& state);
  std::chrono::milliseconds timeout_of(const CallOptions& options) const { return base::clamped(options.timeout.value_or(parts_.timeout)); }

  const GroupParts parts_;
  GroupFacts facts_;
  GroupErrors errors_;
  std::unique_ptr<HostStaging> staging_;  // once it is needed
  Seals seals_;
  const std::uint16_t number_;  // in the record
  const int exceptions_;        // that were under way when the group was made
  std::shared_ptr<Lane> lane_;
  std::atomic<bool> busy_{false};
  base::Clock::time_point next_look_{};  // for failures, by probes that do not wait
};

}  // namespace unisono::group

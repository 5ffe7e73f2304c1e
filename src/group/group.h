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
#include "group/group_core.h"
#include "group/progress.h"
#include "group/seals.h"
#include "group/values.h"
#include "recorder/recorder.h"
#include "unisono/detail/request.h"
#include "unisono/error.h"
#include "unisono/process_group.h"

namespace unisono::group {

class HostStaging;

/// The parts that a group is made of.
struct GroupParts {
  std::string name;
  int rank = 0;
  std::vector<int> global_ranks;
  int generation = 0;                    // of the job, in whose world these ranks are; 0: of no job that grows
  std::vector<int> recorded_ranks = {};  // by the former, the ranks of the job that the record is of, -1: of none; empty: they are the same
  std::vector<std::string> host_names;   // of the members
  std::unique_ptr<GroupCore> core;
  std::chrono::milliseconds timeout{};
  std::shared_ptr<Progress> progress;
  std::shared_ptr<recorder::Recorder> recorder;
  std::function<void(const Failure&)> on_failure = {};  // called once, for the failure that is noticed first; must not throw
  /// Called for each Mismatch of a collective, and for other errors that all ranks throw, with the culprit (-1: none) and the number of ranks that
  /// were compared; must not throw.
  std::function<void(const std::string& text, int culprit, int ranks)> on_error_of_all = {};
};

/// The one way to the engines. It checks a call, gives it its number, orders it behind what is under way, and turns failures into errors that say
/// where they happened.
class Group : public std::enable_shared_from_this<Group> {
 public:
  explicit Group(GroupParts parts);
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  const std::string& name() const { return parts_.name; }
  int rank() const { return parts_.rank; }
  int size() const { return static_cast<int>(parts_.global_ranks.size()); }
  const std::vector<int>& global_ranks() const { return parts_.global_ranks; }
  const std::string& host_name(int rank) const;
  GroupCore& core() const { return *parts_.core; }
  coordination::Coordination& coordination() const { return parts_.core->coordination(); }
  std::chrono::milliseconds timeout() const { return parts_.timeout; }
  /// The device whose memory it works on, beside the host's.
  const std::optional<Device>& device() const { return device_; }
  /// The memory through which calls on memory of devices go where no engine carries them out there.
  HostStaging& staging(DeviceRuntime& runtime);
  std::uint64_t sequence() const { return sequence_; }
  /// The codes of the objects that travel in it.
  Seals& seals() { return seals_; }
  recorder::Recorder& recorder() const { return *parts_.recorder; }
  /// Records that a call waits for ranks of the group.
  void record_wait(const recorder::Recorder::Call& call, const std::vector<int>& ranks) const;
  /// Whether the ranks compare shapes; see shapes.h.
  bool compares_shapes() const { return compares_shapes_; }
  /// The values that no rank may send; see values.h.
  RefusedValues refused_values() const { return refused_values_; }

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
  void abort(std::string_view reason);
  /// Aborts as a rank that says how it ended: "ended with ValueError: bad data".
  void end(std::string_view how);
  /// Aborts because a call was left half done: a user's callable threw, or memory ran out. Changes nothing if the group is over already.
  void abort_after(const std::exception_ptr& error);

  /// Waits for all members. It is none of the group's calls: it has no number, and comes before the first of them.
  void assemble(std::chrono::milliseconds timeout);

  /// Waits, at most that long, for what is under way, then leaves the group: no call is possible afterwards.
  void close(std::chrono::milliseconds at_most, coordination::Leaving how);
  /// Leaves the group without waiting, after a failure.
  void drop(coordination::Leaving how);
  bool is_open() const { return open_.load(std::memory_order_acquire); }

  /// Poisons the group with the failure, reports it, and returns the error for the given call.
  std::exception_ptr fail(const Failure& failure, std::string_view operation, std::uint64_t sequence);
  /// Returns true where the group is over, and where a member has died though no call of this group has met it: the group is over then.
  bool has_lost_a_member();
  /// Returns the error of a failure as the given call meets it.
  std::exception_ptr error_of(const Failure& failure, std::string_view operation, std::uint64_t sequence) const;
  /// Returns the error of a call that cannot begin because one before it has ended with the group.
  std::exception_ptr error_when_over(std::string_view operation, std::uint64_t sequence);
  /// Adds the group's name and the culprit's host to an error that comes from below.
  std::exception_ptr complete(std::exception_ptr error, std::string_view operation, std::uint64_t sequence) const;
  /// Completes the error of a call that is compared among all ranks, and reports it to the judge of how the job ended. From any thread.
  std::exception_ptr complete_collective(std::exception_ptr error, std::string_view operation, std::uint64_t sequence);
  void note_mismatch(const Mismatch& mismatch, int ranks, std::uint64_t sequence);
  /// Notes that all ranks throw this error, because of one of them, at the call of that number: if none follows it, it is why they end.
  void note_error_of_all(const Error& error, int culprit, int ranks, std::uint64_t sequence);
  /// Returns the facts about an error of a call. `culprit`: a rank of the group; none, or a negative number: nobody.
  ErrorInfo error_info(std::string_view operation, std::uint64_t sequence, std::optional<int> culprit = {}) const;
  /// The sequence number of the last call. From any thread.
  std::uint64_t last_call() const { return lane_->last_call.load(); }
  /// Returns true where nothing was called since a collective that was a Mismatch: a group that ends now ends because of it.
  bool is_after_mismatch() const { return last_mismatch_.load() != 0 && last_mismatch_.load() == lane_->last_call.load(); }

 private:
  class Entry;
  /// Returns the sentence of a failure, which names the rank whose deadline passed where that is another one.
  std::string text_of(const Failure& failure) const;
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
  int in_world(int rank) const { return rank < 0 ? -1 : parts_.global_ranks[static_cast<std::size_t>(rank)]; }
  /// Returns the number by which the record knows a rank of the group.
  int in_record(int rank) const {
    const int of_world = in_world(rank);
    return of_world < 0 || parts_.recorded_ranks.empty() ? of_world : parts_.recorded_ranks[static_cast<std::size_t>(of_world)];
  }
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

  GroupParts parts_;
  std::optional<Device> device_;
  std::unique_ptr<HostStaging> staging_;  // once it is needed
  const bool compares_shapes_;
  const RefusedValues refused_values_;
  Seals seals_;
  const std::uint16_t number_;  // in the record
  const int exceptions_;        // that were under way when the group was made
  std::shared_ptr<Lane> lane_;
  std::atomic<bool> busy_{false};
  std::atomic<bool> open_{true};
  std::atomic<bool> reported_{false};
  std::atomic<std::uint64_t> last_mismatch_{0};  // the number of the last collective that was one
  std::uint64_t sequence_ = 0;
  base::Clock::time_point next_look_{};  // for failures, by probes that do not wait
};

}  // namespace unisono::group

#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "unisono/counts.h"
#include "unisono/detail/standard.h"
#include "unisono/device_runtime.h"
#include "unisono/error.h"
#include "unisono/export.h"
#include "unisono/operation.h"
#include "unisono/reduce_op.h"
#include "unisono/store.h"
#include "unisono/tensor.h"

namespace unisono {

namespace engine {
class Bell;
}
namespace transport {
class Link;
}

/// What a call on device memory has beside the others.
struct DeviceCall {
  /// Of a call with several tensors on each rank, each on a device of its own: all of them; `in` and `out` of the call are the first then. Else
  /// empty.
  std::vector<Tensor> ins = {}, outs = {};
  std::string terms = {};                                ///< what `also` shows
  std::vector<std::shared_ptr<DeviceEvent>> after = {};  ///< what its memory waits for
};

/// One collective as it reaches a backend: validated, both views contiguous, memory untouched by anybody else until it is done.
struct CollectiveCall {
  Operation operation = Operation::barrier;
  Tensor in{nullptr, DType::uint8, std::size_t{0}};   ///< what this rank gives; where it gives nothing: empty, of the operation's dtype
  Tensor out{nullptr, DType::uint8, std::size_t{0}};  ///< where its result goes; empty where it gets none; may be the same memory as `in`
  /// Elements that every rank agrees on: of the smaller of a rank's input and output; of an operation with counts, their sum; of all_to_all_v, 0.
  std::size_t count = 0;
  ReduceOp op = ReduceOp::sum;
  std::shared_ptr<const detail::CustomReduction> custom = {};  ///< instead of `op`
  std::optional<double> factor = {};                           ///< of what this rank gives to a sum; only where the memory is a device's
  int root = -1;                                               ///< rank in the group; -1: the operation has none
  int tag = 0;
  std::uint64_t sequence = 0;  ///< of this call in its group, from 1
  /// Of an operation with counts, size() each: the length of every rank's block, the same on all ranks. Of all_to_all_v what this rank sends to each
  /// and expects from each, which must fit together. The blocks lie one behind the other in group order.
  Counts counts = {}, recv_counts = {};
  /// What the user called, where that is made of several operations; ranks must agree on it. A string literal.
  std::string_view label = {};
  std::string_view also = {};               ///< with a label: what else they must agree on, as text
  std::shared_ptr<DeviceCall> device = {};  ///< null where the memory is the host's, and before the call is on its way
};
/// What the user called.
inline std::string_view name_of(const CollectiveCall& call) noexcept { return call.label.empty() ? to_string(call.operation) : call.label; }

/// One side of a message. `peer` is a rank in the group, -1 for a receive from anybody.
struct MessageCall {
  Tensor data{nullptr, DType::uint8, std::size_t{0}};
  int peer = -1;
  int tag = 0;
  std::uint64_t sequence = 0;
  std::string_view label = {};  ///< as of a CollectiveCall
};

/// The message that a receive has taken, or that a probe has found, as far as it is known before its elements.
struct Arrival {
  int source = -1;  ///< rank in the group; -1: there is none yet
  int tag = 0;
  std::uint32_t kind = 0;  ///< by which both sides compare dtype and label
  std::uint64_t bytes = 0;
};

/// An operation under way. Driven by one thread at a time.
class UNISONO_API Task {
 public:
  virtual ~Task();
  /// Goes as far as it can without waiting; true when all is done. Throws Mismatch; the task is over then.
  virtual bool advance() = 0;
  /// The ranks it waits for just now.
  virtual std::vector<int> waiting_for() const = 0;
  /// True if any one of `waiting_for` would do (a receive from anybody).
  virtual bool any_will_do() const { return false; }
  /// Whether a bell is rung when it may go on; if not, whoever waits looks again every now and then.
  virtual bool is_rung_for() const { return true; }
  /// The message of a receive or a probe that is done.
  virtual Arrival arrival() const { return {}; }
  /// Of one on device memory that is done, which means that it is enqueued: when the device is done. Null: there is nothing left to do.
  virtual std::shared_ptr<DeviceEvent> completion() const { return nullptr; }
  /// Of a send: takes over what is left to send, so that the caller's buffer is free. False if it cannot.
  virtual bool detach() { return false; }
};

/// Why a group is no longer sound.
struct Failure {
  enum class Kind { timeout, peer_failed } kind = Kind::peer_failed;
  PeerFailed::Cause cause = PeerFailed::Cause::disconnected;
  int culprit = -1;               ///< rank in the group; -1: nobody in particular
  std::vector<int> missing = {};  ///< of a timeout
  std::string message = {};
};

/// Thrown by a task or by `run` of a backend that finds that its group is over.
class UNISONO_API GroupFailure final : public std::exception {
 public:
  explicit GroupFailure(Failure failure) : failure_(std::make_shared<const Failure>(std::move(failure))) {}
  ~GroupFailure() override;
  const char* what() const noexcept override { return failure_->message.c_str(); }
  const Failure& failure() const noexcept { return *failure_; }

 private:
  std::shared_ptr<const Failure> failure_;
};

/// What waits for a task on behalf of a blocking call: it spins, yields, sleeps, and looks for failures and the deadline.
class UNISONO_API Waiter {
 public:
  virtual ~Waiter();
  virtual void wait(Task& task) = 0;
  /// How long the call may take from when it began.
  virtual std::chrono::milliseconds timeout() const = 0;
};

struct Capabilities {
  bool any_source = true;         ///< receives from anybody
  bool custom_operations = true;  ///< callables in place of a ReduceOp
  bool spans_hosts = false;
  std::optional<Device> device = {};  ///< whose memory it works on, beside the host's
};

/// One group's engine. Validation, comparison of argument sizes, deadlines, ordering of asynchronous calls, packing of strided views and
/// fallbacks are above it. Collectives are driven by one thread at a
/// time, and so are messages, but these may be two threads; poison and the failure queries come from any.
class UNISONO_API Backend {
 public:
  virtual ~Backend();
  virtual std::string_view name() const noexcept = 0;
  virtual Capabilities capabilities() const = 0;
  /// Whether a call on memory of devices is carried out there. One that is not goes through the host's memory, so this depends on nothing in which
  /// ranks may differ.
  virtual bool offers(const CollectiveCall& call) const {
    static_cast<void>(call);
    return true;
  }
  /// Blocking. The default starts a task and lets the waiter wait for it.
  virtual void run(const CollectiveCall& call, Waiter& waiter);
  virtual std::unique_ptr<Task> start(const CollectiveCall& call) = 0;
  virtual std::unique_ptr<Task> start_send(const MessageCall& call) = 0;
  virtual std::unique_ptr<Task> start_recv(const MessageCall& call) = 0;
  /// Done when the message has come that the next receive from there with that tag will take; takes nothing of it. `data` does not count. The default
  /// throws Unsupported.
  virtual std::unique_ptr<Task> start_probe(const MessageCall& call);
  /// Tells every rank of the group that it is over. The first failure stands.
  virtual void poison(const Failure& failure) = 0;
  /// What poisoned the group, if anything did: cheap.
  virtual std::optional<Failure> failure() = 0;
  /// Looks for peers that are gone (may make system calls). `waiting_for` are the ranks somebody waits for just now.
  virtual std::optional<Failure> look_for_failures(std::span<const int> waiting_for, bool any_will_do) = 0;
  /// Finds one of these ranks that is dead, or has been stopped for too long, whatever became of the group; none of those that have left.
  virtual std::optional<Failure> look_at(std::span<const int> ranks) {
    static_cast<void>(ranks);
    return std::nullopt;
  }
  /// The ranks whose processes are known to be dead or to have left, ascending.
  virtual std::vector<int> gone() { return {}; }
  /// What peers ring when something may have changed; null: nobody does, and waiters poll.
  virtual engine::Bell* bell() { return nullptr; }
  /// The bell of another rank of this host; null: not known.
  virtual engine::Bell* bell_of(int rank) {
    static_cast<void>(rank);
    return nullptr;
  }
  /// The connections with other hosts; null: there is no other, or they are not ours.
  virtual std::shared_ptr<transport::Link> link() const { return nullptr; }
  /// More ranks than processors: waiting should give way early.
  virtual bool crowded() const { return false; }
  /// The last word of a rank that finalizes: it will not be missed any more.
  virtual void leave() {}
};

/// What a factory is told about the group it makes an engine for.
struct BackendOptions {
  std::string group_name;
  std::string key;                      ///< the same on all members, and of no other group
  int rank = 0;                         ///< in the group
  std::vector<int> global_ranks;        ///< of the members, in group order
  std::vector<std::string> host_names;  ///< of the members
  std::vector<int> hosts;               ///< for each member the number of its host, in order of first appearance; empty: all are on one
  std::vector<int> names;               ///< by which errors call the members, where that is not their rank in the group
  int local_rank = 0;                   ///< of this process on its host
  std::string address;                  ///< numeric, by which members on other hosts reach this rank
  std::string token;                    ///< the job's secret; empty where there is none
  std::shared_ptr<Store> store;         ///< the group's own, under its prefix
  std::shared_ptr<Store> job_store;     ///< under `unisono run`, the launcher's; else null
  std::shared_ptr<Backend> world;       ///< the engine of the world; null when it is the world's that is made
  std::chrono::milliseconds timeout{};
};

using BackendFactory = std::function<std::unique_ptr<Backend>(const BackendOptions&)>;

/// Makes a backend known by name (lower case), for `initialize` and `UNISONO_BACKEND`. InvalidArgument if the name is taken or malformed.
UNISONO_API void register_backend(std::string_view name, BackendFactory factory);

}  // namespace unisono

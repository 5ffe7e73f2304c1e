#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "unisono/call.h"
#include "unisono/detail/standard.h"
#include "unisono/device_runtime.h"
#include "unisono/export.h"
#include "unisono/failure.h"
#include "unisono/store.h"
#include "unisono/task.h"

namespace unisono {

/// Moves and combines data among the ranks of one group: in shared memory, by an MPI communicator,
/// a Gloo context, an NCCL communicator, or over connections of its own. It does nothing else, and
/// it is the one extension point of the library.
///
/// - Before a call reaches an engine, all ranks have arrived at that call and agree on it, unless
///   the engine compares calls itself.
/// - One collective is under way at a time.
/// - Schedules compose what an engine does not offer from what it does.
/// - Deadlines, and dead and silent peers, are seen from outside, which ends the engine by `abort`.
/// - An engine may throw any exception. The group is over then, and every rank gets a PeerFailed
///   with the exception's text.
///
/// docs/guide/write-a-backend.md is the guide for authors.
class UNISONO_API Engine {
 public:
  virtual ~Engine();
  /// Returns the name by which users choose the engine.
  virtual std::string_view name() const noexcept = 0;
  /// Returns the kind of device whose memory the engine works on.
  virtual Device::Type device_type() const noexcept { return Device::Type::cpu; }
  /// Returns the device that an engine of devices works on in this process.
  virtual Device device() const noexcept { return {.type = device_type(), .index = 0}; }
  /// Returns the interface to its devices; null for an engine that works on the host's memory.
  virtual std::shared_ptr<DeviceRuntime> runtime() { return nullptr; }

  /// Tells whether the first step of every collective shows that all ranks have come and call the
  /// same. Such an engine throws Mismatch on every rank if they do not, and the group does not
  /// ask the ranks before. It does the operations that it `offers`; others are composed.
  virtual bool compares_calls() const noexcept { return false; }

  /// Tells whether the engine does this collective by itself. `in` and `out` are contiguous, and share
  /// memory at most as collectives.h allows. The answer is the same on all ranks: it does not depend on
  /// addresses, nor on the rank that is asked.
  virtual bool offers(const CollectiveCall& call) const {
    static_cast<void>(call);
    return false;
  }
  /// Begins a collective that the engine offers. The call's memory stays valid; the call itself has
  /// to be copied. Never waits for a peer.
  virtual std::unique_ptr<Task> start(const CollectiveCall& call);

  /// Tells whether the calls of the engine can only be waited for. `run` then takes the place of
  /// `start`, and is called by the user's thread or by a thread of the library.
  virtual bool blocks() const noexcept { return false; }
  /// Tells whether asynchronous calls use `start`. Otherwise a thread of the library waits in `run`.
  virtual bool starts() const noexcept { return !blocks(); }
  /// Carries out a collective that the engine offers. `abort` from another thread makes it end
  /// soon, with an exception.
  virtual void run(const CollectiveCall& call);
  /// Carries out a collective that the engine offers, for a caller that waits. The default calls
  /// `run` if the engine blocks; otherwise it calls `start`, and `waiter` waits for the task.
  virtual void carry_out(const CollectiveCall& call, Waiter& waiter);

  /// Tells whether the engine has `start_send` and `start_recv`. An engine without them offers
  /// all_to_all_v of any dtype. Everything else can be composed from either.
  virtual bool has_channels() const noexcept { return false; }
  /// Sends bytes to a rank on a channel. Bytes that are sent to a rank on one channel arrive in the
  /// order of the calls; channels do not wait for each other. Both sides name the same length. The
  /// memory stays valid until the task is done. A task that is destroyed before belongs to a group
  /// that is over.
  virtual std::unique_ptr<Task> start_send(const void* data, std::size_t bytes, int peer, std::uint32_t channel);
  /// Receives bytes of a rank on a channel.
  virtual std::unique_ptr<Task> start_recv(void* data, std::size_t bytes, int peer, std::uint32_t channel);
  /// Receives bytes that nobody wants, those of a message of another length than its receive for
  /// instance, and drops them. The default receives them into memory that it allocates, and throws
  /// ProtocolError if there is not that much.
  virtual std::unique_ptr<Task> start_discard(std::size_t bytes, int peer, std::uint32_t channel);
  /// Sends the elements of a message, on an engine of devices: contiguous on its device, behind the
  /// events in `after`. Messages from one rank to another keep the order of the calls, and do not
  /// wait for others. The task is done when the send is enqueued, and its completion says when the
  /// device is.
  virtual std::unique_ptr<Task> start_device_send(const TensorView& data, int peer, const std::vector<std::shared_ptr<DeviceEvent>>& after);
  /// Receives the elements of a message, on an engine of devices.
  virtual std::unique_ptr<Task> start_device_recv(const TensorView& data, int peer, const std::vector<std::shared_ptr<DeviceEvent>>& after);
  /// Returns the largest number that a channel may have; at least 32767.
  virtual std::uint32_t largest_channel() const noexcept { return 32767; }

  /// Ends the engine, since the group is over: operations under way end soon, and nothing new
  /// begins. It is called once, from any thread.
  virtual void abort(const Failure& failure) noexcept = 0;
  /// Ends the engine in order. Every rank calls it, or `abort`, or neither (a rank that dies).
  virtual void leave() {}
};

/// The facts that an engine is told about the group it serves.
struct EngineOptions {
  /// The name of the group, for messages.
  std::string group_name;
  /// A text that is the same on all members, and that no other group of the job has.
  std::string key;
  /// The rank of this process in the group.
  int rank = 0;
  /// The ranks of the members within the world, in group order.
  std::vector<int> global_ranks;
  /// The number of each member's host, counted from 0 in the order of first appearance.
  std::vector<int> hosts;
  /// The number of this process on its host, which says which device is its own.
  int local_rank = 0;
  /// The numeric address of the interface by which the members reach this rank; that of the
  /// loopback device if all are on one host.
  std::string address;
  /// A store of the engine's own, in which its ranks can meet.
  std::shared_ptr<Store> store;
  /// The deadline of making the engine.
  std::chrono::milliseconds timeout{};
  /// Whether nobody asked for this engine by name. It should then cost as little as it can until it
  /// is used.
  bool at_need = false;
  /// Whether a host has more ranks than processors, so that waiting should give way early.
  bool crowded = false;
  /// Notifies the threads of this rank that wait for a task, from any thread. An engine whose tasks
  /// wake waiters (Task::wakes_waiter) calls it when a task may go on. Null: there is nobody to
  /// notify, and tasks are asked again and again.
  std::function<void()> notify = {};
  /// Tells whether a thread of this rank sleeps until it is notified, or asks its tasks a last time
  /// before it does. Null if `notify` is.
  std::function<bool()> has_sleeper = {};
  /// Returns the number of members.
  int size() const { return static_cast<int>(global_ranks.size()); }
};

/// Makes the engine of a group; it is called on every member. Throws BackendUnavailable, saying
/// what is missing, if the engine cannot be used.
using EngineFactory = std::function<std::unique_ptr<Engine>(const EngineOptions&)>;

/// The device of one process, as an engine of devices chooses it.
struct OwnDevice {
  /// The device, by the number that the process knows it by.
  Device device = {};
  /// A text that is the same for all processes of a host that are on the device, whatever number
  /// they know it by: its address on the bus.
  std::string address = {};
  /// Whether the engine works if several ranks are on the device.
  bool may_be_shared = false;
};

/// The facts about an engine that are known before there is one.
struct EngineTraits {
  /// The kind of device whose memory it works on.
  Device::Type device = Device::Type::cpu;
  /// Whether its ranks may be on several hosts.
  bool spans_hosts = true;
  /// Returns why the engine cannot be used here, or "" if it can. Null: it always can.
  ///
  /// An engine of devices answers as far as it can without the devices' runtime, since a process
  /// that has started the runtime cannot fork ranks which use it.
  std::function<std::string()> why_not = {};
  /// Returns why an engine of devices cannot be used, with the help of the runtime. Only processes
  /// that join a job ask it. Null: there is nothing more to say.
  std::function<std::string()> why_not_as_a_rank = {};
  /// Returns why `auto` should not take the engine between hosts in place of tcp, or "" if it should,
  /// for instance because this host has a device that the engine is for. Null: `auto` never takes it.
  std::function<std::string()> why_not_auto = {};
  /// Describes the device of the process with that number on its host. It is called only if nothing
  /// is missing. The ranks compare the devices before they take the engine. Null: each rank is on a
  /// device of its own.
  std::function<OwnDevice(int local_rank)> own_device = {};
};

/// Makes an engine known by name, for `initialize` and `UNISONO_BACKEND`.
///
/// ```cpp
/// unisono::register_engine("mine", [](const unisono::EngineOptions& o) { return std::make_unique<MyEngine>(o); });
/// unisono::initialize("mine");
/// ```
///
/// @throws InvalidArgument if the name is taken, or is not of lower-case letters, digits, '_' and
///   '-'
UNISONO_API void register_engine(std::string_view name, EngineFactory factory, EngineTraits traits = {});

/// Computes into[i] = op(into[i], with[i]) for `count` elements, as every engine of the library
/// does.
///
/// Half and bfloat16 are rounded each time: to combine more than two, widen them first.
UNISONO_API void combine(DType dtype, ReduceOp op, void* into, const void* with, std::size_t count);

/// Divides `count` elements by `divisor`, rounding once: the second half of an average whose sum is
/// complete.
UNISONO_API void divide(DType dtype, void* data, std::size_t count, int divisor);

// ---- plug-ins -------------------------------------------------------------------------------------------------

/// The version of the interface between library and plug-ins. It is raised whenever anything in
/// this header, or in a header that it includes, changes in a way that a plug-in can notice.
inline constexpr std::uint32_t plugin_abi = 8;

/// A job that another launcher has started and whose ranks that launcher's library has already
/// joined: enough to meet by.
struct Bootstrap {
  /// The rank of this process, and the number of processes.
  int rank = 0, size = 1;
  /// Collective over the job: every rank gets rank 0's text.
  std::function<std::string(const std::string& of_rank_0)> broadcast;
};

/// The description of a plug-in. The function `unisono_plugin` of a libunisono_<name>.so returns a
/// pointer to one, which stays valid.
struct Plugin {
  /// The version that the plug-in was built for. It is looked at before anything else.
  std::uint32_t abi = plugin_abi;
  /// The name of the engine, as in the file's name.
  const char* name = nullptr;
  /// A line that says what the engine is built for.
  const char* about = nullptr;
  /// Returns the traits of the engine.
  EngineTraits (*traits)() = nullptr;
  /// Makes the engine of a group.
  std::unique_ptr<Engine> (*make)(const EngineOptions& options) = nullptr;
  /// For an engine whose library brings its own ranks: joins that job if this process was started
  /// as part of one (`join`), or tells whether the program itself has joined it already. Null if
  /// there is no such thing.
  std::optional<Bootstrap> (*bootstrap)(bool join) = nullptr;
  /// Returns the runtime of an engine of devices, even if the engine itself cannot be used.
  /// BackendUnavailable says what is missing. Null if there is none.
  std::shared_ptr<DeviceRuntime> (*runtime)() = nullptr;
};

}  // namespace unisono

/// Marks the entry point of a plug-in.
#define UNISONO_PLUGIN extern "C" [[gnu::visibility("default")]] const unisono::Plugin* unisono_plugin()

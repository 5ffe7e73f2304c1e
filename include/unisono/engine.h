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

/// Moves and combines data among the ranks of one group: in shared memory, by an MPI communicator, a Gloo context, an NCCL communicator, or over
/// connections of its own. It does nothing else, and it is the one extension point of the library. Before a call reaches it, all ranks have arrived
/// at that call and agree on it, unless it compares calls itself; one collective is under way at a time. Schedules compose what it does not offer of
/// what it does. Deadlines, dead and silent peers are seen from outside, which ends the engine by `abort`. An error is any exception: the group is
/// over then, and every rank gets a PeerFailed with the exception's text.
class UNISONO_API Engine {
 public:
  virtual ~Engine();
  virtual std::string_view name() const noexcept = 0;
  /// The devices whose memory it works on.
  virtual Device::Type device_type() const noexcept { return Device::Type::cpu; }
  /// Of an engine of devices: the one that it works on in this process.
  virtual Device device() const noexcept { return {.type = device_type(), .index = 0}; }
  /// Of an engine of devices: what those above it ask of them.
  virtual std::shared_ptr<DeviceRuntime> runtime() { return nullptr; }

  /// True of an engine whose first step of every collective shows that all ranks have come and call the same: it throws Mismatch on every rank where
  /// they do not. The group does not ask the ranks before.
  virtual bool compares_calls() const noexcept { return false; }

  /// Whether it carries out this collective as it stands (`in` and `out` contiguous, at most one of them in the other's place as collectives.h
  /// allows). Depends on nothing in which ranks may differ: not on addresses, nor on which rank it is asked on.
  virtual bool offers(const CollectiveCall& call) const {
    static_cast<void>(call);
    return false;
  }
  /// Begins one that it offers. `call`'s memory stays; the call itself is to be copied. Never waits for a peer.
  virtual std::unique_ptr<Task> start(const CollectiveCall& call);

  /// True of an engine whose calls can only be waited for: `run` takes the place of `start`, and comes from the caller's thread or one of ours.
  virtual bool blocks() const noexcept { return false; }
  /// Whether asynchronous calls may use `start` even so; else a thread of ours waits in `run`.
  virtual bool starts() const noexcept { return !blocks(); }
  /// Carries out one that it offers. `abort` from another thread makes it end soon, with an exception.
  virtual void run(const CollectiveCall& call);
  /// Carries out one that it offers, for a caller that waits. By default `run` of an engine that blocks, else `start`, and `waiter` waits for the
  /// task.
  virtual void carry_out(const CollectiveCall& call, Waiter& waiter);

  /// Whether it has `start_send` and `start_recv`. An engine without them offers all_to_all_v of any dtype: everything can be composed of either.
  virtual bool has_channels() const noexcept { return false; }
  /// Bytes to one rank. What is sent to a rank on one channel arrives in the order of the calls; channels do not wait for each other. Both sides
  /// name the same length. The memory stays until the task is done. A task that is destroyed before is one of a group that is over.
  virtual std::unique_ptr<Task> start_send(const void* data, std::size_t bytes, int peer, std::uint32_t channel);
  virtual std::unique_ptr<Task> start_recv(void* data, std::size_t bytes, int peer, std::uint32_t channel);
  /// Receives bytes that nobody wants, as of a message of another length than its receive, and drops them. Unless it is overridden, it receives them
  /// into memory that it makes for them: ProtocolError where there is not that much.
  virtual std::unique_ptr<Task> start_discard(std::size_t bytes, int peer, std::uint32_t channel);
  /// Sends or receives the elements of a message, on an engine of devices: contiguous on its device, to or from a rank, behind the events in `after`.
  /// Messages from one rank to another keep the order of the calls, and do not wait for others. Done when it is enqueued; the task's completion says
  /// when the device is.
  virtual std::unique_ptr<Task> start_device_send(const TensorView& data, int peer, const std::vector<std::shared_ptr<DeviceEvent>>& after);
  virtual std::unique_ptr<Task> start_device_recv(const TensorView& data, int peer, const std::vector<std::shared_ptr<DeviceEvent>>& after);
  /// The largest number that a channel may have; at least 32767.
  virtual std::uint32_t largest_channel() const noexcept { return 32767; }

  /// The group is over: whatever is under way ends soon, and nothing new begins. Once, from any thread.
  virtual void abort(const Failure& failure) noexcept = 0;
  /// The group ends in order; every rank calls it, or `abort`, or neither (a rank that dies).
  virtual void leave() {}
};

/// The facts that an engine is told about the group it serves.
struct EngineOptions {
  std::string group_name;
  std::string key;                ///< the same on all members, and of no other group of the job
  int rank = 0;                   ///< in the group
  std::vector<int> global_ranks;  ///< of the members, in group order
  std::vector<int> hosts;         ///< for each member the number of its host, counted from 0 in the order of first appearance
  int local_rank = 0;             ///< of this process on its host: which device is its own
  std::string address;           ///< numeric, of the interface by which the members reach this rank; of the loopback device where all are on one host
  std::shared_ptr<Store> store;  ///< the engine's own, under a prefix of its own
  std::chrono::milliseconds timeout{};  ///< of making it
  bool at_need = false;                 ///< nobody asked for this engine by name: it costs as little as can be until it is used
  bool crowded = false;                 ///< more ranks than processors on a host: waiting should give way early
  int size() const { return static_cast<int>(global_ranks.size()); }
};

/// Makes the engine of a group; called on every member. Throws BackendUnavailable where it cannot be used, and says what is missing.
using EngineFactory = std::function<std::unique_ptr<Engine>(const EngineOptions&)>;

struct EngineTraits {
  Device::Type device = Device::Type::cpu;
  bool spans_hosts = true;
  /// Why it cannot be used here; "" where it can. Null: it always can. Of an engine of devices: as far as that shows without the devices' runtime. A
  /// process that has started that cannot fork ranks which use it.
  std::function<std::string()> why_not = {};
  /// The same of an engine of devices with the runtime, asked by processes that join a job and by no others. Null: there is nothing more to say.
  std::function<std::string()> why_not_as_a_rank = {};
};

/// Makes an engine known by name (lower case), for `initialize` and `UNISONO_BACKEND`. InvalidArgument if the name is taken or malformed.
UNISONO_API void register_engine(std::string_view name, EngineFactory factory, EngineTraits traits = {});

/// into[i] = op(into[i], with[i]), as every engine of ours combines. Half and bfloat16 are rounded each time: widen them first where there are more
/// than two.
UNISONO_API void combine(DType dtype, ReduceOp op, void* into, const void* with, std::size_t count);

// ---- plug-ins -------------------------------------------------------------------------------------------------

/// Raised whenever anything in this header, or in a header that it includes, changes in a way that a plug-in can notice.
inline constexpr std::uint32_t plugin_abi = 3;

/// A job that somebody else's launcher started and whose ranks that launcher's library has already joined: enough to meet by.
struct Bootstrap {
  int rank = 0, size = 1;
  std::function<std::string(const std::string& of_rank_0)> broadcast;  ///< collective over the job; every rank gets rank 0's text
};

/// What `extern "C" const unisono::Plugin* unisono_plugin()` of a libunisono_<name>.so returns; static.
struct Plugin {
  std::uint32_t abi = plugin_abi;  ///< looked at before anything else
  const char* name = nullptr;      ///< as in the file's name
  const char* about = nullptr;     ///< one line: what it is built for
  EngineTraits (*traits)() = nullptr;
  std::unique_ptr<Engine> (*make)(const EngineOptions& options) = nullptr;
  /// Of an engine whose library brings its own ranks: joins that job where this process was started as part of one (`join`), or says whether the
  /// program itself has joined it already. Null: there is no such thing.
  std::optional<Bootstrap> (*bootstrap)(bool join) = nullptr;
  /// The runtime of an engine of devices, also where the engine itself cannot be used. BackendUnavailable says what is missing. Null: there is
  /// none.
  std::shared_ptr<DeviceRuntime> (*runtime)() = nullptr;
};

}  // namespace unisono

/// Marks the entry point of a plug-in.
#define UNISONO_PLUGIN extern "C" [[gnu::visibility("default")]] const unisono::Plugin* unisono_plugin()

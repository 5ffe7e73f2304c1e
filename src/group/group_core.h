#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "coordination/coordination.h"
#include "coordination/host_ranks.h"
#include "engines/message.h"
#include "engines/registry.h"
#include "group/devices/device_messages.h"
#include "group/messages/channel_carrier.h"
#include "group/messages/message_matcher.h"
#include "schedule/executor.h"
#include "unisono/call.h"
#include "unisono/engine.h"

namespace unisono::group {

/// The callables with captures that all ranks of a group have tried once, by their code. Later calls are taken to be alike, whatever they have
/// captured. Any thread may use it.
class TriedCallables {
 public:
  void add(std::uint64_t code);
  /// Leaves out what the call's callable has captured, where it is known.
  void recognise(CollectiveCall& call) const;

 private:
  mutable std::mutex mutex_;
  std::set<std::uint64_t> codes_;
};

/// The parts of a group below the checks and the queue: coordination, the engines under their schedules, and the messages.
class GroupCore {
 public:
  struct Parts {
    std::shared_ptr<coordination::Coordination> coordination;
    schedule::Engines engines;
    std::string name;  ///< as `ProcessGroup::backend` returns it; empty: the engine's
    schedule::SharedNetworks networks = {};
    bool engine_is_on_link = false;  ///< it works on our connections
  };
  explicit GroupCore(Parts parts);
  ~GroupCore();
  GroupCore(const GroupCore&) = delete;
  GroupCore& operator=(const GroupCore&) = delete;

  std::string_view name() const noexcept { return name_.empty() ? executor_->name() : std::string_view(name_); }
  coordination::Coordination& coordination() { return *coordination_; }
  const std::shared_ptr<coordination::Coordination>& shared_coordination() const { return coordination_; }
  schedule::Executor& executor() { return *executor_; }
  TriedCallables& tried_callables() { return tried_callables_; }
  /// Returns the device whose memory the group works on, beside the host's.
  std::optional<Device> device() const;
  /// Starts a send or a receive of host memory, or of the memory of that device.
  std::unique_ptr<Task> start_send(const engines::MessageCall& call);
  std::unique_ptr<Task> start_recv(const engines::MessageCall& call);
  MessageMatcher& messages() { return *messages_; }
  /// Sends contiguous host memory if it can leave at once, whole.
  engines::MessageCarrier::Tried try_send(const engines::MessageCall& call) { return messages_->try_send(call); }
  /// Starts a task that is done when the message has come that the next receive from there with that tag will take. The message stays; `data` does
  /// not count.
  std::unique_ptr<Task> start_probe(const engines::MessageCall& call) { return messages_->probe(call); }
  /// Tells the peers that this rank leaves the group, and how. Waits at most that long until their systems have what is pending.
  void leave(coordination::Leaving how, std::chrono::milliseconds at_most);

 private:
  std::string name_;
  std::shared_ptr<coordination::Coordination> coordination_;
  std::shared_ptr<schedule::Executor> executor_;
  std::unique_ptr<ChannelCarrier> channels_;  // null where there is one host
  std::unique_ptr<MessageMatcher> messages_;
  TriedCallables tried_callables_;
  std::unique_ptr<DeviceMessages> device_messages_;  // null where there is no engine of devices
};

/// What the launcher of this host gives its ranks, under `unisono run`; null and empty elsewhere.
struct LauncherOfRanks {
  std::shared_ptr<Store> store = nullptr;  ///< its own, where it records how processes ended
  /// A part of it that the ranks of this host alone use, and use instead of the group's store; null: they use that.
  std::shared_ptr<Store> for_host = nullptr;
  std::vector<std::string> names = {};  ///< its names for the members; empty: their global ranks

  std::shared_ptr<Store> store_of_host(const std::shared_ptr<Store>& of_group) const { return for_host ? for_host : of_group; }
};

/// The facts about a group whose core is made: those for its engines, whose `hosts` may be empty here (all members are on one) and whose `store` is
/// the group's own, and these.
struct CoreOptions : EngineOptions {
  double crowding = 1;                                             ///< the ranks of this and of other hosts for each processor that they share
  base::Secret token;                                              ///< the job's secret; empty where there is none
  LauncherOfRanks launcher = {};                                   ///< of the members
  std::shared_ptr<coordination::Coordination> world;               ///< of the world; null when it is the world's core that is made
  std::shared_ptr<schedule::MeasuredNetworks> networks = nullptr;  ///< of the job
};

/// The engine of device memory that a group has beside its other engines.
struct DeviceEngine {
  EngineFactory make;    ///< null: none
  bool at_need = false;  ///< as in EngineOptions
  std::string name;      ///< as `ProcessGroup::backend` returns it then
};

/// Makes the core of a group on the engine that `maker` makes. Collective over its members.
std::unique_ptr<GroupCore> make_core(const CoreOptions& options, const engines::EngineMaker& maker, const DeviceEngine& device = {});
/// Returns the parts of the core of a group of one.
GroupCore::Parts parts_alone();
/// Returns the parts of one of several ranks that are threads of this process.
///
/// `global_ranks`: of the members, in group order; empty: as in the group.
GroupCore::Parts parts_of_threads(const std::shared_ptr<engines::HostMemory>& memory, int rank, int cpus, std::vector<int> global_ranks = {});

}  // namespace unisono::group

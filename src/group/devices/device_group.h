#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "engines/message.h"
#include "group/devices/device_streams.h"
#include "group/group_facts.h"
#include "unisono/detail/request.h"
#include "unisono/device_runtime.h"
#include "unisono/engine.h"

namespace unisono::group {

/// The memory of the host through which calls on memory of devices go, piece by piece, and the streams of the copies. The memory is pinned, if the
/// devices' runtime can do that, and kept from call to call. A group has one, which its calls use one after the other.
class HostStaging {
 public:
  /// Pieces that are under way at the same time.
  static constexpr std::size_t slots = 4;
  /// The directions of a copy.
  enum class Direction : std::size_t { to_host, to_device };

  explicit HostStaging(DeviceRuntime& runtime);
  /// Waits a while for copies under way. Memory to which a device may still write is never given back.
  ~HostStaging();
  HostStaging(const HostStaging&) = delete;
  HostStaging& operator=(const HostStaging&) = delete;

  /// Returns true where nothing is under way that an earlier call has left behind.
  bool is_idle();
  /// Sees to it that each slot has room for so many bytes in each direction. Only while it is idle.
  void reserve(std::size_t bytes);
  std::byte* memory(std::size_t slot, Direction direction) const;
  /// The stream of a device for one direction.
  DeviceStream& stream(Device device, Direction direction);
  /// Returns the end of what is on that stream now.
  std::shared_ptr<DeviceEvent> end(Device device, Direction direction);

 private:
  class Memory;
  DeviceRuntime& runtime_;
  std::unique_ptr<Memory> memory_;
  std::map<std::pair<int, Direction>, std::unique_ptr<DeviceStream>> streams_;
  std::map<std::pair<int, Direction>, std::shared_ptr<DeviceEvent>> ends_;  // the last ones
};

/// What calls on memory of devices need of their group.
class DeviceGroup {
 public:
  /// Both have to outlive it.
  DeviceGroup(const GroupFacts& facts, GroupCore& core);
  ~DeviceGroup();
  DeviceGroup(const DeviceGroup&) = delete;
  DeviceGroup& operator=(const DeviceGroup&) = delete;

  const GroupFacts& facts() const { return facts_; }
  int rank() const { return facts_.rank(); }
  int size() const { return facts_.size(); }
  GroupCore& core() const { return core_; }
  /// The memory through which calls go that no engine carries out on the devices.
  HostStaging& staging(DeviceRuntime& runtime);

 private:
  const GroupFacts& facts_;
  GroupCore& core_;
  std::unique_ptr<HostStaging> staging_;  // once it is needed
};

/// Makes the task of a call on memory of devices. The group's engine of devices gets what it offers; strided views are packed on their device, in the
/// order of its work. Everything else goes through the host's memory, which is logged once. All ranks take the same way.
std::unique_ptr<Task> device_task(DeviceGroup& group, const CollectiveCall& call, const detail::Request& request, const CallOptions& options,
                                  LastOnDevice last);
std::unique_ptr<Task> device_task(DeviceGroup& group, const engines::MessageCall& call, bool sends);

}  // namespace unisono::group

#pragma once

#include <memory>

#include "group/group_facts.h"

namespace unisono {
class DeviceRuntime;
}

namespace unisono::group {

class HostStaging;

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

}  // namespace unisono::group

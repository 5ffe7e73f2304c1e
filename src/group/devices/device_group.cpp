#include "group/devices/device_group.h"

#include "group/devices/host_staging.h"

namespace unisono::group {

DeviceGroup::DeviceGroup(const GroupFacts& facts, GroupCore& core) : facts_(facts), core_(core) {}
DeviceGroup::~DeviceGroup() = default;

HostStaging& DeviceGroup::staging(DeviceRuntime& runtime) {
  if (!staging_) staging_ = std::make_unique<HostStaging>(runtime);
  return *staging_;
}

}  // namespace unisono::group

#include "group/devices/device_group.h"

#include <algorithm>
#include <bit>
#include <chrono>

#include "base/deadline.h"
#include "engines/device_copy.h"
#include "unisono/shared_memory.h"

namespace unisono::group {
namespace {

constexpr std::size_t page = 4096;
constexpr std::size_t least_bytes = std::size_t{64} << 10;  // of a slot
constexpr std::chrono::seconds time_for_copies{2};

}  // namespace

/// Whole pages that the other ranks of the host can reach, so that what is exchanged among them is copied once.
class HostStaging::Memory {
 public:
  Memory(DeviceRuntime& runtime, std::size_t of_slot) : of_slot_(of_slot), bytes_(2 * slots * of_slot) {
    address_ = shared_resource()->allocate(bytes_, page);
    pinned_ = runtime.pin(address_, bytes_);
  }
  ~Memory() {
    pinned_.reset();
    shared_resource()->deallocate(address_, bytes_, page);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  std::size_t of_slot() const { return of_slot_; }
  std::byte* part(std::size_t index) const { return static_cast<std::byte*>(address_) + index * of_slot_; }

 private:
  std::size_t of_slot_, bytes_;
  void* address_ = nullptr;
  std::shared_ptr<void> pinned_;
};

HostStaging::HostStaging(DeviceRuntime& runtime) : runtime_(runtime) {}

HostStaging::~HostStaging() {
  const base::Deadline deadline(time_for_copies);
  bool is_done = true;
  for (const auto& [where, event] : ends_) {
    try {
      is_done = engines::wait_for(*event, deadline) && is_done;
    } catch (const std::exception&) {  // the device has failed, and nobody knows what it still does
      is_done = false;
    }
  }
  if (!is_done) static_cast<void>(memory_.release());
}

bool HostStaging::is_idle() {
  std::erase_if(ends_, [](const auto& entry) { return entry.second->reached(); });
  return ends_.empty();
}

void HostStaging::reserve(std::size_t bytes) {
  if (memory_ && memory_->of_slot() >= bytes) return;
  memory_.reset();
  memory_ = std::make_unique<Memory>(runtime_, std::bit_ceil(std::max(bytes, least_bytes)));
}

std::byte* HostStaging::memory(std::size_t slot, Direction direction) const { return memory_->part(2 * slot + static_cast<std::size_t>(direction)); }

DeviceStream& HostStaging::stream(Device device, Direction direction) {
  auto& stream = streams_[{device.index, direction}];
  if (!stream) stream = runtime_.stream(device);
  return *stream;
}

std::shared_ptr<DeviceEvent> HostStaging::end(Device device, Direction direction) {
  return ends_[{device.index, direction}] = runtime_.record(device, stream(device, direction).handle());
}

DeviceGroup::DeviceGroup(const GroupFacts& facts, GroupCore& core) : facts_(facts), core_(core) {}
DeviceGroup::~DeviceGroup() = default;

HostStaging& DeviceGroup::staging(DeviceRuntime& runtime) {
  if (!staging_) staging_ = std::make_unique<HostStaging>(runtime);
  return *staging_;
}

}  // namespace unisono::group

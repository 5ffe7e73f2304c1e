#include "group/devices/device_watch.h"

#include <utility>

#include "schedule/device_call.h"

namespace unisono::group {

DeviceWatch::DeviceWatch(coordination::Coordination& coordination, std::shared_ptr<DeviceEvent> event)
    : attribution_(schedule::attribution_of_device(coordination)), event_(std::move(event)) {}

bool DeviceWatch::advance() {
  return attribution_.guard([&] { return event_->reached(); });
}

}  // namespace unisono::group

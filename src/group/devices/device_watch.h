#pragma once

#include <memory>
#include <vector>

#include "coordination/failure_attribution.h"
#include "unisono/device_runtime.h"
#include "unisono/task.h"

namespace unisono::group {

/// Waits until the device has finished an operation that was enqueued, on behalf of nobody: the call has returned, and only what goes wrong counts.
class DeviceWatch final : public Task {
 public:
  DeviceWatch(coordination::Coordination& coordination, std::shared_ptr<DeviceEvent> event);
  bool advance() override;
  // All ranks have come to the operation, so a rank whose part is done may leave.
  std::vector<int> waiting_for() const override { return {}; }
  bool wakes_waiter() const override { return false; }

 private:
  coordination::FailureAttribution attribution_;
  std::shared_ptr<DeviceEvent> event_;
};

}  // namespace unisono::group

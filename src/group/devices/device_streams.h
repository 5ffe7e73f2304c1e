#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "coordination/failure_attribution.h"
#include "unisono/call.h"
#include "unisono/detail/request.h"
#include "unisono/device_runtime.h"
#include "unisono/task.h"
#include "unisono/tensor.h"

namespace unisono::group {

using Events = std::vector<std::shared_ptr<DeviceEvent>>;

inline bool is_on_device(const TensorView& tensor) { return tensor.device().type != Device::Type::cpu; }
inline bool is_on_device(const CollectiveCall& call) { return call.device != nullptr || is_on_device(call.in) || is_on_device(call.out); }
/// Returns the numbers of the devices that the tensors lie on.
std::set<int> devices_of(std::span<const TensorView> tensors);
/// Returns the end of the last collective that the group has left to the device; asked when a call's turn comes. Null: there is none.
using LastOnDevice = std::function<std::shared_ptr<DeviceEvent>()>;
bool are_reached(const Events& events);
/// Returns the events that memory used from now on waits for: the end of the caller's current stream, or of the default stream of each device. There
/// is none where all is done.
Events events_now(DeviceRuntime& runtime, std::span<const TensorView> tensors);

/// The streams of one call, one for each of its devices.
class DeviceStreams {
 public:
  /// Makes a stream on each device of these tensors. Everything on the streams comes after all of `after`.
  DeviceStreams(DeviceRuntime& runtime, std::span<const TensorView> tensors, const Events& after);
  DeviceStream& of(const TensorView& tensor) { return *streams_.at(tensor.device().index); }
  void copy(std::span<const detail::TensorCopy> copies);
  void order(DeviceEvent& event);
  /// Returns the ends of what is on them now.
  Events end();

 private:
  DeviceRuntime& runtime_;
  std::map<int, std::unique_ptr<DeviceStream>> streams_;
};

/// The end of an operation on a device and of what comes after it there. The operation may be null: it has left nothing to do.
class DeviceCompletion final : public DeviceEvent {
 public:
  /// Keeps `kept` alive until the end.
  DeviceCompletion(std::shared_ptr<DeviceEvent> operation, Events after, std::shared_ptr<void> kept)
      : operation_(std::move(operation)), after_(std::move(after)), kept_(std::move(kept)) {}
  bool reached() override { return (!operation_ || operation_->reached()) && are_reached(after_); }
  void order(void* stream) override;

 private:
  std::shared_ptr<DeviceEvent> operation_;
  Events after_;
  std::shared_ptr<void> kept_;
};

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

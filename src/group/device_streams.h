#pragma once

#include <map>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "unisono/detail/request.h"
#include "unisono/device_runtime.h"
#include "unisono/tensor.h"

namespace unisono::group {

using Events = std::vector<std::shared_ptr<DeviceEvent>>;

inline bool is_on_device(const TensorView& tensor) { return tensor.device().type != Device::Type::cpu; }
/// The numbers of the devices that they lie on.
std::set<int> devices_of(std::span<const TensorView> tensors);
bool are_reached(const Events& events);
/// What memory waits for that is used from now on: all that is on the caller's current stream, or on the default stream of each of its devices.
Events events_now(DeviceRuntime& runtime, std::span<const TensorView> tensors);

/// Streams of one call's own, one for each of its devices.
class DeviceStreams {
 public:
  /// Of the devices of these tensors. What is put on them comes after all of `after`.
  DeviceStreams(DeviceRuntime& runtime, std::span<const TensorView> tensors, const Events& after);
  DeviceStream& of(const TensorView& tensor) { return *streams_.at(tensor.device().index); }
  void copy(std::span<const detail::TensorCopy> copies);
  void order(DeviceEvent& event);
  /// The end of what is on them now.
  Events end();

 private:
  DeviceRuntime& runtime_;
  std::map<int, std::unique_ptr<DeviceStream>> streams_;
};

/// The end of an operation on a device, if it has left anything to do there, and of what comes after it.
class DeviceCompletion final : public DeviceEvent {
 public:
  /// `kept` lives until then.
  DeviceCompletion(std::shared_ptr<DeviceEvent> operation, Events after, std::shared_ptr<void> kept)
      : operation_(std::move(operation)), after_(std::move(after)), kept_(std::move(kept)) {}
  bool reached() override { return (!operation_ || operation_->reached()) && are_reached(after_); }
  void order(void* stream) override;

 private:
  std::shared_ptr<DeviceEvent> operation_;
  Events after_;
  std::shared_ptr<void> kept_;
};

}  // namespace unisono::group

#include "group/devices/device_streams.h"

#include <algorithm>
#include <utility>

#include "engines/device_copy.h"
#include "schedule/device_call.h"
#include "unisono/cuda.h"

namespace unisono::group {

std::set<int> devices_of(std::span<const TensorView> tensors) {
  std::set<int> devices;
  for (const TensorView& tensor : tensors) {
    if (is_on_device(tensor)) devices.insert(tensor.device().index);
  }
  return devices;
}

bool are_reached(const Events& events) {
  return std::ranges::all_of(events, [](const auto& event) { return event->reached(); });
}

Events events_now(DeviceRuntime& runtime, std::span<const TensorView> tensors) {
  Events events;
  for (const int index : devices_of(tensors)) {
    const Device device{.type = runtime.type(), .index = index};
    if (!runtime.is_idle(device, current_stream())) events.push_back(runtime.record(device, current_stream()));
    if (current_stream() != nullptr) break;
  }
  return events;
}

DeviceStreams::DeviceStreams(DeviceRuntime& runtime, std::span<const TensorView> tensors, const Events& after) : runtime_(runtime) {
  for (const int index : devices_of(tensors)) {
    const auto& stream = streams_.emplace(index, runtime.stream({.type = runtime.type(), .index = index})).first->second;
    for (const auto& event : after) event->order(stream->handle());
  }
}

void DeviceStreams::copy(std::span<const detail::TensorCopy> copies) {
  for (const auto& [to, from] : copies) engines::copy(of(is_on_device(to) ? to : from), to, from);
}

void DeviceStreams::order(DeviceEvent& event) {
  for (const auto& [index, stream] : streams_) event.order(stream->handle());
}

Events DeviceStreams::end() {
  Events events;
  for (const auto& [index, stream] : streams_) events.push_back(runtime_.record({.type = runtime_.type(), .index = index}, stream->handle()));
  return events;
}

void DeviceCompletion::order(void* stream) {
  if (operation_) operation_->order(stream);
  for (const auto& event : after_) event->order(stream);
}

DeviceWatch::DeviceWatch(coordination::Coordination& coordination, std::shared_ptr<DeviceEvent> event)
    : attribution_(schedule::attribution_of_device(coordination)), event_(std::move(event)) {}

bool DeviceWatch::advance() {
  return attribution_.guard([&] { return event_->reached(); });
}

}  // namespace unisono::group

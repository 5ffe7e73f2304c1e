#include "unisono/device_runtime.h"

#include <atomic>
#include <mutex>

#include <fmt/format.h>

#include "engines/device_copy.h"
#include "base/deadline.h"
#include "unisono/cuda.h"
#include "unisono/error.h"

namespace unisono {
namespace {

std::atomic<DeviceRuntime*> registered{nullptr};
thread_local void* stream_of_thread = nullptr;

}  // namespace

DeviceEvent::~DeviceEvent() = default;
DeviceStream::~DeviceStream() = default;
DeviceRuntime::~DeviceRuntime() = default;
std::shared_ptr<void> DeviceRuntime::pin(void*, std::size_t) { return nullptr; }
bool DeviceRuntime::is_idle(Device, void*) { return false; }
bool DeviceRuntime::is_captured(Device, void*) { return false; }

void register_device_runtime(std::shared_ptr<DeviceRuntime> runtime) {
  static std::mutex mutex;
  static auto& kept = *new std::shared_ptr<DeviceRuntime>;  // never destroyed: threads may use it while the process ends
  const std::lock_guard lock(mutex);
  if (kept) return;
  kept = std::move(runtime);
  registered.store(kept.get(), std::memory_order_release);
}

DeviceRuntime* device_runtime() noexcept { return registered.load(std::memory_order_acquire); }

void set_current_stream(void* stream) noexcept { stream_of_thread = stream; }
void* current_stream() noexcept { return stream_of_thread; }

void synchronize_stream(void* stream, std::chrono::milliseconds timeout) {
  DeviceRuntime* runtime = device_runtime();
  if (runtime == nullptr) {
    throw Unsupported("no backend of this process works on devices", {.operation = "synchronize_stream", .hint = "initialize with backend nccl"});
  }
  const base::Deadline deadline(timeout);
  const auto event = runtime->record({.type = runtime->type(), .index = -1}, stream);
  if (!engines::wait_for(*event, deadline)) {
    throw Timeout(fmt::format("the device was not done with the stream within {} ms", timeout.count()), {.operation = "synchronize_stream"});
  }
}

}  // namespace unisono

#include "engines/device_memory.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>

#include "base/deadline.h"
#include "engines/device_copy.h"
#include "unisono/device_runtime.h"
#include "unisono/error.h"

namespace unisono::engines {
namespace {

constexpr std::chrono::milliseconds shortest_period{100};
constexpr int share_of_time = 100;  // samples take at most one part in so many
std::atomic<std::size_t> peak{0};
std::atomic<base::Clock::rep> next_sample{0};

std::size_t ask(Device device) {
  try {
    const DeviceRuntime::Memory memory = require_runtime(device.type).memory(device);
    return memory.own.value_or(memory.used);
  } catch (const std::exception& error) {
    throw Error(error.what(), {.operation = "gpu_mem_usage"});
  }
}

}  // namespace

std::size_t device_memory_in_use(Device device) {
  const std::size_t used = ask(device);
  std::size_t most = peak.load(std::memory_order_relaxed);
  while (used > most && !peak.compare_exchange_weak(most, used, std::memory_order_relaxed)) {
  }
  return used;
}

std::size_t device_memory_peak() noexcept { return peak.load(std::memory_order_relaxed); }

void sample_device_memory(Device device) noexcept {
  const auto now = base::Clock::now().time_since_epoch();
  auto next = next_sample.load(std::memory_order_relaxed);
  const auto after = std::chrono::duration_cast<base::Clock::duration>(now + shortest_period).count();
  if (now.count() < next || !next_sample.compare_exchange_strong(next, after, std::memory_order_relaxed)) return;
  try {
    static_cast<void>(device_memory_in_use(device));
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): the caller that asks for the number gets the error
  }
  const auto end = base::Clock::now().time_since_epoch();
  const auto period = std::max<base::Clock::duration>(shortest_period, share_of_time * (end - now));
  next_sample.store((end + period).count(), std::memory_order_relaxed);
}

}  // namespace unisono::engines

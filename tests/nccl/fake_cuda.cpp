// The stand-in for the CUDA runtime and NVML.

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "fake_machine.h"

using namespace unisono::engines::nccl;
using namespace fake;

#define FAKE_CUDA(name)                                            \
  const std::lock_guard lock(machine().mutex);                     \
  if (is_lost_to_a_fork()) return CudaError::initialization_error; \
  if (const auto rule = told(name, device_of_thread)) return static_cast<CudaError>(rule->code)

FAKE_EXPORT CudaError cudaRuntimeGetVersion(int* version) {
  *version = 13000;
  return CudaError::success;
}
FAKE_EXPORT CudaError cudaDriverGetVersion(int* version) { return cudaRuntimeGetVersion(version); }
FAKE_EXPORT CudaError cudaGetDeviceCount(int* count) {
  FAKE_CUDA("cudaGetDeviceCount");
  *count = machine().devices;
  return CudaError::success;
}
FAKE_EXPORT CudaError cudaGetDevice(int* device) {
  FAKE_CUDA("cudaGetDevice");
  *device = device_of_thread;
  return CudaError::success;
}
FAKE_EXPORT CudaError cudaSetDevice(int device) {
  FAKE_CUDA("cudaSetDevice");
  if (device < 0 || device >= machine().devices) return CudaError::invalid_device;
  device_of_thread = device;
  return CudaError::success;
}
FAKE_EXPORT const char* cudaGetErrorName(CudaError error) {
  return error == CudaError::illegal_address ? "cudaErrorIllegalAddress" : "cudaErrorOfTheTest";
}
FAKE_EXPORT const char* cudaGetErrorString(CudaError error) {
  return error == CudaError::illegal_address ? "an illegal memory access was encountered" : "as the test says";
}
FAKE_EXPORT CudaError cudaGetLastError() { return CudaError::success; }
FAKE_EXPORT CudaError cudaStreamCreateWithFlags(Stream* stream, unsigned flags) {
  FAKE_CUDA("cudaStreamCreateWithFlags");
  if (flags != stream_non_blocking) note("a stream that waits for the default stream");
  *stream = new CUstream_st{device_of_thread, {}};
  machine().streams.insert(*stream);
  return CudaError::success;
}
FAKE_EXPORT CudaError cudaStreamDestroy(Stream stream) {
  FAKE_CUDA("cudaStreamDestroy");
  if (machine().streams.erase(stream) == 0) note("a stream destroyed twice");
  else machine().orphans.emplace_back(stream);  // what is on it is done all the same
  return CudaError::success;
}
FAKE_EXPORT CudaError cudaStreamWaitEvent(Stream stream, Event event, unsigned) {
  FAKE_CUDA("cudaStreamWaitEvent");
  stream_of(stream)->work.emplace_back([state = event->state, until = event->state->recorded] { return state->done >= until; });
  return CudaError::success;
}
FAKE_EXPORT CudaError cudaEventCreateWithFlags(Event* event, unsigned flags) {
  FAKE_CUDA("cudaEventCreateWithFlags");
  if (flags != event_disable_timing) note("an event that takes the time");
  *event = new CUevent_st{std::make_shared<EventState>(), device_of_thread};
  machine().events.insert(*event);
  return CudaError::success;
}
FAKE_EXPORT CudaError cudaEventDestroy(Event event) {
  FAKE_CUDA("cudaEventDestroy");
  if (machine().events.erase(event) == 0) note("an event destroyed twice");
  delete event;
  return CudaError::success;
}
FAKE_EXPORT CudaError cudaEventRecord(Event event, Stream stream) {
  FAKE_CUDA("cudaEventRecord");
  Stream real = stream_of(stream);
  if (real->device != event->device) note("an event recorded on another device's stream");
  real->work.emplace_back([state = event->state, number = ++event->state->recorded] {
    state->done = number;
    return true;
  });
  return CudaError::success;
}
FAKE_EXPORT CudaError cudaStreamQuery(Stream stream) {
  FAKE_CUDA("cudaStreamQuery");
  pump();
  return stream_of(stream)->work.empty() ? CudaError::success : CudaError::not_ready;
}
FAKE_EXPORT CudaError cudaStreamIsCapturing(Stream stream, CaptureStatus* status) {
  FAKE_CUDA("cudaStreamIsCapturing");
  *status = machine().captured.contains(stream) ? CaptureStatus::active : CaptureStatus::none;
  return CudaError::success;
}
FAKE_EXPORT CudaError cudaEventQuery(Event event) {
  FAKE_CUDA("cudaEventQuery");
  pump();
  return event->state->done >= event->state->recorded ? CudaError::success : CudaError::not_ready;
}
// Counts what a copy moves from or to memory of the host that is not pinned.
static void count_pageable(const void* address, std::size_t bytes) {
  if (memory_of(address) != nullptr) return;
  const auto* const begin = static_cast<const std::byte*>(address);
  const auto after = machine().pinned.upper_bound(begin);
  if (after != machine().pinned.begin()) {
    const auto& [pinned, size] = *std::prev(after);
    if (begin + bytes <= pinned + size) return;
  }
  machine().pageable += bytes;
}
FAKE_EXPORT CudaError cudaHostRegister(void* memory, std::size_t bytes, unsigned) {
  FAKE_CUDA("cudaHostRegister");
  if (!machine().pinned.emplace(static_cast<const std::byte*>(memory), bytes).second) note("memory pinned twice");
  return CudaError::success;
}
FAKE_EXPORT CudaError cudaHostUnregister(void* memory) {
  FAKE_CUDA("cudaHostUnregister");
  pump();
  if (machine().pinned.erase(static_cast<const std::byte*>(memory)) == 0) note("memory unpinned that is not pinned");
  return CudaError::success;
}
FAKE_EXPORT CudaError cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, MemcpyKind, Stream stream) {
  FAKE_CUDA("cudaMemcpyAsync");
  count_pageable(to, bytes);
  count_pageable(from, bytes);
  stream_of(stream)->work.emplace_back([=] {
    std::memmove(to, from, bytes);
    return true;
  });
  return CudaError::success;
}
FAKE_EXPORT CudaError cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch, std::size_t width,
                                        std::size_t height, MemcpyKind, Stream stream) {
  FAKE_CUDA("cudaMemcpy2DAsync");
  if (to_pitch < width || from_pitch < width) return CudaError::invalid_value;
  stream_of(stream)->work.emplace_back([=] {
    for (std::size_t row = 0; row < height; ++row) {
      std::memmove(static_cast<std::byte*>(to) + row * to_pitch, static_cast<const std::byte*>(from) + row * from_pitch, width);
    }
    return true;
  });
  return CudaError::success;
}
FAKE_EXPORT CudaError cudaMallocAsync(void** address, std::size_t bytes, Stream stream) {
  FAKE_CUDA("cudaMallocAsync");
  std::vector<std::byte> memory(bytes, std::byte{0xCD});
  const std::byte* begin = memory.data();
  *address = memory.data();
  machine().memory.emplace(begin, Machine::Memory{.device = stream_of(stream)->device, .bytes = std::move(memory), .of_stream = true});
  return CudaError::success;
}
FAKE_EXPORT CudaError cudaFreeAsync(void* address, Stream stream) {
  FAKE_CUDA("cudaFreeAsync");
  stream_of(stream)->work.emplace_back([address] {
    const auto found = machine().memory.find(static_cast<const std::byte*>(address));
    if (found == machine().memory.end() || !found->second.of_stream || found->second.given_back) {
      note("memory given back that is nobody's");
      return true;
    }
    found->second.given_back = true;  // it stays, so that whoever still reads it finds nonsense
    std::ranges::fill(found->second.bytes, std::byte{0xDD});
    return true;
  });
  return CudaError::success;
}
static std::size_t memory_on(int device) {
  std::size_t bytes = 0;
  for (const auto& [address, memory] : machine().memory) bytes += memory.device == device && !memory.given_back ? memory.bytes.size() : 0;
  return bytes;
}
FAKE_EXPORT CudaError cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  FAKE_CUDA("cudaMemGetInfo");
  *total = std::size_t{64} << 20;
  *free = *total - memory_on(device_of_thread) - machine().others;
  return CudaError::success;
}
FAKE_EXPORT CudaError cudaDeviceGetPCIBusId(char* text, int length, int device) {
  FAKE_CUDA("cudaDeviceGetPCIBusId");
  if (device < 0 || device >= machine().devices) return CudaError::invalid_device;
  *fmt::format_to_n(text, static_cast<std::size_t>(length) - 1, "0000:{:02x}:00.0", device + 1).out = '\0';
  return CudaError::success;
}
FAKE_EXPORT CudaError cudaPointerGetAttributes(PointerAttributes* attributes, const void* address) {
  FAKE_CUDA("cudaPointerGetAttributes");
  const auto* memory = memory_of(address);
  attributes->type = memory == nullptr ? MemoryType::unregistered : MemoryType::device;
  attributes->device = memory == nullptr ? -2 : memory->device;
  return CudaError::success;
}

// ---- NVML ---------------------------------------------------------------------------------------------------------------------------

FAKE_EXPORT NvmlResult nvmlInit_v2() { return NvmlResult::success; }
FAKE_EXPORT NvmlResult nvmlShutdown() { return NvmlResult::success; }
FAKE_EXPORT NvmlResult nvmlDeviceGetCount_v2(unsigned* count) {
  const std::lock_guard lock(machine().mutex);
  *count = static_cast<unsigned>(machine().devices);
  return NvmlResult::success;
}
FAKE_EXPORT NvmlResult nvmlDeviceGetHandleByPciBusId_v2(const char* bus, NvmlDevice* device) {
  *device = reinterpret_cast<NvmlDevice>(std::stoul(std::string(bus).substr(5, 2), nullptr, 16));
  return NvmlResult::success;
}
FAKE_EXPORT NvmlResult nvmlDeviceGetComputeRunningProcesses_v3(NvmlDevice device, unsigned* count, NvmlProcess* processes) {
  const std::lock_guard lock(machine().mutex);
  // The other processes, an entry for each: more than a caller has room for at first.
  constexpr unsigned strangers = 20;
  const auto own = static_cast<unsigned>(::getpid());
  const unsigned room = *count;
  *count = strangers + 1;
  if (room < *count) return NvmlResult::insufficient_size;
  for (unsigned i = 0; i < strangers; ++i) processes[i] = {own + i + 1, i == 0 ? machine().others : nvml_not_available, 0, 0};
  processes[strangers] = {own, memory_on(static_cast<int>(reinterpret_cast<std::uintptr_t>(device)) - 1), 0, 0};
  return NvmlResult::success;
}

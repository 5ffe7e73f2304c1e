#pragma once

#include <chrono>
#include <cstddef>
#include <memory>

#include "engines/nccl/runtime.h"
#include "unisono/device_runtime.h"

namespace unisono::bench {

/// The CUDA device of a rank, and the stream on which all candidates work.
class BenchDevice {
 public:
  /// Takes a device for each rank; if there are fewer, ranks share them. It becomes the calling thread's current one, and its stream the thread's
  /// current stream.
  BenchDevice(std::shared_ptr<const engines::nccl::Vendor> vendor, int rank, std::chrono::milliseconds timeout);
  ~BenchDevice();
  BenchDevice(const BenchDevice&) = delete;
  BenchDevice& operator=(const BenchDevice&) = delete;

  Device place() const noexcept { return place_; }
  /// Allocates memory of the device, for as long as this object lives.
  std::byte* allocate(std::size_t bytes) { return static_cast<std::byte*>(stream_->allocate(bytes)); }
  /// Puts a copy between memory of the device and of the host, or within the device, on the stream.
  void copy(void* to, const void* from, std::size_t bytes) { stream_->copy({.to = to, .from = from, .bytes = bytes}); }
  /// Waits until the device has done everything on the stream. Throws Timeout past the deadline.
  void synchronise();

 private:
  Device place_;
  std::chrono::milliseconds timeout_;
  engines::nccl::CudaRuntime runtime_;
  std::unique_ptr<DeviceStream> stream_;
};

}  // namespace unisono::bench

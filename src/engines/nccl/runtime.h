#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engines/nccl/loader.h"
#include "unisono/device_runtime.h"

namespace unisono::engines::nccl {

/// Throws with the runtime's text where a call failed.
void check(const Vendor& vendor, CudaError error, const char* what);

/// Returns the PCI address of a device, as the CUDA runtime writes it: "0000:65:00.0".
std::string pci_address(const Vendor& vendor, int device);

/// Makes a device the thread's current one for a scope.
class OnDevice {
 public:
  OnDevice(const Vendor& vendor, int device);
  ~OnDevice();
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

 private:
  const Vendor& vendor_;
  int before_ = -1;
};

class CudaEvent final : public DeviceEvent {
 public:
  /// Records the end of the work that is on the stream of that device now.
  CudaEvent(std::shared_ptr<const Vendor> vendor, int device, Stream stream);
  /// Records another end in its place. What was ordered behind the former one stays so.
  void record(Stream stream);
  ~CudaEvent() override;
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;
  bool reached() override;
  void order(void* stream) override;
  int device() const { return device_; }

 private:
  std::shared_ptr<const Vendor> vendor_;
  int device_;
  Stream stream_ = nullptr;
  Event event_ = nullptr;
};

class CudaStream final : public DeviceStream {
 public:
  CudaStream(std::shared_ptr<const Vendor> vendor, int device);
  ~CudaStream() override;
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;
  void* handle() const noexcept override { return stream_; }
  void* allocate(std::size_t bytes) override;
  void copy(const Rows& rows) override;

 private:
  std::shared_ptr<const Vendor> vendor_;
  int device_;
  Stream stream_ = nullptr;
  std::vector<void*> memory_;
};

class CudaRuntime final : public DeviceRuntime {
 public:
  /// `device`: the device of this process, used where a call names none.
  CudaRuntime(std::shared_ptr<const Vendor> vendor, int device) : vendor_(std::move(vendor)), device_(device) {}
  Device::Type type() const noexcept override { return Device::Type::cuda; }
  Device device_of(const void* address) override;
  std::shared_ptr<DeviceEvent> record(Device device, void* stream) override;
  std::unique_ptr<DeviceStream> stream(Device device) override;
  std::shared_ptr<void> pin(void* memory, std::size_t bytes) override;
  bool is_idle(Device device, void* stream) override;
  bool is_captured(Device device, void* stream) override;
  Memory memory(Device device) override;

 private:
  int index_of(Device device) const { return device.index < 0 ? device_ : device.index; }
  std::shared_ptr<const Vendor> vendor_;
  int device_;
};

}  // namespace unisono::engines::nccl

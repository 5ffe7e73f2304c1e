#include "engines/nccl/runtime.h"

#include <algorithm>
#include <array>
#include <optional>
#include <stdexcept>

#include <fmt/format.h>

namespace unisono::engines::nccl {

void check(const Vendor& vendor, CudaError error, const char* what) {
  if (error == CudaError::success) return;
  throw std::runtime_error(fmt::format("{}: {} ({})", what, vendor.cuda.get_error_string(error), vendor.cuda.get_error_name(error)));
}

std::string pci_address(const Vendor& vendor, int device) {
  std::array<char, 32> bus{};
  check(vendor, vendor.cuda.get_pci_bus_id(bus.data(), static_cast<int>(bus.size()), device), "cudaDeviceGetPCIBusId");
  return bus.data();
}

/// Returns the bytes of a device's memory that this process has; nothing if the driver does not tell.
static std::optional<std::size_t> own_memory(const Vendor& vendor, int device) {
  if (vendor.nvml.init == nullptr) return std::nullopt;
  try {
    return memory_of_process(vendor.nvml, pci_address(vendor, device));
  } catch (const std::runtime_error&) {
    return std::nullopt;
  }
}

OnDevice::OnDevice(const Vendor& vendor, int device) : vendor_(vendor) {
  int current = -1;
  check(vendor, vendor.cuda.get_device(&current), "cudaGetDevice");
  if (current == device) return;
  check(vendor, vendor.cuda.set_device(device), "cudaSetDevice");
  before_ = current;
}

OnDevice::~OnDevice() {
  if (before_ >= 0) static_cast<void>(vendor_.cuda.set_device(before_));
}

CudaEvent::CudaEvent(std::shared_ptr<const Vendor> vendor, int device, Stream stream) : vendor_(std::move(vendor)), device_(device) {
  {
    const OnDevice on_device(*vendor_, device_);
    check(*vendor_, vendor_->cuda.event_create(&event_, event_disable_timing), "cudaEventCreateWithFlags");
  }
  try {
    record(stream);
  } catch (...) {
    vendor_->cuda.event_destroy(event_);
    throw;
  }
}

void CudaEvent::record(Stream stream) {
  std::optional<OnDevice> on_device;
  if (stream == nullptr) on_device.emplace(*vendor_, device_);  // null is the current device's default stream
  check(*vendor_, vendor_->cuda.event_record(event_, stream), "cudaEventRecord");
  stream_ = stream;
}

CudaEvent::~CudaEvent() { vendor_->cuda.event_destroy(event_); }

bool CudaEvent::reached() {
  const CudaError error = vendor_->cuda.event_query(event_);
  if (error == CudaError::not_ready) return false;
  check(*vendor_, error, "the device failed");
  return true;
}

void CudaEvent::order(void* stream) {
  if (stream == stream_) return;                // what is put there comes behind it by itself
  const OnDevice on_device(*vendor_, device_);  // null is the current device's default stream
  check(*vendor_, vendor_->cuda.stream_wait_event(static_cast<Stream>(stream), event_, 0), "cudaStreamWaitEvent");
}

CudaStream::CudaStream(std::shared_ptr<const Vendor> vendor, int device) : vendor_(std::move(vendor)), device_(device) {
  const OnDevice on_device(*vendor_, device_);
  check(*vendor_, vendor_->cuda.stream_create(&stream_, stream_non_blocking), "cudaStreamCreateWithFlags");
}

// Neither call waits for the work on the stream: the runtime frees both when that is done.
CudaStream::~CudaStream() {
  for (void* memory : memory_) static_cast<void>(vendor_->cuda.free_async(memory, stream_));
  static_cast<void>(vendor_->cuda.stream_destroy(stream_));
}

void* CudaStream::allocate(std::size_t bytes) {
  const OnDevice on_device(*vendor_, device_);
  memory_.reserve(memory_.size() + 1);
  void* memory = nullptr;
  check(*vendor_, vendor_->cuda.malloc_async(&memory, std::max<std::size_t>(bytes, 1), stream_), "cudaMallocAsync");
  memory_.push_back(memory);
  return memory;
}

void CudaStream::copy(const Rows& rows) {
  if (rows.bytes == 0 || rows.count == 0) return;
  const OnDevice on_device(*vendor_, device_);
  const bool is_one = rows.count == 1 || (rows.to_pitch == rows.bytes && rows.from_pitch == rows.bytes);
  if (is_one) {
    check(*vendor_, vendor_->cuda.memcpy_async(rows.to, rows.from, rows.bytes * rows.count, MemcpyKind::automatic, stream_), "cudaMemcpyAsync");
  } else {
    check(*vendor_,
          vendor_->cuda.memcpy_2d_async(rows.to, rows.to_pitch, rows.from, rows.from_pitch, rows.bytes, rows.count, MemcpyKind::automatic, stream_),
          "cudaMemcpy2DAsync");
  }
}

Device CudaRuntime::device_of(const void* address) {
  PointerAttributes attributes{};
  if (vendor_->cuda.pointer_get_attributes(&attributes, address) != CudaError::success) {
    vendor_->cuda.get_last_error();  // older runtimes report plain host memory as an error
    return {};
  }
  // Managed memory belongs to the device and the host; it counts as host memory unless a TensorView says otherwise.
  if (attributes.type != MemoryType::device) return {};
  return {.type = Device::Type::cuda, .index = attributes.device};
}

std::shared_ptr<DeviceEvent> CudaRuntime::record(Device device, void* stream) {
  return std::make_shared<CudaEvent>(vendor_, index_of(device), static_cast<Stream>(stream));
}

std::unique_ptr<DeviceStream> CudaRuntime::stream(Device device) { return std::make_unique<CudaStream>(vendor_, index_of(device)); }

std::shared_ptr<void> CudaRuntime::pin(void* memory, std::size_t bytes) {
  if (vendor_->cuda.host_register(memory, bytes, host_register_portable) != CudaError::success) {
    vendor_->cuda.get_last_error();  // clears the error, so that the program's next check does not find it
    return nullptr;
  }
  return {memory, [vendor = vendor_](void* pinned) { static_cast<void>(vendor->cuda.host_unregister(pinned)); }};
}

bool CudaRuntime::is_idle(Device device, void* stream) {
  const OnDevice on_device(*vendor_, index_of(device));  // null is the current device's default stream
  const CudaError error = vendor_->cuda.stream_query(static_cast<Stream>(stream));
  if (error == CudaError::not_ready) return false;
  check(*vendor_, error, "the device failed");
  return true;
}

bool CudaRuntime::is_captured(Device device, void* stream) {
  const OnDevice on_device(*vendor_, index_of(device));  // null is the current device's default stream
  CaptureStatus status = CaptureStatus::none;
  const CudaError error = vendor_->cuda.stream_is_capturing(static_cast<Stream>(stream), &status);
  // The default stream cannot be used while another stream that waits for it is captured.
  if (error == CudaError::stream_capture_implicit) return true;
  check(*vendor_, error, "cudaStreamIsCapturing");
  return status != CaptureStatus::none;
}

DeviceRuntime::Memory CudaRuntime::memory(Device device) {
  const OnDevice on_device(*vendor_, index_of(device));
  std::size_t free = 0, total = 0;
  check(*vendor_, vendor_->cuda.mem_get_info(&free, &total), "cudaMemGetInfo");
  return {.used = total - free, .total = total, .own = own_memory(*vendor_, index_of(device))};
}

}  // namespace unisono::engines::nccl

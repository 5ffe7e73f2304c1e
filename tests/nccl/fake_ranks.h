#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "fake_vendor.h"
#include "thrown_by.h"
#include "unisono/unisono.h"

namespace unisono::group {
class Progress;
}

namespace fake {

/// A group on the stand-in, whose ranks are threads, each with a device of its own.
struct Ranks {
  int count = 2;
  int devices = 0;  ///< of the machine; 0: one for each rank
  std::chrono::milliseconds timeout = std::chrono::seconds(20);
  bool at_need = false;
  bool engine = true;  ///< else the group's backend knows no devices
};
/// Runs `body` on every rank; its exceptions are failures of the test. Afterwards nothing is left, and nothing was misused.
void on_ranks(const Ranks& ranks, const std::function<void(const unisono::ProcessGroup& group)>& body);
/// The progress of the calling rank.
std::shared_ptr<unisono::group::Progress> progress();
/// Stalls all devices, between two barriers of the group.
void stall_devices(const unisono::ProcessGroup& group);
/// Makes the group's engine, and returns the text of each rank's exception; "" where it was made.
std::vector<std::string> on_making(const Ranks& ranks);

/// Elements in device memory.
template <class T>
class DeviceArray {
 public:
  DeviceArray(int device, const std::vector<T>& values)
      : data_(static_cast<T*>(allocate(device, values.size() * sizeof(T)))), size_(values.size()), device_(device) {
    std::copy(values.begin(), values.end(), data_);
  }
  DeviceArray(int device, std::initializer_list<T> values) : DeviceArray(device, std::vector<T>(values)) {}
  DeviceArray(int device, std::size_t size) : DeviceArray(device, std::vector<T>(size)) {}
  T* data() const { return data_; }
  std::vector<T> values() const { return {data_, data_ + size_}; }
  unisono::TensorView view() const { return view(0, size_); }
  unisono::TensorView view(std::size_t begin, std::size_t count) const {
    const std::int64_t shape[] = {static_cast<std::int64_t>(count)};
    return {data_ + begin, unisono::dtype_of<T>::value, shape, {}, {.type = unisono::Device::Type::cuda, .index = device_}};
  }

 private:
  T* data_;
  std::size_t size_;
  int device_;
};

/// A view of elements of device memory that need not lie one after the other.
inline unisono::TensorView strided(const DeviceArray<int>& memory, std::vector<std::int64_t> shape, std::vector<std::int64_t> strides, int device,
                                   std::size_t begin = 0) {
  return {memory.data() + begin, unisono::DType::int32, shape, strides, {.type = unisono::Device::Type::cuda, .index = device}};
}

/// 100 r, 100 r + 1, …
inline std::vector<int> count_up(int rank, std::size_t count) {
  std::vector<int> x(count);
  std::iota(x.begin(), x.end(), 100 * rank);
  return x;
}

/// Waits until the device has done what the current stream has.
void synchronize();

using unisono::thrown_by;

}  // namespace fake

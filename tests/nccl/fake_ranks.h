#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "fake_vendor.h"
#include "unisono/unisono.h"

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
/// What making the group's engine threw on each rank, as text; "" where it was made.
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

/// Waits until the device has done what the current stream has.
void synchronize();

/// What f throws as an E.
template <class E, class F>
E thrown_by(F&& f) {
  try {
    f();
  } catch (const E& error) {
    return error;
  } catch (const std::exception& other) {
    ADD_FAILURE() << "threw something else: " << other.what();
    throw std::runtime_error("the test cannot go on");
  }
  ADD_FAILURE() << "threw nothing";
  throw std::runtime_error("the test cannot go on");
}

}  // namespace fake

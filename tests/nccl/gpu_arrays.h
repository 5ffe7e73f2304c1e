#pragma once

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "engines/nccl/loader.h"
#include "unisono/cuda.h"
#include "unisono/unisono.h"

namespace unisono::gpu {

/// The functions of the CUDA runtime that the test needs and the library does not.
struct Runtime {
  int (*malloc)(void**, std::size_t);
  int (*free)(void*);
  int (*memcpy)(void*, const void*, std::size_t, int);
  Runtime() {
    for (const char* name : {"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0", "libcudart.so"}) {
      if (library == nullptr) library = ::dlopen(name, RTLD_NOW | RTLD_NOLOAD);
    }
    const char* chosen = std::getenv("UNISONO_CUDART_LIBRARY");
    if (library == nullptr && chosen != nullptr) library = ::dlopen(chosen, RTLD_NOW);
    malloc = reinterpret_cast<decltype(malloc)>(::dlsym(library, "cudaMalloc"));
    free = reinterpret_cast<decltype(free)>(::dlsym(library, "cudaFree"));
    memcpy = reinterpret_cast<decltype(memcpy)>(::dlsym(library, "cudaMemcpy"));
  }
  /// Null where this runtime has no such function.
  void* symbol(const char* name) const { return ::dlsym(library, name); }
  void* library = nullptr;
};
inline Runtime& runtime() {
  static Runtime instance;
  return instance;
}
inline void require(int error) {
  if (error != 0) throw std::runtime_error("cuda error " + std::to_string(error));
}

/// Bytes on this rank's device.
class DeviceBytes {
 public:
  explicit DeviceBytes(std::size_t size, int index = device().index) : size_(size), device_{Device::Type::cuda, index} {
    require(static_cast<int>(unisono::engines::nccl::vendor()->cuda.set_device(index)));
    require(runtime().malloc(&data_, std::max<std::size_t>(size, 1)));
  }
  ~DeviceBytes() { runtime().free(data_); }
  DeviceBytes(const DeviceBytes&) = delete;
  DeviceBytes& operator=(const DeviceBytes&) = delete;
  void write(const void* from) { require(runtime().memcpy(data_, from, size_, 4)); }
  void read(void* to) const { require(runtime().memcpy(to, data_, size_, 4)); }
  void* data() const { return data_; }
  TensorView view(DType dtype) const { return part(dtype, 0, size_ / size_of(dtype)); }
  TensorView part(DType dtype, std::size_t begin, std::size_t count) const {
    const std::int64_t shape[] = {static_cast<std::int64_t>(count)};
    return {static_cast<std::byte*>(data_) + begin * size_of(dtype), dtype, shape, {}, device_};
  }

 private:
  void* data_ = nullptr;
  std::size_t size_;
  Device device_;
};

template <class T>
class Array : public DeviceBytes {
 public:
  explicit Array(const std::vector<T>& values, int index = device().index) : DeviceBytes(values.size() * sizeof(T), index), count_(values.size()) {
    write(values.data());
  }
  explicit Array(std::size_t count, int index = device().index) : Array(std::vector<T>(count), index) {}
  std::vector<T> values() const {
    synchronize_stream();
    std::vector<T> result(count_);
    read(result.data());
    return result;
  }
  TensorView view() const { return DeviceBytes::view(dtype_of<T>::value); }
  TensorView part(std::size_t begin, std::size_t count) const { return DeviceBytes::part(dtype_of<T>::value, begin, count); }

 private:
  std::size_t count_;
};

inline std::vector<int> numbers(int r, std::size_t count) {
  std::vector<int> x(count);
  std::iota(x.begin(), x.end(), 1000 * (r + 1));
  return x;
}
inline std::vector<int> sums(int ranks, std::size_t count) {
  std::vector<int> x(count);
  for (int r = 0; r < ranks; ++r) {
    const auto own = numbers(r, count);
    for (std::size_t i = 0; i < count; ++i) x[i] += own[i];
  }
  return x;
}
inline std::vector<int> in_turn(int ranks, const std::function<std::size_t(int)>& count) {
  std::vector<int> all;
  for (int r = 0; r < ranks; ++r) {
    const auto block = numbers(r, count(r));
    all.insert(all.end(), block.begin(), block.end());
  }
  return all;
}

}  // namespace unisono::gpu

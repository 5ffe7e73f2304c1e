// Ranks on devices that a program forks: on the stand-in, which as the real runtime does not work in a child of a process that has called it.

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "alone_on_device.h"
#include "covers.h"
#include "unisono/cuda.h"
#include "unisono/unisono.h"

using namespace unisono;

namespace {

template <class Function>
Function* of_stand_in(const char* name) {
  void* library = ::dlopen(std::getenv("UNISONO_CUDART_LIBRARY"), RTLD_NOW);
  return reinterpret_cast<Function*>(::dlsym(library, name));
}

int current_device() {
  int device = -1;
  of_stand_in<int(int*)>("cudaGetDevice")(&device);
  return device;
}

/// The sum over the ranks of `value`, in memory of the current device.
int sum_on_device(int value) {
  void* memory = nullptr;
  of_stand_in<int(void**, std::size_t)>("cudaMalloc")(&memory, sizeof value);
  const auto copy = of_stand_in<int(void*, const void*, std::size_t, int)>("cudaMemcpy");
  copy(memory, &value, sizeof value, 4);
  all_reduce(std::span<int>(static_cast<int*>(memory), 1));
  synchronize_stream();
  copy(&value, memory, sizeof value, 4);
  return value;
}

// A process that looks for engines may still fork ranks that use them.
TEST(SpawnOnDevices, LookingForAnEngineStartsNoRuntime) {
  COVERS("B-04", "Q-27");
  const std::vector<std::string> names = available_backends();
  EXPECT_NE(std::ranges::find(names, "nccl"), names.end());
  EXPECT_TRUE(is_backend_available("nccl"));
  EXPECT_TRUE(is_backend_available("NCCL"));
  for (const char* backend : {"nccl", "cpu:native,cuda:nccl"}) {
    const auto results = spawn({.backend = backend, .nproc_per_node = 1}, [] {
      return std::vector<int>{device().type == Device::Type::cuda ? 1 : 0, sum_on_device(41)};
    });
    EXPECT_EQ(results.at(0), (std::vector<int>{1, 41})) << backend;
  }
  ParallelOptions options;
  options.backend = "nccl";
  options.nproc_per_node = 1;
  Parallel parallel(options);
  EXPECT_EQ(parallel.run([] { return sum_on_device(42); }).at(0), 42);
}

// The process's device is current when initialize has returned; of a local rank, not of a rank.
TEST(SpawnOnDevices, InitializeMakesTheDeviceCurrent) {
  COVERS("I-39", "K-37", "K-50");
  const auto results = spawn({.backend = "native", .nproc_per_node = 1}, [] {
    const int before = current_device();
    finalize();
    initialize(fake::alone_on_second_device());
    std::vector<int> found{before, current_device(), device().index, sum_on_device(43)};
    found.push_back(is_backend_available("nccl") ? 1 : 0);
    return found;
  });
  EXPECT_EQ(results.at(0), (std::vector<int>{0, 1, 1, 43, 1}));
}

// As with two, and as ignite: the memory of a model stays where it is.
TEST(SpawnOnDevices, AutoComputesOnTheDeviceWithOneRank) {
  const auto results = spawn({.backend = "auto", .nproc_per_node = 1}, [] {
    const int sum = sum_on_device(44);
    void* memory = nullptr;
    of_stand_in<int(void**, std::size_t)>("cudaMalloc")(&memory, std::size_t{16} << 20);
    return std::vector<std::string>{to_string(device()), backend().value_or("none"), std::to_string(sum), std::to_string(gpu_mem_usage())};
  });
  EXPECT_EQ(results.at(0), (std::vector<std::string>{"cuda:0", "nccl", "44", "16"}));
}

// The stand-in has two devices, so that ranks 0 and 2 have the same.
TEST(SpawnOnDevices, RanksThatShareADeviceGoThroughTheHost) {
  const auto results = spawn({.backend = "auto", .nproc_per_node = 3}, [] {
    const int sum = sum_on_device(1 << rank());
    return std::vector<std::string>{to_string(device()), backend().value_or("none"), std::to_string(sum)};
  });
  for (int r = 0; r < 3; ++r) {
    EXPECT_EQ(results.at(static_cast<std::size_t>(r)), (std::vector<std::string>{r == 1 ? "cuda:1" : "cuda:0", "native", "7"})) << r;
  }
  try {
    spawn({.backend = "nccl", .nproc_per_node = 3}, [] {});
    FAIL() << "went through";
  } catch (const LaunchFailed& error) {
    EXPECT_NE(std::string(error.what()).find("ranks 0 and 2 share a device"), std::string::npos) << error.what();
  }
}

// Others have 20 MiB of each device of the stand-in.
TEST(SpawnOnDevices, MemoryIsTheProcessSOwn) {
  COVERS("V-11", "K-56");
  const auto results = spawn({.backend = "nccl", .nproc_per_node = 1}, [] {
    void* memory = nullptr;
    of_stand_in<int(void**, std::size_t)>("cudaMalloc")(&memory, std::size_t{16} << 20);
    std::vector<std::size_t> found{gpu_mem_usage(), gpu_mem_peak()};
    return found;
  });
  EXPECT_EQ(results.at(0), (std::vector<std::size_t>{16, 16}));
}

// The runtime of a process that used it itself before it forked is lost to the ranks, and they say what it is.
TEST(SpawnOnDevicesZ, ARuntimeThatTheProgramHasStartedIsLost) {
  EXPECT_EQ(current_device(), 0);
  try {
    spawn({.backend = "nccl", .nproc_per_node = 1}, [] {});
    FAIL() << "went through";
  } catch (const LaunchFailed& error) {
    EXPECT_NE(std::string(error.what()).find("was CUDA used in the program before it forked this process?"), std::string::npos) << error.what();
  }
}

}  // namespace

// A program that asks for nccl where it cannot be used: told at once, before it meets anybody, and able to go on without.

#include <gtest/gtest.h>

#include <string>

#include "engines/nccl/loader.h"
#include "unisono/unisono.h"

using namespace unisono;

namespace {

TEST(Initialize, InitializeSaysWhyNcclCannotBeUsed) {
  try {
    static_cast<void>(engines::nccl::vendor());
    GTEST_SKIP() << "nothing is missing on this machine: gpu_test shows the rest";
  } catch (const BackendUnavailable& missing) {
    for (const char* request : {"nccl", "NCCL", "cpu:native,cuda:nccl"}) {
      try {
        initialize(request);
        FAIL() << "nccl works";
      } catch (const BackendUnavailable& error) {
        const std::string text = error.what();
        EXPECT_NE(text.find("backend nccl cannot be used"), std::string::npos) << text;
        EXPECT_NE(text.find(missing.message()), std::string::npos) << text;
        EXPECT_EQ(text.find("cannot be", text.find("cannot be used") + 1), std::string::npos) << text;  // it is said once
      }
      EXPECT_FALSE(is_initialized());
    }
  }
  EXPECT_FALSE(is_backend_available("nccl"));
  EXPECT_EQ(gpu_mem_usage(), 0U);
  EXPECT_EQ(gpu_mem_peak(), 0U);
  EXPECT_EQ(device(), (Device{Device::Type::cpu, 0}));
}

TEST(Initialize, DeviceMemoryIsRefusedWithoutItsRuntime) {
  try {
    static_cast<void>(engines::nccl::vendor(engines::nccl::Wanted::runtime_only));
    GTEST_SKIP() << "nothing is missing on this machine: it goes through the host";
  } catch (const BackendUnavailable&) {
  }
  int x = 0;
  const std::int64_t shape[] = {1};
  TensorView on_device(&x, DType::int32, shape, {}, {.type = Device::Type::cuda, .index = 0});
  try {
    all_reduce(on_device);
    FAIL() << "went through";
  } catch (const Unsupported& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("memory of cuda:0 cannot be communicated"), std::string::npos) << text;
    EXPECT_EQ(text.find("cannot be", text.find("cannot be communicated") + 1), std::string::npos) << text;
  }
  try {
    static_cast<void>(AnyValue(on_device));
    FAIL() << "went through";
  } catch (const Unsupported& error) {
    EXPECT_NE(std::string(error.what()).find("cuda:0"), std::string::npos) << error.what();
  }
}

}  // namespace

// The errors where NCCL, the CUDA runtime, the driver or a device is missing; and our declarations against the real headers and the real library.

#include "engines/nccl/loader.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>

#include "engines/nccl/engine.h"
#include "covers.h"
#include "declarations.h"
#include "unisono/error.h"

using namespace unisono::engines::nccl;

namespace {

int nccl_version = 23203;
CudaError device_answer = CudaError::success;
int device_count = 1, driver_version = 13000;
int calls_of_the_runtime = 0;
NvmlResult nvml_answer = NvmlResult::success;
int nvml_sessions = 0;

Result get_version(int* version) {
  *version = nccl_version;
  return Result::success;
}
CudaError get_device_count(int* count) {
  ++calls_of_the_runtime;
  *count = device_count;
  return device_answer;
}
CudaError runtime_get_version(int* version) {
  *version = 13000;
  return CudaError::success;
}
CudaError driver_get_version(int* version) {
  *version = driver_version;
  return CudaError::success;
}
CudaError get_last_error() { return CudaError::success; }
const char* words(CudaError) { return "as the test says"; }
NvmlResult nvml_init() {
  if (nvml_answer == NvmlResult::success) ++nvml_sessions;
  return nvml_answer;
}
NvmlResult nvml_shutdown() {
  --nvml_sessions;
  return NvmlResult::success;
}
NvmlResult nvml_count(unsigned* count) {
  *count = static_cast<unsigned>(device_count);
  return NvmlResult::success;
}

/// A machine with some libraries, each with some functions.
class Machine final : public Libraries {
 public:
  std::set<std::string> present{"libnccl.so.2", "libcudart.so.13", "libcuda.so.1"}, opened;
  std::set<std::string> lacking;
  std::vector<std::string> asked;

  void* open(const std::string& name, bool present_only, std::string& why) override {
    if (present_only) return opened.contains(name) ? handle(name) : nullptr;
    asked.push_back(name);
    if (present.contains(name)) return handle(name);
    why = name + ": cannot open shared object file";
    return nullptr;
  }
  void* symbol(void*, const char* name) override {
    static const std::map<std::string, void*> functions{{"ncclGetVersion", reinterpret_cast<void*>(get_version)},
                                                        {"cudaGetDeviceCount", reinterpret_cast<void*>(get_device_count)},
                                                        {"cudaRuntimeGetVersion", reinterpret_cast<void*>(runtime_get_version)},
                                                        {"cudaDriverGetVersion", reinterpret_cast<void*>(driver_get_version)},
                                                        {"cudaGetLastError", reinterpret_cast<void*>(get_last_error)},
                                                        {"cudaGetErrorString", reinterpret_cast<void*>(words)},
                                                        {"cudaGetErrorName", reinterpret_cast<void*>(words)},
                                                        {"nvmlInit_v2", reinterpret_cast<void*>(nvml_init)},
                                                        {"nvmlShutdown", reinterpret_cast<void*>(nvml_shutdown)},
                                                        {"nvmlDeviceGetCount_v2", reinterpret_cast<void*>(nvml_count)}};
    if (lacking.contains(name)) return nullptr;
    const auto found = functions.find(name);
    return found == functions.end() ? reinterpret_cast<void*>(get_last_error) : found->second;  // never called
  }

 private:
  static void* handle(const std::string& name) {
    static std::set<std::string> names;
    return const_cast<std::string*>(&*names.insert(name).first);
  }
};

class Loader : public ::testing::Test {
 protected:
  void SetUp() override {
    nccl_version = 23203;
    device_answer = CudaError::success;
    device_count = 1;
    driver_version = 13000;
    calls_of_the_runtime = 0;
    nvml_answer = NvmlResult::success;
    nvml_sessions = 0;
  }
  std::string missing() {
    try {
      static_cast<void>(load(machine, settings));
      return {};
    } catch (const unisono::BackendUnavailable& error) {
      return error.what();
    }
  }
  void expect_missing(std::initializer_list<const char*> parts) {
    const std::string text = missing();
    for (const char* part : parts) EXPECT_NE(text.find(part), std::string::npos) << "\"" << part << "\" is not in: " << text;
  }
  Machine machine;
  Settings settings;
};

TEST_F(Loader, TheLoaderFindsEverything) {
  const auto found = load(machine, settings);
  EXPECT_EQ(found->nccl_version, 23203);
  EXPECT_EQ(found->devices, 1);
  EXPECT_NE(found->nccl.comm_abort, nullptr);
  EXPECT_NE(found->cuda.event_query, nullptr);
}

TEST_F(Loader, TheLoaderSaysEverythingThatIsMissing) {
  machine.present.clear();
  expect_missing({"no NCCL library", "libnccl.so.2", "UNISONO_NCCL_LIBRARY", "no CUDA runtime", "libcudart", "no NVIDIA driver", "libcuda.so.1"});
}
TEST_F(Loader, AMissingNcclIsNamed) {
  machine.present.erase("libnccl.so.2");
  expect_missing({"no NCCL library"});
  EXPECT_EQ(missing().find("driver"), std::string::npos);
  EXPECT_EQ(missing().find("no CUDA runtime"), std::string::npos);
}
TEST_F(Loader, AMissingRuntimeIsNamed) {
  machine.present.erase("libcudart.so.13");
  expect_missing({"no CUDA runtime", "UNISONO_CUDART_LIBRARY"});
}
TEST_F(Loader, AMissingDriverIsNamed) {
  machine.present.erase("libcuda.so.1");
  expect_missing({"no NVIDIA driver"});
  EXPECT_EQ(missing().find("no NCCL"), std::string::npos);
}
TEST_F(Loader, AnOldNcclIsRefused) {
  for (const auto& [version, text] :
       std::map<int, const char*>{{21803, "NCCL 2.18.3 is too old"}, {2604, "NCCL 2.6.4 is too old"}, {21899, "too old"}}) {
    nccl_version = version;
    expect_missing({text, "2.19"});
  }
  nccl_version = 21900;
  EXPECT_EQ(missing(), "");
}
TEST_F(Loader, MissingFunctionsAreNamed) {
  machine.lacking = {"ncclCommInitRankConfig", "cudaEventQuery"};
  expect_missing({"ncclCommInitRankConfig", "cudaEventQuery"});
  machine.lacking = {"ncclGetVersion"};
  expect_missing({"ncclGetVersion"});
}
TEST_F(Loader, AMissingDeviceIsNamed) {
  device_answer = CudaError::no_device;
  expect_missing({"no CUDA device is on this machine"});
  settings.visible_devices = "7";
  expect_missing({"no CUDA device is visible", "CUDA_VISIBLE_DEVICES=7"});
  device_answer = CudaError::success;
  device_count = 0;
  expect_missing({"no CUDA device is visible"});
}
TEST_F(Loader, DriverIsNotAtWorkOrTooOld) {
  device_answer = CudaError::insufficient_driver;
  driver_version = 12020;
  expect_missing({"the driver is too old", "CUDA 12.2", "CUDA 13.0"});
  driver_version = 0;
  expect_missing({"no NVIDIA driver is at work"});
  device_answer = CudaError::stub_library;
  expect_missing({"no NVIDIA driver is at work"});
}
TEST_F(Loader, AnotherErrorIsToldInTheRuntimesWords) {
  device_answer = CudaError::initialization_error;
  expect_missing({"as the test says"});
}
TEST_F(Loader, TheLibraryThatTheProgramUsesComesFirst) {
  machine.opened = {"libcudart.so.12"};
  static_cast<void>(load(machine, settings));
  EXPECT_EQ(std::count(machine.asked.begin(), machine.asked.end(), "libcudart.so.13"), 0);
}
TEST_F(Loader, ALibraryThatWasChosenIsTheOnlyOne) {
  settings.nccl_library = "/opt/libnccl.so.2";
  expect_missing({"/opt/libnccl.so.2"});
  EXPECT_EQ(std::count(machine.asked.begin(), machine.asked.end(), "libnccl.so.2"), 0);
}

// As far as it shows without the runtime, which whoever forks ranks must leave alone.
TEST_F(Loader, DevicesAreLookedForFromOutside) {
  COVERS("Q-27");
  EXPECT_EQ(why_not(machine, settings), "");  // nobody tells of devices
  machine.present.insert("libnvidia-ml.so.1");
  EXPECT_EQ(why_not(machine, settings), "");
  device_count = 0;
  EXPECT_NE(why_not(machine, settings).find("no CUDA device is on this machine"), std::string::npos);
  device_count = 1;
  nvml_answer = NvmlResult::driver_not_loaded;
  EXPECT_NE(why_not(machine, settings).find("no CUDA device is on this machine"), std::string::npos);
  nvml_answer = static_cast<NvmlResult>(999);
  EXPECT_EQ(why_not(machine, settings), "");
  nvml_answer = NvmlResult::success;
  settings.hides_devices = true;
  EXPECT_NE(why_not(machine, settings).find("no CUDA device is visible"), std::string::npos);
  settings.hides_devices = false;
  machine.lacking = {"nvmlDeviceGetCount_v2"};  // of an older driver
  device_count = 0;
  EXPECT_EQ(why_not(machine, settings), "");
  machine.present.erase("libnccl.so.2");
  EXPECT_NE(why_not(machine, settings).find("no NCCL library"), std::string::npos);
  EXPECT_EQ(calls_of_the_runtime, 0);
  EXPECT_EQ(nvml_sessions, 0);
}
TEST_F(Loader, TheRuntimeAloneNeedsNoNccl) {
  machine.present.erase("libnccl.so.2");
  const auto found = load(machine, settings, Wanted::runtime_only);
  EXPECT_NE(found->cuda.memcpy_async, nullptr);
  EXPECT_EQ(found->nccl.comm_abort, nullptr);
  machine.present.erase("libcudart.so.13");
  try {
    static_cast<void>(load(machine, settings, Wanted::runtime_only));
    FAIL() << "nothing is missing";
  } catch (const unisono::BackendUnavailable& error) {
    EXPECT_EQ(std::string(error.what()).find("NCCL"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("no CUDA runtime"), std::string::npos) << error.what();
  }
}

// A process that is shown one device has that one, whatever its number on the host is.
TEST(Device, AProcessHasADevice) {
  COVERS("K-37", "Q-11", "E-15");
  Vendor vendor;
  vendor.devices = 4;
  EXPECT_EQ(choose_device(vendor, 3), 3);
  try {
    choose_device(vendor, 4);
    FAIL() << "threw nothing";
  } catch (const unisono::BackendUnavailable& error) {
    EXPECT_NE(std::string(error.what()).find("local rank 4"), std::string::npos) << error.what();
  }
  vendor.settings.shared_devices = true;
  EXPECT_EQ(choose_device(vendor, 6), 2);
  vendor.settings.shared_devices = false;
  vendor.devices = 1;  // each process is shown its own
  EXPECT_EQ(choose_device(vendor, 5), 0);
}

TEST(Declarations, OurDeclarationsAreThoseOfNccl) {
  if (declarations::nccl_compared() == 0) GTEST_SKIP() << "missing on this machine: nccl.h (scripts/get/nccl fetches it) or cuda_runtime.h";
  EXPECT_GE(declarations::nccl_compared(), oldest_version);
}
TEST(Declarations, OurDeclarationsAreThoseOfTheCudaRuntime) {
  if (declarations::cuda_compared() == 0) GTEST_SKIP() << "missing on this machine: cuda_runtime_api.h of the CUDA toolkit";
  EXPECT_GE(declarations::cuda_compared(), 11000);
}

// The real library, as far as it goes on this machine.
TEST(RealLibrary, TheRealLibraryAnswersAsWeExpect) {
  const char* path = std::getenv("UNISONO_TEST_NCCL");
  if (path == nullptr) GTEST_SKIP() << "missing on this machine: libnccl.so.2 (scripts/get/nccl fetches it)";
  Settings settings = Settings::of_process();
  settings.nccl_library = path;
  std::string why;
  void* library = system_libraries().open(path, false, why);
  ASSERT_NE(library, nullptr) << why;
  NcclApi nccl;
#define FIND(member, name, result, parameters)                                    \
  nccl.member = reinterpret_cast<decltype(nccl.member)>(::dlsym(library, #name)); \
  EXPECT_NE(nccl.member, nullptr) << #name;
  UNISONO_NCCL_FUNCTIONS(FIND)
  int version = 0;
  ASSERT_EQ(nccl.get_version(&version), Result::success);
  EXPECT_GE(version, oldest_version);
  if (declarations::nccl_compared() != 0) {
    EXPECT_EQ(version, declarations::nccl_compared());
  }

  // Without a driver NCCL says that a CUDA call failed, and we why that is.
  if (system_libraries().open("libcuda.so.1", false, why) != nullptr) GTEST_SKIP() << "this machine has a driver: gpu_test runs the rest";
  UniqueId id{};
  ASSERT_EQ(nccl.get_unique_id(&id), Result::success);
  Config config;
  config.blocking = 0;
  Comm comm = nullptr;
  Result result = nccl.comm_init_rank_config(&comm, 1, id, 0, &config);
  for (int looks = 0; result == Result::in_progress && looks < 100000; ++looks) {
    if (nccl.comm_get_async_error(comm, &result) != Result::success) break;
  }
  EXPECT_EQ(result, Result::unhandled_cuda_error);
  EXPECT_NE(std::string(nccl.get_error_string(result)).find("unhandled cuda error"), std::string::npos);
  try {
    static_cast<void>(load(system_libraries(), settings));
    FAIL() << "nothing is missing";
  } catch (const unisono::BackendUnavailable& error) {
    EXPECT_NE(std::string(error.what()).find("no NVIDIA driver (libcuda.so.1"), std::string::npos) << error.what();
    EXPECT_EQ(std::string(error.what()).find("no NCCL library"), std::string::npos) << error.what();
  }
}

}  // namespace

// An engine for the memory of devices that nobody has: what the library asks of it, and what it does without it. What is told here of names, groups
// and barriers is so on a GPU too, where the engine is NCCL.

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>

#include "covers.h"
#include "spawn_ranks.h"
#include "unisono/device_runtime.h"
#include "unisono/engine.h"
#include "unisono/unisono.h"

namespace unisono::testing {
namespace {

/// The requests to the engines of this process. Everything but making one and ending it is a call.
struct Asked {
  std::mutex mutex;
  std::vector<std::vector<int>> groups;  // of which ranks engines were made
  std::atomic<int> calls{0};
};
Asked& asked() {
  static Asked instance;
  return instance;
}

class PretendedRuntime final : public DeviceRuntime {
 public:
  Device::Type type() const noexcept override { return Device::Type::cuda; }
  Device device_of(const void*) override { return {}; }
  std::shared_ptr<DeviceEvent> record(Device, void*) override {
    ++asked().calls;
    return nullptr;
  }
  std::unique_ptr<DeviceStream> stream(Device) override {
    ++asked().calls;
    return nullptr;
  }
  Memory memory(Device device) override { return {.used = (static_cast<std::size_t>(device.index) + 5) << 20, .total = std::size_t{1} << 30}; }
};

class PretendedEngine final : public Engine {
 public:
  explicit PretendedEngine(const EngineOptions& options) : device_{Device::Type::cuda, options.local_rank + 2} {
    const std::lock_guard lock(asked().mutex);
    asked().groups.push_back(options.global_ranks);
  }
  std::string_view name() const noexcept override { return "pretended"; }
  Device::Type device_type() const noexcept override { return Device::Type::cuda; }
  Device device() const noexcept override { return device_; }
  std::shared_ptr<DeviceRuntime> runtime() override { return std::make_shared<PretendedRuntime>(); }
  std::unique_ptr<Task> start(const CollectiveCall& call) override {
    ++asked().calls;
    return Engine::start(call);
  }
  void abort(const Failure&) noexcept override {}

 private:
  Device device_;
};

void make_known() {
  static const bool once = [] {
    EngineTraits traits;
    traits.device = Device::Type::cuda;
    register_engine(
        "pretended", [](const EngineOptions& options) { return std::make_unique<PretendedEngine>(options); }, traits);
    return true;
  }();
  static_cast<void>(once);
}

SpawnOptions pretended_ranks(int n, const std::string& backend) {
  make_known();
  SpawnOptions options = ranks(n);
  options.backend = backend;
  return options;
}

// Each kind of memory has its engine, whatever the case of the letters, and errors name the one that was meant.
TEST(DeviceEngine, EachKindOfMemoryHasADeviceEngine) {
  COVERS("TS-12", "TS-13", "C-34");
  for (const char* name : {"cpu:native,cuda:pretended", "CUDA:Pretended,CPU:NATIVE"}) {
    const auto ranks_said = spawn(pretended_ranks(2, name), [] { return std::pair(backend().value_or("none"), all_reduce(rank() + 1)); });
    EXPECT_EQ(ranks_said, (std::vector(2, std::pair(std::string("cpu:native,cuda:pretended"), 3)))) << name;
  }
  EXPECT_TRUE(is_backend_available("Pretended"));
  const auto refused = [](const std::string& backend) {
    try {
      initialize(backend);
      finalize();
    } catch (const InvalidArgument& error) {
      return std::string(error.what());
    }
    return std::string("nothing");
  };
  EXPECT_NE(refused("cpu:pretended").find("does not work on memory of the host"), std::string::npos) << refused("cpu:pretended");
  EXPECT_NE(refused("cuda:native").find("does not work on memory of devices"), std::string::npos) << refused("cuda:native");
  EXPECT_NE(refused("cpu:native,cpu:serial").find("two engines for one kind of device"), std::string::npos);
  EXPECT_THROW(register_engine("pretended", [](const EngineOptions&) { return std::unique_ptr<Engine>(); }), InvalidArgument);
  EXPECT_THROW(register_engine("native", [](const EngineOptions&) { return std::unique_ptr<Engine>(); }), InvalidArgument);
  EXPECT_THROW(register_engine("Upper", [](const EngineOptions&) { return std::unique_ptr<Engine>(); }), InvalidArgument);
}

// device() is what this process computes on, and not the place that the name of the backend suggests.
TEST(DeviceEngine, TheDeviceIsThatOfTheProcess) {
  COVERS("I-03", "B-03", "C-25", "K-26");
  const auto with = [](const std::string& backend) { return spawn(pretended_ranks(2, backend), [] { return to_string(device()); }); };
  EXPECT_EQ(with("cpu:native,cuda:pretended"), (std::vector<std::string>{"cuda:2", "cuda:3"}));
  EXPECT_EQ(with("pretended"), (std::vector<std::string>{"cuda:2", "cuda:3"}));
  EXPECT_EQ(with("native"), (std::vector<std::string>{"cpu", "cpu"}));
  EXPECT_EQ(to_string(device()), "cpu");
  const auto shown = spawn(pretended_ranks(1, "pretended"), [] {
    std::ostringstream out;
    show_config(out);
    return out.str();
  });
  EXPECT_NE(shown.at(0).find("\ndevice: cuda\n"), std::string::npos) << shown.at(0);
  EXPECT_NE(shown.at(0).find("\nbackend: pretended\n"), std::string::npos) << shown.at(0);
}

// A group's engine is of its members, and there is none of more.
TEST(DeviceEngine, ADeviceEngineIsOfTheMembersOfItsGroup) {
  COVERS("K-14");
  const auto made = spawn(pretended_ranks(3, "cpu:native,cuda:pretended"), [] {
    const auto pair = new_group({2, 0});
    const auto single = new_group({rank()});
    if (pair) static_cast<void>(all_reduce(1, ReduceOp::sum, *pair));
    return asked().groups;
  });
  using Groups = std::vector<std::vector<int>>;
  for (int r = 0; r < 3; ++r) {
    Groups expected{{0, 1, 2}};
    if (r != 1) expected.push_back({2, 0});
    expected.push_back({r});
    EXPECT_EQ(made[static_cast<std::size_t>(r)], expected) << r;
  }
}

// Agreement among the ranks goes over the host: no device is touched by a barrier, nor by anything else that has nothing there.
TEST(DeviceEngine, ADeviceEngineIsAskedNothingByWhatIsOnTheHost) {
  COVERS("C-20", "K-50", "Q-08", "Q-29");
  const auto calls = spawn(pretended_ranks(3, "cpu:native,cuda:pretended"), [] {
    // Each process has its device before the first barrier, which does not look at it.
    if (device().index != local_rank() + 2) return -1;
    barrier();
    synchronize();
    barrier_async().wait();
    monitored_barrier(std::chrono::seconds(60));
    const auto group = new_group({0, 1, 2});
    barrier(*group);
    static_cast<void>(all_gather(std::string("rank ") + std::to_string(rank())));
    static_cast<void>(sync_random_seed());
    std::vector<float> x(1000, 1.0F);
    all_reduce(x);
    return asked().calls.load();
  });
  EXPECT_EQ(calls, (std::vector<int>{0, 0, 0}));
}

// Several processes may have one device: the host's engine works for them as for any others.
TEST(DeviceEngine, ADeviceEngineMayBeOfSeveralProcesses) {
  COVERS("Q-28");
  make_known();
  static const bool once = [] {
    EngineTraits traits;
    traits.device = Device::Type::cuda;
    register_engine(
        "shared-device",
        [](EngineOptions options) {
          options.local_rank = 0;
          return std::make_unique<PretendedEngine>(options);
        },
        traits);
    return true;
  }();
  static_cast<void>(once);
  const auto all = spawn(pretended_ranks(3, "cpu:native,cuda:shared-device"), [] { return std::pair(to_string(device()), all_reduce(rank() + 1)); });
  EXPECT_EQ(all, (std::vector(3, std::pair(std::string("cuda:2"), 6))));
}

}  // namespace
}  // namespace unisono::testing

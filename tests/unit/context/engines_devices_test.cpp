// The choice of the engine of device memory: by the wishes of the ranks, and by their devices.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "context/engines.h"
#include "joiners.h"
#include "unisono/engine.h"
#include "unisono/error.h"

namespace unisono::context {
namespace {

/// An engine for the memory of devices that nobody has.
class Imagined final : public Engine {
 public:
  std::string_view name() const noexcept override { return "imagined"; }
  Device::Type device_type() const noexcept override { return Device::Type::cuda; }
  void abort(const Failure&) noexcept override {}
};

/// For each one made, whether it was at need.
std::vector<bool>& imagined() {
  static std::vector<bool> made;
  static const bool once = [] {
    EngineTraits traits;
    traits.device = Device::Type::cuda;
    const auto make = [](const EngineOptions& options) {
      made.push_back(options.at_need);
      return std::make_unique<Imagined>();
    };
    register_engine("imagined", make, traits);
    return true;
  }();
  static_cast<void>(once);
  made.clear();
  return made;
}

TEST(Engines, TheMemoryOfDevicesHasItsOwn) {
  imagined();
  Joiners one({0});
  const Selection both = one.select(0, "cpu:native,cuda:imagined");
  EXPECT_EQ(both.host, "native");
  EXPECT_EQ(both.device, "imagined");
  EXPECT_FALSE(both.device_at_need);
  const Selection by_name = one.select(0, "imagined", "native");
  EXPECT_EQ(by_name.asked, "auto");  // the program has said what it wants
  EXPECT_EQ(by_name.device, "imagined");
  EXPECT_EQ(one.select(0, "auto", "imagined").device, "imagined");
  Selection tcp{.asked = "tcp", .host = "tcp", .device = "", .device_at_need = false};
  EXPECT_EQ(select_for_group(tcp, "imagined", {0, 0}).device, "imagined");
  EXPECT_EQ(select_for_group(tcp, "imagined", {0, 0}).asked, "tcp");
  EXPECT_EQ(select_for_group(tcp, "auto", {0, 0}).asked, "auto");
  EXPECT_EQ(select_for_group(tcp, "cpu:native,cuda:imagined", {0, 0}).device, "imagined");
}

/// A stand-in for NCCL, which only a rank can see. It is there as long as such an object: the engine stays registered for the tests behind.
struct PretendedNccl {
  PretendedNccl() {
    static const bool once = [] {
      EngineTraits traits;
      traits.device = Device::Type::cuda;
      traits.why_not_as_a_rank = [] { return std::string(current != nullptr && current->is_there ? "" : "no device"); };
      traits.own_device = [](int local_rank) {
        return current->devices.empty() ? OwnDevice{.device = {Device::Type::cuda, local_rank}}
                                        : current->devices.at(static_cast<std::size_t>(local_rank));
      };
      register_engine(
          "nccl", [](const EngineOptions&) { return std::make_unique<Imagined>(); }, traits);
      return true;
    }();
    static_cast<void>(once);
    current = this;
  }
  ~PretendedNccl() { current = nullptr; }
  PretendedNccl(const PretendedNccl&) = delete;
  PretendedNccl& operator=(const PretendedNccl&) = delete;

  bool is_there = true;
  std::vector<OwnDevice> devices;  // by local rank; none: each has one of its own that has no address
  static inline PretendedNccl* current = nullptr;
};

TEST(Engines, NcclServesTheMemoryOfDevicesWhereItCan) {
  imagined();
  PretendedNccl nccl;
  const auto device = [](const std::vector<int>& machines, const std::string& asked) {
    Joiners joiners(machines);
    joiners.store_->set("engines/verdict", "take native");
    const int rank = static_cast<int>(machines.size()) - 1;
    const Selection selection = joiners.select(rank, asked);
    return selection.device + (selection.device_at_need ? " at need" : "");
  };
  EXPECT_EQ(device({0, 0}, "auto"), "nccl at need");
  EXPECT_EQ(device({0, 0}, "native"), "");
  EXPECT_EQ(device({0, 0}, "nccl"), "nccl");
  EXPECT_EQ(device({0, 0}, "imagined"), "imagined");
  EXPECT_EQ(device({0}, "auto"), "nccl at need");
  EXPECT_EQ(device({0}, "native"), "");
  nccl.is_there = false;
  EXPECT_EQ(device({0, 0}, "auto"), "");
  EXPECT_EQ(device({0}, "auto"), "");
}

/// The choice of each rank for device memory, as "nccl cuda:1", or the error.
std::vector<std::string> devices_of(const std::vector<int>& machines, const std::string& asked) {
  Joiners joiners(machines);
  std::vector<std::string> chosen(machines.size());
  std::vector<std::jthread> ranks;
  for (std::size_t r = 0; r < machines.size(); ++r) {
    ranks.emplace_back([&, r] {
      try {
        const Selection selection = joiners.select(static_cast<int>(r), asked);
        chosen[r] = (selection.device.empty() ? "host" : selection.device) + " " + to_string(selection.own_device.value_or(Device{}));
      } catch (const BackendUnavailable& error) {
        chosen[r] = error.message();
      }
    });
  }
  ranks.clear();
  return chosen;
}

// The processes of a launcher that shows each its own device all know it as the first one: only the address tells.
TEST(Engines, RanksOfOneDeviceGoThroughTheHost) {
  using Chosen = std::vector<std::string>;
  PretendedNccl nccl;
  const Device first{Device::Type::cuda, 0}, second{Device::Type::cuda, 1};
  nccl.devices = {{first, "0000:01:00.0", false}, {first, "0000:02:00.0", false}};
  EXPECT_EQ(devices_of({0, 0}, "auto"), (Chosen{"nccl cuda:0", "nccl cuda:0"}));
  nccl.devices = {{first, "0000:01:00.0", false}, {second, "0000:02:00.0", false}, {first, "0000:01:00.0", false}};
  testing::internal::CaptureStderr();
  EXPECT_EQ(devices_of({0, 0, 0}, "auto"), (Chosen{"host cuda:0", "host cuda:1", "host cuda:0"}));
  const std::string said = testing::internal::GetCapturedStderr();
  const auto at = said.find("ranks 0 and 2 share a device (0000:01:00.0): device memory goes through the host's memory");
  EXPECT_NE(at, std::string::npos) << said;
  EXPECT_EQ(said.find("share a device", at + 30), std::string::npos) << said;  // one rank says so
  for (const std::string& text : devices_of({0, 0, 0}, "nccl")) {
    EXPECT_EQ(text, "backend nccl cannot be used: ranks 0 and 2 share a device (0000:01:00.0)");
  }
  testing::internal::CaptureStderr();
  EXPECT_EQ(devices_of({0, 0, 1}, "auto"), (Chosen{"nccl cuda:0", "nccl cuda:1", "nccl cuda:0"}));  // the same address on another host
  static_cast<void>(testing::internal::GetCapturedStderr());
}

TEST(Engines, RanksShareADeviceWhereAllOfThemMay) {
  using Chosen = std::vector<std::string>;
  PretendedNccl nccl;
  const Device device{Device::Type::cuda, 0};
  nccl.devices = {{device, "0000:01:00.0", true}, {device, "0000:01:00.0", true}};
  EXPECT_EQ(devices_of({0, 0}, "auto"), (Chosen{"nccl cuda:0", "nccl cuda:0"}));
  EXPECT_EQ(devices_of({0, 0}, "nccl"), (Chosen{"nccl cuda:0", "nccl cuda:0"}));
  nccl.devices[1].may_be_shared = false;
  testing::internal::CaptureStderr();
  EXPECT_EQ(devices_of({0, 0}, "auto"), (Chosen{"host cuda:0", "host cuda:0"}));
  static_cast<void>(testing::internal::GetCapturedStderr());
}

// A rank without one has its memory on the host, and the others meet it there.
TEST(Engines, DevicesAreUsedWhereAllRanksHaveOne) {
  const PretendedNccl nccl;
  Joiners joiners({0, 0});
  joiners.store_->set("engines/1", "auto\n\n\n");
  const Selection selection = joiners.select(0, "auto");
  EXPECT_EQ(selection.device, "");
  EXPECT_EQ(selection.own_device, (Device{Device::Type::cuda, 0}));
}

TEST(Engines, TheMemoryOfDevicesIsServedAtNeedUnlessByName) {
  const std::vector<bool>& made = imagined();
  const auto make = [](const std::string& asked, bool at_need, const std::shared_ptr<coordination::Coordination>& world) {
    group::CoreOptions options;
    options.global_ranks = {0};
    options.store = std::make_shared<MemoryStore>();
    options.world = world;
    return make_group_core({.asked = asked, .host = "serial", .device = "imagined", .device_at_need = at_need}, options);
  };
  const auto world = make("auto", false, nullptr);
  EXPECT_EQ(world->name(), "imagined");
  EXPECT_EQ(make("serial", true, nullptr)->name(), "cpu:serial,cuda:imagined");
  static_cast<void>(make("auto", false, world->shared_coordination()));
  EXPECT_EQ(made, (std::vector<bool>{false, true, true}));
}

}  // namespace
}  // namespace unisono::context

#include "engines/ucx/devices.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "unisono/error.h"

// When `auto` takes the engine, and which devices it uses.

namespace unisono::engines::ucx {
namespace {

namespace fs = std::filesystem;

class Rdma : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = fs::temp_directory_path() / "unisono-rdma-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    probe_.verbs_devices = folder_ / "infiniband";
    probe_.transports = [this] {
      ++asked_;
      return transports_;
    };
  }
  void TearDown() override { fs::remove_all(folder_); }
  void add_device() { fs::create_directories(folder_ / "infiniband" / "mlx5_0"); }

  fs::path folder_;
  int asked_ = 0;
  std::vector<NetworkTransport> transports_{{"tcp", "eth0"}, {"rc_verbs", "mlx5_0:1"}, {"ud_verbs", "mlx5_0:1"}};
  RdmaProbe probe_;
};

TEST_F(Rdma, RdmaNeedsAVerbsDeviceOfTheKernel) {
  EXPECT_NE(probe_.why_not().find("infiniband is missing"), std::string::npos) << probe_.why_not();
  fs::create_directories(folder_ / "infiniband");
  EXPECT_NE(probe_.why_not().find("infiniband is empty"), std::string::npos) << probe_.why_not();
  EXPECT_EQ(asked_, 0) << "UCX is not loaded for nothing";
  add_device();
  EXPECT_EQ(probe_.why_not(), "");
  EXPECT_EQ(asked_, 1);
}

TEST_F(Rdma, RdmaNeedsATransportOfUcxOnIt) {
  add_device();
  transports_.resize(1);  // a verbs device whose port is down
  EXPECT_EQ(probe_.why_not(), "UCX finds no transport on this host's verbs devices");
}

TEST_F(Rdma, RdmaNeedsUcx) {
  add_device();
  probe_.transports = []() -> std::vector<NetworkTransport> { throw BackendUnavailable("there is no UCX"); };
  EXPECT_EQ(probe_.why_not(), "there is no UCX");
}

TEST_F(Rdma, RdmaIsNotUsedWhereTheUserHasChosenOtherTransports) {
  add_device();
  for (const char* const list : {"tcp", "tcp,self", "shm,cma", "^ib", "^rc,ud"}) {
    probe_.list = list;
    EXPECT_EQ(probe_.why_not(), std::string("UCX finds no transport on this host's verbs devices that UCX_TLS=") + list + " admits");
  }
  for (const char* const list : {"", "all", "rc", "ib,tcp", "^tcp", "ud_verbs", "rc_v", "^rc"}) {
    probe_.list = list;
    EXPECT_EQ(probe_.why_not(), "") << list;
  }
}

TEST(Admits, TheRuleKnowsTheNamesOfUcx) {
  EXPECT_TRUE(admits("rc_x", "rc_mlx5"));
  EXPECT_FALSE(admits("rc_x", "rc_verbs"));
  EXPECT_TRUE(admits("dc", "dc_mlx5"));
  EXPECT_FALSE(admits("rc", "tcp"));
  EXPECT_FALSE(admits("ib", "tcp"));
  EXPECT_TRUE(admits("tcp", "tcp"));
  for (const char* const list : {"shm,cma", "sm", "mm", "posix", "all", ""}) EXPECT_TRUE(admits(list, "posix")) << list;
  for (const char* const list : {"tcp", "^shm", "sysv", "^posix"}) EXPECT_FALSE(admits(list, "posix")) << list;
}

TEST(Probe, AProbeOfThisProcessSaysWhatThisHostHas) {
  std::error_code error;
  const bool has_verbs = fs::directory_iterator("/sys/class/infiniband", error) != fs::directory_iterator();
  const std::string why_not = RdmaProbe::of_process().why_not();
  EXPECT_EQ(why_not.find("no verbs device") != std::string::npos, error || !has_verbs) << why_not;
}

TEST(Devices, DevicesAreThoseOfUcxOnThisHost) {
  const std::vector<NetworkTransport> found = network_transports(library());
  EXPECT_TRUE(std::ranges::any_of(found, [](const NetworkTransport& one) { return one.name == "tcp" && one.device == "lo"; }));
}

TEST(Devices, DevicesAreTheInterfaceOfTheAddressAndRdma) {
  EXPECT_EQ(devices_for("127.0.0.1", {{"tcp", "lo"}, {"tcp", "docker0"}}), "lo");
  EXPECT_EQ(devices_for("127.0.0.1", {{"rc_mlx5", "mlx5_0:1"}, {"ud_mlx5", "mlx5_0:1"}, {"tcp", "lo"}, {"rc_mlx5", "mlx5_1:1"}}),
            "mlx5_0:1,mlx5_1:1,lo");
  for (const char* const address : {"192.0.2.1", "not-an-address", ""}) EXPECT_THROW(devices_for(address, {}), BackendUnavailable) << address;
}

}  // namespace
}  // namespace unisono::engines::ucx

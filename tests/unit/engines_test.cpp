// Which engine the ranks of a world and of a group take: from what each asks for, and where they are.

#include "context/engines.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "unisono/error.h"

namespace unisono::context {
namespace {

using namespace std::chrono_literals;

/// A world that has yet to agree. `machines`: of each rank.
struct Joiners {
  explicit Joiners(std::vector<int> machines) : machines_(std::move(machines)) {
    topology_.machines = *std::max_element(machines_.begin(), machines_.end()) + 1;
    for (const int m : machines_) topology_.host_names.push_back("host" + std::to_string(m));
  }

  Selection select(int rank, const std::string& backend, const std::string& variable = {}, Launcher launcher = Launcher::none) {
    InitOptions options;
    options.backend = backend;
    std::map<std::string, std::string, std::less<>> variables;
    if (!variable.empty()) variables["UNISONO_BACKEND"] = variable;
    const ground::Deadline deadline(60s);
    const Joining joining{rank, static_cast<int>(machines_.size()), *store_, deadline};
    return select_engines(options, ground::Environment(std::move(variables)), topology_, launcher, joining);
  }
  /// As every rank has it that asks for what stands there; an error as its text.
  std::vector<std::string> all(const std::vector<std::string>& asked) {
    std::vector<std::string> hosts(asked.size());
    std::vector<std::jthread> ranks;
    for (std::size_t r = 0; r < asked.size(); ++r) {
      ranks.emplace_back([&, r] {
        try {
          hosts[r] = select(static_cast<int>(r), asked[r]).host;
        } catch (const Error& error) {
          hosts[r] = error.message();
        }
      });
    }
    ranks.clear();
    return hosts;
  }

  std::vector<int> machines_;
  Topology topology_;
  std::shared_ptr<MemoryStore> store_ = std::make_shared<MemoryStore>();
};

TEST(Engines, OneHostHasTheNativeOneAndSeveralHaveTcp) {
  using Hosts = std::vector<std::string>;
  EXPECT_EQ(Joiners({0}).all({"auto"}), Hosts{"serial"});
  EXPECT_EQ(Joiners({0, 0}).all({"auto", "auto"}), (Hosts{"native", "native"}));
  testing::internal::CaptureStderr();
  EXPECT_EQ(Joiners({0, 1, 1}).all({"auto", "auto", "auto"}), (Hosts{"tcp", "tcp", "tcp"}));
  const std::string said = testing::internal::GetCapturedStderr();
  const auto at = said.find("3 ranks on 2 hosts: backend tcp between hosts, native inside them");
  ASSERT_NE(at, std::string::npos) << said;
  EXPECT_EQ(said.find("3 ranks on 2 hosts", at + 1), std::string::npos) << said;  // one rank says so
}

TEST(Engines, WhoDiffersFromRankZeroIsNamedOnAllRanks) {
  for (const std::string& text : Joiners({0, 0, 0}).all({"native", "native", "tcp"}))
    EXPECT_EQ(text, "rank 0 asks for backend native, and rank 2 for tcp");
  for (const std::string& text : Joiners({0, 0, 0}).all({"auto", "tcp", "native"}))
    EXPECT_EQ(text, "rank 0 asks for backend auto, and rank 1 for tcp");
}

TEST(Engines, WhatAllCanTakeBetweenHosts) {
  // Rank 1 speaks for itself: it asks for the same, and can take only what stands behind.
  const auto agreed = [](const std::string& says) {
    Joiners joiners({0, 1});
    joiners.store_->set("engines/1", "auto\n" + says);
    return joiners.select(0, "auto").host;
  };
  EXPECT_EQ(agreed("tcp "), "tcp");
  EXPECT_EQ(agreed("mpi tcp "), "tcp");
  EXPECT_EQ(agreed(""), "tcp");  // whoever can take nothing that is common says so when it makes its engine
}

TEST(Engines, AVerdictThatIsNoneOfOurs) {
  for (const char* verdict : {"", "take", "differ", "differ 1", "differ x tcp native", "differ 1 tcp", "nonsense 1 tcp native"}) {
    Joiners joiners({0, 0});
    joiners.store_->set("engines/verdict", verdict);
    EXPECT_THROW(static_cast<void>(joiners.select(1, "auto")), ProtocolError) << verdict;
  }
}

TEST(Engines, TheProgramComesBeforeTheVariable) {
  Joiners one({0});
  EXPECT_EQ(one.select(0, "auto", "native").host, "native");
  EXPECT_EQ(one.select(0, "auto", "native").asked, "native");
  EXPECT_EQ(one.select(0, "serial", "native").host, "serial");
  EXPECT_EQ(one.select(0, "auto").asked, "auto");
  EXPECT_EQ(one.select(0, "auto").device, "");
  EXPECT_THROW(static_cast<void>(one.select(0, "auto", "carrier-pigeon")), InvalidArgument);
}

TEST(Engines, WhatCannotServeTheRanksIsRefused) {
  const auto serial = Joiners({0, 0}).all({"serial", "serial"});
  for (const std::string& text : serial) EXPECT_EQ(text, "backend serial is for one process, and there are 2");
  const auto native = Joiners({0, 1, 1}).all({"native", "native", "native"});
  for (const std::string& text : native) {
    EXPECT_EQ(text, "the ranks are on 2 hosts, and backend native serves one: host0 (rank 0); host1 (rank 1, 2)");
  }
  EXPECT_EQ(Joiners({0}).all({"serial"}), std::vector<std::string>{"serial"});
  EXPECT_EQ(Joiners({0, 0}).all({"native", "native"}), (std::vector<std::string>{"native", "native"}));
}

TEST(Engines, AGroupMayAskForItsOwn) {
  const Selection world{.asked = "native", .host = "native", .device = "", .device_at_need = false};
  EXPECT_EQ(select_for_group(world, "", {0, 1}).host, "native");
  EXPECT_FALSE(select_for_group(world, "", {0, 1}).device_at_need);
  EXPECT_EQ(select_for_group(world, "tcp", {0, 1}).host, "tcp");
  EXPECT_EQ(select_for_group(world, "tcp", {0, 1}).asked, "tcp");
  EXPECT_TRUE(select_for_group(world, "tcp", {0, 1}).device_at_need);
  EXPECT_EQ(select_for_group(world, "auto", {0, 0}).asked, "auto");
  EXPECT_EQ(select_for_group(world, "serial", {0}).host, "serial");
  EXPECT_THROW(static_cast<void>(select_for_group(world, "serial", {0, 0})), InvalidArgument);
  EXPECT_EQ(select_for_group(world, "native", {0, 0}).host, "native");
  EXPECT_THROW(static_cast<void>(select_for_group(world, "native", {0, 1})), BackendUnavailable);
  Selection with_device = world;
  with_device.device = "nccl";
  EXPECT_EQ(select_for_group(with_device, "tcp", {0, 0}).device, "");  // asked for host memory alone
  EXPECT_EQ(select_for_group(with_device, "auto", {0, 0}).device, "nccl");
}

}  // namespace
}  // namespace unisono::context

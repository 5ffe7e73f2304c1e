// The choice of the engine of a world and of a group: by the wishes of its ranks, and by their hosts.

#include "context/engines.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "joiners.h"
#include "unisono/engine.h"
#include "unisono/error.h"

namespace unisono::context {
namespace {

using namespace std::chrono_literals;

/// In which rank 0 can take what it could not where this runs.
class WithMoreAtRankZero final : public Store {
 public:
  explicit WithMoreAtRankZero(std::string text) : text_(std::move(text)) {}
  void set(std::string_view key, std::string_view value) override { inner_.set(key, value); }
  std::string get(std::string_view key, std::optional<Milliseconds> timeout) override {
    return key == "engines/0" ? text_ : inner_.get(key, timeout);
  }
  std::optional<std::string> try_get(std::string_view key) override {
    const auto value = inner_.try_get(key);
    return value && key == "engines/0" ? text_ : value;
  }
  std::int64_t add(std::string_view key, std::int64_t amount) override { return inner_.add(key, amount); }
  void wait(std::span<const std::string> keys, std::optional<Milliseconds> timeout) override { inner_.wait(keys, timeout); }
  std::string compare_set(std::string_view key, std::string_view expected, std::string_view desired) override {
    return inner_.compare_set(key, expected, desired);
  }
  bool erase(std::string_view key) override { return inner_.erase(key); }
  std::int64_t num_keys() override { return inner_.num_keys(); }

 private:
  std::string text_;
  MemoryStore inner_;
};

TEST(Engines, OneHostHasTheNativeOneAndSeveralHaveTcp) {
  using Hosts = std::vector<std::string>;
  EXPECT_EQ(Joiners({0}).all({"auto"}), Hosts{"serial"});
  EXPECT_EQ(Joiners({0, 0}).all({"auto", "auto"}), (Hosts{"native", "native"}));
  testing::internal::CaptureStderr();
  EXPECT_EQ(Joiners({0, 1, 1}).all({"auto", "auto", "auto"}), (Hosts{"tcp", "tcp", "tcp"}));
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "") << "nothing is wrong";
  Joiners joiners({0, 1});
  joiners.store_->set("engines/verdict", "take tcp");
  testing::internal::CaptureStderr();
  EXPECT_EQ(joiners.select(1, "auto").host, "tcp");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");  // which is rank 0
}

TEST(Engines, NobodyIsAskedByARankAlone) {
  Joiners one({0});
  EXPECT_EQ(one.select(0, "auto").host, "serial");
  EXPECT_EQ(one.store_->num_keys(), 0);
}

TEST(Engines, ARankThatDiffersFromRankZeroIsNamedOnAllRanks) {
  for (const std::string& text : Joiners({0, 0, 0}).all({"native", "native", "tcp"}))
    EXPECT_EQ(text, "rank 0 asks for backend native, and rank 2 for tcp");
  for (const std::string& text : Joiners({0, 0, 0}).all({"auto", "tcp", "native"}))
    EXPECT_EQ(text, "rank 0 asks for backend auto, and rank 1 for tcp");
}

TEST(Engines, TheEngineBetweenHostsIsOneThatAllCanTake) {
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

TEST(Engines, AnotherScheduleThanRankZerosIsNamed) {
  Joiners joiners({0, 1});
  joiners.store_->set("engines/1", "auto\ntcp \n\nall_reduce=shares");
  for (const int rank : {0, 1}) {
    try {
      static_cast<void>(joiners.select(rank, "auto"));
      ADD_FAILURE() << "threw nothing";
    } catch (const InvalidArgument& error) {
      EXPECT_EQ(error.message(), "rank 1 has another UNISONO_SCHEDULE, UNISONO_NETWORK or UNISONO_MAX_EAGER_CONNECTIONS than rank 0");
      EXPECT_EQ(error.culprit(), 1);
    }
  }
}

// The first of rank 0's that all the others have.
TEST(Engines, TheFirstChoiceOfRankZeroIsTaken) {
  const auto verdict = [](const std::string& rank_0, const std::string& rank_1, const std::string& rank_2) {
    Joiners joiners({0, 1, 1});
    joiners.store_ = std::make_shared<WithMoreAtRankZero>("auto\n" + rank_0);
    joiners.store_->set("engines/1", "auto\n" + rank_1);
    joiners.store_->set("engines/2", "auto\n" + rank_2);
    try {
      static_cast<void>(joiners.select(0, "auto"));
    } catch (const Error&) {  // the engine is none that can be made here
    }
    return joiners.store_->get("engines/verdict", 60s);
  };
  EXPECT_EQ(verdict("swift tcp ", "swift tcp ", "swift tcp "), "take swift");
  EXPECT_EQ(verdict("swift sure tcp ", "tcp sure swift ", "sure swift tcp "), "take swift");
  EXPECT_EQ(verdict("swift sure tcp ", "swift sure tcp ", "sure tcp "), "take sure");
  EXPECT_EQ(verdict("swift tcp ", "swift tcp ", "tcp "), "take tcp");
}

// Only what `auto` may take between hosts is said; mpi is one of these where an MPI has started the job.
TEST(Engines, ARankSaysWhatItCanTake) {
  const auto said = [](const std::vector<int>& machines, const std::string& asked, Launcher launcher) {
    Joiners joiners(machines);
    joiners.store_->set("engines/verdict", "take tcp");
    static_cast<void>(joiners.select(1, asked, {}, launcher));
    return joiners.store_->get("engines/1", 60s);
  };
  static bool is_there = true;
  EngineTraits traits;
  traits.why_not = [] { return std::string(is_there ? "" : "not here"); };
  register_engine(
      "mpi", [](const EngineOptions&) { return std::unique_ptr<Engine>(); }, traits);
  for (const Launcher launcher : {Launcher::openmpi, Launcher::pmi}) EXPECT_EQ(said({0, 1}, "auto", launcher), "auto\nmpi tcp \n\n");
  for (const Launcher launcher : {Launcher::none, Launcher::unisono, Launcher::slurm}) EXPECT_EQ(said({0, 1}, "auto", launcher), "auto\ntcp \n\n");
  is_there = false;
  for (const Launcher launcher : {Launcher::openmpi, Launcher::pmi}) EXPECT_EQ(said({0, 1}, "auto", launcher), "auto\ntcp \n\n");
  EXPECT_EQ(said({0, 1}, "tcp", Launcher::none), "tcp\n\n\n");
  EXPECT_EQ(said({0, 0}, "auto", Launcher::none), "auto\n\n\n");
}

TEST(Engines, ARankThatSaysNothingInTimeIsMissed) {
  const auto missed = [](const std::vector<std::string>& there) {
    Joiners joiners({0, 0, 0});
    for (const std::string& key : there) joiners.store_->set(key, "auto\n");
    try {
      static_cast<void>(joiners.select(1, "auto", {}, Launcher::none, 50ms));
    } catch (const Timeout& error) {
      EXPECT_EQ(error.operation(), "initialize");
      EXPECT_EQ(error.rank(), 1);
      return std::pair(error.message(), error.missing());
    }
    return std::pair(std::string("threw nothing"), std::vector<int>{});
  };
  const auto text = [](const std::string& ranks) { return "rank " + ranks + " did not say in time which engine it asks for"; };
  EXPECT_EQ(missed({}), std::pair(text("0, 2"), std::vector<int>{0, 2}));
  EXPECT_EQ(missed({"engines/2"}), std::pair(text("0"), std::vector<int>{0}));
  EXPECT_EQ(missed({"engines/0", "engines/2"}), std::pair(text("0"), std::vector<int>{0}));  // which should have compared
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

// The world's engine serves only groups between hosts where nobody asks for a particular engine.
TEST(Engines, AGroupOnOneHostHasTheNativeOne) {
  const auto name = [](const std::string& asked, const std::vector<int>& hosts) {
    return engine_of_group({.asked = asked, .host = "elsewhere", .device = "", .device_at_need = false}, hosts);
  };
  EXPECT_EQ(name("auto", {0}), "serial");
  EXPECT_EQ(name("auto", {0, 0}), "native");
  EXPECT_EQ(name("auto", {0, 1}), "elsewhere");
  EXPECT_EQ(name("elsewhere", {0}), "elsewhere");
  EXPECT_EQ(name("elsewhere", {0, 0}), "elsewhere");
}

}  // namespace
}  // namespace unisono::context

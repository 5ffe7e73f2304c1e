// Contexts that somebody else made in this process, and who may end them.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "covers.h"
#include "unisono/engine.h"
#include "unisono/unisono.h"

namespace unisono {
namespace {

/// The job that the probe of this program finds; probes stay for the life of a process.
std::optional<InitOptions>& found() {
  static std::optional<InitOptions> options;
  return options;
}
/// The probe calls this before it answers.
std::function<void()>& first() {
  static std::function<void()> action;
  return action;
}
int& asked() {
  static int times = 0;
  return times;
}

InitOptions foreign_context(const std::string& backend) {
  InitOptions options;
  options.backend = backend;
  options.store = std::make_shared<MemoryStore>();
  options.rank = 0;
  options.world_size = 1;
  return options;
}

class Adoption : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    register_context_probe([] {
      ++asked();
      if (first()) first()();
      return found();
    });
  }
  void SetUp() override {
    ASSERT_FALSE(is_initialized());
    found().reset();
    first() = nullptr;
  }
  void TearDown() override { finalize(); }
};

TEST_F(Adoption, NothingIsTakenWhereNothingIs) {  // it is asked whether there is a context, not whether there could be one
  COVERS("I-06", "K-39");
  const int before = asked();
  sync();
  EXPECT_EQ(asked(), before + 1);
  EXPECT_FALSE(is_initialized());
  EXPECT_EQ(model_name(), "serial");
  EXPECT_EQ(backend(), std::nullopt);
}

TEST_F(Adoption, WhatIsFoundStaysUntilFinalize) {
  COVERS("I-01", "B-08", "B-10");
  found() = foreign_context("native");
  sync();
  EXPECT_TRUE(is_initialized());
  EXPECT_EQ(model_name(), "native-dist");
  EXPECT_EQ(backend(), "native");
  EXPECT_EQ(all_reduce(5), 5);
  // Pinned: what the probe would say now does not matter.
  const int before = asked();
  found().reset();
  sync();
  EXPECT_EQ(asked(), before);
  EXPECT_TRUE(is_initialized());
  EXPECT_THROW(initialize(), AlreadyInitialized);
  finalize();
  EXPECT_FALSE(is_initialized());
  EXPECT_EQ(model_name(), "serial");
}

TEST_F(Adoption, GettersAndCallsFindItWithoutBeingTold) {
  COVERS("I-02");
  EXPECT_EQ(world_size(), 1);
  EXPECT_EQ(model_name(), "serial");
  found() = foreign_context("native");
  found()->rank = 3;
  found()->world_size = 5;
  EXPECT_EQ(rank(), 3);  // looks only: a job of five would wait for the others
  EXPECT_EQ(world_size(), 5);
  EXPECT_EQ(dist_info().rank, 3);
  EXPECT_FALSE(is_initialized());
  found() = foreign_context("native");
  EXPECT_EQ(all_reduce(5), 5);
  EXPECT_TRUE(is_initialized());
  EXPECT_EQ(model_name(), "native-dist");
  const int before = asked();
  EXPECT_EQ(rank(), 0);
  EXPECT_EQ(asked(), before) << "it is looked for although it was found";
}

TEST_F(Adoption, TheCallThatFindsItIsOneOfItsCalls) {
  found() = foreign_context("native");
  EXPECT_EQ(world().backend(), "native");
}

TEST_F(Adoption, AProbeMayAskWhoItIs) {
  int told = -1;
  first() = [&told] { told = rank(); };
  EXPECT_EQ(world_size(), 1);
  EXPECT_EQ(told, 0);
  found() = foreign_context("native");
  EXPECT_EQ(all_reduce(5), 5);
  EXPECT_EQ(backend(), "native");
}

TEST_F(Adoption, LookingTellsNothingThatWasNotSaid) {
  found() = foreign_context("native");
  found()->rank.reset();
  EXPECT_THROW(static_cast<void>(rank()), InvalidArgument);
  found() = foreign_context("native");
  found()->world_size.reset();
  EXPECT_THROW(static_cast<void>(world_size()), InvalidArgument);
  EXPECT_FALSE(is_initialized());
}

// Only who has joined a job may start the runtime of a device, and knows what it says.
TEST_F(Adoption, ARankSeesMoreOfAnEngine) {
  EngineTraits traits;
  traits.why_not_as_a_rank = [] { return std::string("its device is broken"); };
  register_engine(
      "fragile", [](const EngineOptions&) { return std::unique_ptr<Engine>(); }, traits);
  const auto is_listed = [] { return std::ranges::count(available_backends(), "fragile") == 1; };
  EXPECT_TRUE(is_backend_available("fragile"));
  EXPECT_TRUE(is_listed());
  initialize(foreign_context("native"));
  EXPECT_FALSE(is_backend_available("fragile"));
  EXPECT_FALSE(is_listed());
}

TEST_F(Adoption, AContextIsLookedForAnewForAWhile) {
  COVERS("I-01");
  found() = foreign_context("native");
  sync(true);
  EXPECT_EQ(model_name(), "native-dist");
  found() = foreign_context("serial");
  sync(true);
  EXPECT_TRUE(is_initialized());
  EXPECT_EQ(model_name(), "serial");
  const std::weak_ptr<Store> store = found()->store;
  found().reset();
  EXPECT_FALSE(store.expired());
  sync(true);
  EXPECT_FALSE(is_initialized());
  EXPECT_TRUE(store.expired()) << "what was adopted for a while is kept";
  found() = foreign_context("native");
  sync();
  EXPECT_EQ(model_name(), "native-dist");
}

TEST_F(Adoption, AContextOfOnesOwnIsNotTouched) {
  COVERS("I-01", "K-45");
  initialize(foreign_context("native"));
  const int before = asked();
  sync();
  sync(true);
  EXPECT_EQ(asked(), before);
  EXPECT_EQ(model_name(), "native-dist");
}

TEST_F(Adoption, TheOthersStoreSurvivesFinalize) {  // only what is ours ends
  COVERS("K-45");
  found() = foreign_context("native");
  const auto store = found()->store;
  store->set("theirs", "1");
  sync();
  finalize();
  EXPECT_EQ(store->get("theirs"), "1");
  EXPECT_EQ(store.use_count(), 2);  // ours here and the probe's
}

TEST_F(Adoption, WhatCannotBeJoinedIsAnErrorAndLeavesNothing) {
  COVERS("K-01");
  found() = foreign_context("native");
  found()->rank = 1;
  EXPECT_THROW(sync(), InvalidArgument);
  EXPECT_FALSE(is_initialized());
  found() = foreign_context("native");
  sync();
  EXPECT_TRUE(is_initialized());
}

}  // namespace
}  // namespace unisono

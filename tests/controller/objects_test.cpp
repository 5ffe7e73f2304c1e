// Objects that live on workers.

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <optional>
#include <string>

#include "called_functions.h"
#include "thrown_by.h"
#include "unisono/unisono.h"

namespace unisono::testing {
namespace {

TEST(RemoteObjects, ObjectsLiveAsLongAsTheirHandles) {
  with_workers(1, [](const Controller& workers) {
    {
      const auto one = workers[0].make<Counter>(5);
      const auto other = workers.make<Counter>(7);
      EXPECT_EQ(one.call(&Counter::value).get(), 5);
      EXPECT_EQ(other[0].call(&Counter::add, 1).get(), 8);
      EXPECT_EQ(workers[0].call(counters_alive).get(), 2);
      const auto copy = one;
      EXPECT_EQ(copy.call(&Counter::add, 2).get(), 7);
    }
    EXPECT_EQ(workers[0].call(counters_alive).get(), 0);
  });
  EXPECT_EQ(Counter::alive(), 0);
}

TEST(RemoteObjects, AnObjectThatWasNotMadeSaysWhy) {
  with_workers(1, [](const Controller& workers) {
    const auto counter = workers[0].make<Counter>(-1);
    EXPECT_EQ(thrown_by<RemoteError>([&] { counter.made().get(); }).type(), "std::domain_error");
    const auto error = thrown_by<InvalidArgument>([&] { counter.call(&Counter::value).get(); });
    EXPECT_NE(std::string(error.what()).find("a counter does not start below 0"), std::string::npos) << error.what();
    EXPECT_EQ(workers[0].call(add, 1, 1).get(), 2);
  });
}

TEST(RemoteObjects, AnExceptionOfAMethodLeavesTheObject) {
  with_workers(1, [](const Controller& workers) {
    const auto counter = workers[0].make<Counter>(1);
    EXPECT_THROW(counter.call(&Counter::fail).get(), RemoteError);
    EXPECT_EQ(counter.call(&Counter::value).get(), 1);
  });
}

TEST(RemoteObjects, AHandleThatOutlivesItsControllerSaysSo) {
  run_threads(2, [] {
    std::optional<Handle<Counter>> handle;
    std::optional<Future<int>> done;
    {
      const Controller workers;
      handle.emplace(workers[0].make<Counter>(1));
      done.emplace(workers[0].call(add, 1, 1));
    }
    EXPECT_THROW(static_cast<void>(handle->call(&Counter::value)), NotInitialized);
    EXPECT_EQ(done->get(), 2) << "the end of a controller waits for its calls";
  });
}

TEST(RemoteObjects, AnObjectWhoseMakingWasCancelledSaysSo) {
  with_workers(1, [](const Controller& workers) {
    const std::string gate = ::testing::TempDir() + "unisono-gate4-" + std::to_string(::getpid());
    const auto busy = workers[0].call(wait_for_gate, gate);
    const auto counter = workers[0].make<Counter>(1);
    const auto value = counter.call(&Counter::value);
    EXPECT_TRUE(counter.made().cancel());
    std::fclose(std::fopen(gate.c_str(), "w"));
    busy.get();
    std::remove(gate.c_str());
    EXPECT_THROW(counter.made().get(), Cancelled);
    const auto error = thrown_by<InvalidArgument>([&] { value.get(); });
    EXPECT_NE(std::string(error.what()).find("Counter has failed: the call was cancelled before it had begun"), std::string::npos) << error.what();
  });
}

TEST(RemoteObjects, TheLastObjectsEndWhileTheirWorkerIsOne) {
  std::optional<Handle<Witness>> handle;
  run_threads(2, [&] {
    const Controller workers;
    handle.emplace(workers[0].make<Witness>());
    EXPECT_EQ(workers[0].call(add, 1, 1).get(), 2);
  });
  EXPECT_EQ(Witness::rank_at_last_end(), 0);
}

TEST(RemoteObjects, ACallbackMayHoldTheLastHandle) {
  with_workers(1, [](const Controller& workers) {
    const std::string gate = ::testing::TempDir() + "unisono-gate3-" + std::to_string(::getpid());
    const auto busy = workers[0].call(wait_for_gate, gate);
    std::optional counter(workers[0].make<Counter>(1));
    counter->call(&Counter::value).then([kept = *counter](const Future<int>& done) { EXPECT_EQ(done.get(), kept.worker() + 1); });
    counter.reset();
    std::fclose(std::fopen(gate.c_str(), "w"));
    busy.get();
    while (workers[0].call(counters_alive).get() != 0) continue;
    std::remove(gate.c_str());
  });
}

}  // namespace
}  // namespace unisono::testing

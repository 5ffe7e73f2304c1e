// Calls of a controller on workers that are threads.

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <numeric>
#include <thread>

#include "called_functions.h"
#include "thrown_by.h"
#include "unisono/unisono.h"

namespace unisono::testing {
namespace {

using namespace std::chrono_literals;

TEST(Controller, CallsAFunctionOnAllWorkersInTheirOrder) {
  with_workers(3, [](const Controller& workers) {
    EXPECT_EQ(workers.size(), 3);
    EXPECT_EQ(workers.call(own_rank).get(), (std::vector{0, 1, 2}));
    EXPECT_EQ(workers[1].call(add, 2, 3).get(), 5);
    workers.call(do_nothing).get();
    workers[2].call(do_nothing).get();
  });
}

TEST(Controller, ConvertsArgumentsToTheParametersOfTheFunction) {
  with_workers(1, [](const Controller& workers) {
    EXPECT_EQ(workers[0].call(add, 2L, 'a').get(), 2 + 'a');
    EXPECT_EQ(workers[0].call(joined, std::map<std::string, int>{{"a", 1}, {"b", 2}}, ", ").get(), "a=1, b=2");
    const Reading reading = workers[0].call(doubled, Reading{"attic", {1, 2.5}}).get();
    EXPECT_EQ(reading.place, "attic");
    EXPECT_EQ(reading.values, (std::vector{2.0, 5.0}));
  });
}

TEST(Controller, SmallAndLargeBuffersArriveAsTheyWere) {
  with_workers(2, [](const Controller& workers) {
    for (const std::size_t elements : {std::size_t{0}, std::size_t{3}, std::size_t{1000}, std::size_t{20'000}, std::size_t{3'000'001}}) {
      std::vector<float> values(elements);
      std::iota(values.begin(), values.end(), 1.0F);
      std::vector<float> expected = values;
      for (float& value : expected) value *= 2;
      const auto results = workers.call(scaled, values, 2).get();
      ASSERT_EQ(results.size(), 2u);
      EXPECT_EQ(results[0], expected) << elements;
      EXPECT_EQ(results[1], expected) << elements;
      EXPECT_EQ(workers[1].call(scaled, std::move(values), 2).get(), expected) << elements;
    }
  });
}

TEST(Controller, ASpanTakesVectorsOfAnyLength) {
  with_workers(1, [](const Controller& workers) {
    std::vector<double> values(100'000, 0.5);
    EXPECT_EQ(workers[0].call(sum_of, values).get(), 50'000);
    EXPECT_EQ(workers[0].call(sum_of, std::span<const double>(values).first(3)).get(), 1.5);
    EXPECT_EQ(workers[0].call(sum_of, std::move(values)).get(), 50'000);
  });
}

TEST(Controller, WorkersUseCollectivesAmongThemselves) {
  with_workers(3, [](const Controller& workers) {
    EXPECT_EQ(workers.call(sum_of_ranks).get(), (std::vector{33, 33, 33}));
    EXPECT_EQ(world_size(), 4);
  });
}

TEST(Controller, AnErrorThatAWorkerCatchesNamesARankOfItsWorld) {
  with_workers(3, [](const Controller& workers) {
    for (const std::string& text : workers.call(own_mismatch).get()) {
      EXPECT_NE(text.find("on group all workers"), std::string::npos) << text;
      EXPECT_NE(text.find("[culprit: rank 1 "), std::string::npos) << text;
    }
  });
}

TEST(Controller, TheControllerTakesPartInCollectivesOfEverybody) {
  with_workers(3, [](const Controller& workers) {
    const auto sums = workers.call(sum_with_controller, 10);
    EXPECT_EQ(all_reduce(1, ReduceOp::sum, workers.everyone()), 31);
    EXPECT_EQ(sums.get(), (std::vector{31, 31, 31}));
  });
}

TEST(Controller, SumsUpAndAveragesResults) {
  with_workers(3, [](const Controller& workers) {
    EXPECT_EQ(workers.sum(workers.call(own_rank)), 3);
    EXPECT_EQ(workers.mean(workers.call(add, 1, 2)), 3.0);
  });
}

TEST(Controller, AThousandCallsOfAWorkerAreUnderWayAtOnce) {
  with_workers(2, [](const Controller& workers) {
    std::vector<Future<int>> futures;
    for (int i = 0; i < 1000; ++i) futures.push_back(workers[i % 2].call(add, i, 1));
    for (int i = 999; i >= 0; --i) EXPECT_EQ(futures[static_cast<std::size_t>(i)].get(), i + 1);
  });
}

TEST(Controller, CarriesOutTheCallsOfAWorkerInTheOrderInWhichTheyWereMade) {
  with_workers(1, [](const Controller& workers) {
    const auto counter = workers.make<Counter>(0);
    int expected = 0;
    std::vector<Futures<int>> values;
    for (int i = 0; i < 200; ++i) values.push_back(counter.call(&Counter::add, i));
    for (int i = 0; i < 200; ++i) EXPECT_EQ(values[static_cast<std::size_t>(i)].get().front(), expected += i);
  });
}

TEST(Controller, AFullWindowMakesTheNextCallWait) {
  with_workers(1,
               [](const Controller& workers) {
                 std::vector<Future<int>> futures;
                 for (int i = 0; i < 50; ++i) {
                   futures.push_back(workers[0].call(add, i, 0));
                   if (i < 3) continue;
                   EXPECT_TRUE(futures[static_cast<std::size_t>(i - 3)].is_completed()) << i;
                 }
                 for (int i = 0; i < 50; ++i) EXPECT_EQ(futures[static_cast<std::size_t>(i)].get(), i);
               },
               {.most_in_flight = 3});
}

TEST(Controller, AnExceptionNamesWorkerFunctionTypesAndLine) {
  with_workers(2, [](const Controller& workers) {
    const auto line = std::source_location::current().line() + 1;
    const auto failed = workers[1].call(throws_out_of_range, 7, "page");
    try {
      failed.get();
      ADD_FAILURE() << "nothing was thrown";
    } catch (const RemoteError& error) {
      EXPECT_EQ(error.type(), "std::out_of_range");
      EXPECT_EQ(error.culprit(), 1);
      ASSERT_TRUE(error.where());
      EXPECT_EQ(error.where()->line(), line);
      EXPECT_STREQ(std::string(error.where()->file_name()).substr(std::string(error.where()->file_name()).rfind('/') + 1).c_str(), "calls_test.cpp");
      const std::string text = error.what();
      EXPECT_NE(text.find("worker 1: throws_out_of_range(int32, string): std::out_of_range: page 7"), std::string::npos) << text;
      EXPECT_NE(text.find("calls_test.cpp:" + std::to_string(line)), std::string::npos) << text;
      EXPECT_NE(text.find("[culprit: worker 1 on "), std::string::npos) << text;
    }
    EXPECT_NE(failed.exception(), nullptr);
    EXPECT_EQ(workers[1].call(add, 1, 1).get(), 2) << "later calls go on";
  });
}

TEST(Controller, AnErrorOfUnisonoArrivesInItsOwnType) {
  with_workers(1, [](const Controller& workers) {
    const auto error = thrown_by<InvalidArgument>([&] { workers[0].call(throws_invalid_argument, 3).get(); });
    EXPECT_EQ(error.culprit(), 3);
    EXPECT_NE(std::string(error.what()).find("seven is too many"), std::string::npos) << error.what();
  });
}

TEST(Controller, WaitAnyReturnsACallThatIsDone) {
  with_workers(2, [](const Controller& workers) {
    std::vector<Future<int>> futures{workers[0].call(add, 1, 2), workers[1].call(add, 3, 4)};
    const std::size_t first = wait_any(futures);
    EXPECT_TRUE(futures[first].is_completed());
    EXPECT_EQ(futures[first].get(), first == 0 ? 3 : 7);
    EXPECT_THROW(static_cast<void>(wait_any(std::vector<Future<int>>())), InvalidArgument);
    EXPECT_THROW(static_cast<void>(wait_any(std::vector<Future<int>>(1))), InvalidArgument);
  });
}

TEST(Controller, AResultIsThereOnce) {
  with_workers(1, [](const Controller& workers) {
    const auto future = workers[0].call(add, 1, 2);
    EXPECT_EQ(future.get(), 3);
    EXPECT_THROW(future.get(), InvalidArgument);
    EXPECT_THROW(Future<int>().get(), InvalidArgument);
  });
}

TEST(Controller, ThenCallsWithoutAnybodyWaiting) {
  with_workers(2, [](const Controller& workers) {
    std::mutex mutex;
    std::condition_variable changed;
    int sum = 0, count = 0;
    for (int i = 0; i < 20; ++i) {
      workers[i % 2].call(add, i, 0).then([&](const Future<int>& done) {
        const std::lock_guard lock(mutex);
        sum += done.get();
        if (++count == 20) changed.notify_all();
      });
    }
    std::unique_lock lock(mutex);
    EXPECT_TRUE(changed.wait_for(lock, 30s, [&] { return count == 20; }));
    EXPECT_EQ(sum, 190);
  });
}

TEST(Controller, ThenMayMakeFurtherCalls) {
  with_workers(1, [](const Controller& workers) {
    std::atomic<int> last{0};
    workers[0].call(add, 1, 1).then(
        [&](const Future<int>& done) { workers[0].call(add, done.get(), 1).then([&](const Future<int>& next) { last.store(next.get()); }); });
    while (last.load() == 0) workers[0].call(do_nothing).get();
    EXPECT_EQ(last.load(), 3);
  });
}

TEST(Controller, ItsEndWaitsForTheCallsThatCallbacksMake) {
  int last = 0;
  run_threads(2, [&] {
    std::function<void(const Future<int>&)> next;
    const Controller workers;
    next = [&](const Future<int>& done) {
      last = done.get();
      if (last < 50) workers[0].call(add, last, 1).then(next);
    };
    workers[0].call(add, 0, 1).then(next);
  });
  EXPECT_EQ(last, 50);
}

TEST(Controller, SeveralThreadsCallAndWait) {
  with_workers(2, [](const Controller& workers) {
    std::vector<std::thread> threads;
    std::atomic<int> wrong{0};
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < 200; ++i) wrong += workers[(t + i) % 2].call(add, t, i).get() != t + i;
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wrong.load(), 0);
  });
}

TEST(Controller, SeveralThreadsFetchLargeResults) {
  with_workers(2, [](const Controller& workers) {
    std::vector<std::thread> threads;
    std::atomic<int> wrong{0}, called{0};
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < 20; ++i) {
          const std::size_t elements = 20'000 + static_cast<std::size_t>(1000 * i);
          workers[i % 2].call(large, elements).then([&, elements](const Future<std::vector<float>>& done) {
            called += done.get().size() == elements;
          });
          wrong += workers[(t + i) % 2].call(large, elements).get() != std::vector<float>(elements, 1.5F);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wrong.load(), 0);
    while (called.load() != 60) workers.call(do_nothing).get();
  });
}

TEST(Controller, AFunctionThatIsNotRegisteredIsRefused) {
  with_workers(1, [](const Controller& workers) {
    static constexpr auto unknown = [](int a) { return a; };
    const auto error = thrown_by<InvalidArgument>([&] { static_cast<void>(workers[0].call(unknown, 1)); });
    EXPECT_NE(error.hint().find("UNISONO_REMOTE"), std::string::npos);
  });
}

TEST(Controller, ACallAboveTheLimitOfObjectsIsRefusedOnEitherSide) {
  struct Limits {
    const ObjectLimits before = object_limits();
    ~Limits() { set_object_limits(before); }
  } const restored;
  set_object_limits({.bytes = 1 << 20});
  with_workers(1, [](const Controller& workers) {
    EXPECT_THROW(static_cast<void>(workers[0].call(scaled, std::vector<float>(1 << 20), 1)), InvalidArgument);
    const auto error = thrown_by<InvalidArgument>([&] { workers[0].call(large, std::size_t{1} << 20).get(); });
    EXPECT_NE(std::string(error.what()).find("the result has 4194304 bytes, and the limit is 1048576"), std::string::npos) << error.what();
    EXPECT_EQ(workers[0].call(add, 1, 1).get(), 2);
  });
}

TEST(Controller, NeedsWorkersAndOptionsThatMakeSense) {
  const auto alone = thrown_by<InvalidArgument>([] { const Controller workers; });
  EXPECT_NE(alone.hint().find("unisono run"), std::string::npos) << alone.what();
  EXPECT_THROW(const Controller workers({.workers = -1}), InvalidArgument);
  EXPECT_THROW(const Controller workers({.workers = 1, .most_in_flight = 0}), InvalidArgument);
  with_workers(1, [](const Controller& workers) {
    EXPECT_THROW(static_cast<void>(workers[1]), InvalidArgument);
    EXPECT_THROW(static_cast<void>(workers[-1]), InvalidArgument);
    EXPECT_THROW(const Controller second, InvalidArgument);
  });
}

TEST(Controller, ReplacesNobodyWhereNoLauncherStartsProcesses) {
  run_threads(2, [] {
    Controller workers;
    EXPECT_THROW(workers.replace(0), Unsupported);
  });
}

TEST(Controller, EveryoneIsKnownOnlyWithAController) { EXPECT_THROW(static_cast<void>(Controller::everyone()), InvalidArgument); }

TEST(Controller, AnExceptionThatLeavesItsScopeEndsTheWorkers) {
  try {
    run_threads(3, [] {
      const Controller workers;
      throw std::runtime_error("the program has failed");
    });
    ADD_FAILURE() << "nothing was thrown";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "the program has failed");
  }
}

TEST(Controller, ACallIsCancelledBeforeItBegins) {
  with_workers(1, [](const Controller& workers) {
    const std::string gate = ::testing::TempDir() + "unisono-gate-" + std::to_string(::getpid());
    const auto busy = workers[0].call(wait_for_gate, gate);
    const auto cancelled = workers[0].call(add, 1, 2), kept = workers[0].call(add, 3, 4);
    EXPECT_TRUE(cancelled.cancel());
    std::fclose(std::fopen(gate.c_str(), "w"));
    EXPECT_EQ(kept.get(), 7);
    std::remove(gate.c_str());
    busy.get();
    EXPECT_THROW(cancelled.get(), Cancelled);
    EXPECT_FALSE(kept.cancel());
  });
}

TEST(Controller, ACallIsWaitedForAsLongAsIsSaid) {
  with_workers(1, [](const Controller& workers) {
    const std::string gate = ::testing::TempDir() + "unisono-gate2-" + std::to_string(::getpid());
    const auto busy = workers[0].call(wait_for_gate, gate);
    EXPECT_FALSE(busy.wait_for(5ms));
    EXPECT_FALSE(busy.is_completed());
    EXPECT_EQ(wait_any(std::vector{busy}, 5ms), std::nullopt);
    std::fclose(std::fopen(gate.c_str(), "w"));
    EXPECT_TRUE(busy.wait_for(60s));
    std::remove(gate.c_str());
  });
}

}  // namespace
}  // namespace unisono::testing

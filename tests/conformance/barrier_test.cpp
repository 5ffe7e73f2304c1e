#include <array>
#include <atomic>
#include <thread>

#include "world.h"

using namespace unisono;
using namespace conformance;
using namespace std::chrono_literals;

namespace {

std::array<std::atomic<int>, 8> entered{};

// Nobody leaves before everybody has entered. Told by counters, not by clocks.
WORLD_TEST_IN((Worlds{.threads_only = true}), Barrier, NobodyLeavesBeforeAllHaveEntered) {
  const int n = world_size();
  const auto me = static_cast<std::size_t>(rank());
  entered[me].store(0);
  barrier();
  for (int round = 1; round <= 300; ++round) {
    if (round % n == rank()) std::this_thread::yield();
    entered[me].store(round, std::memory_order_relaxed);
    switch (round % 4) {
      case 0: barrier(); break;
      case 1: synchronize(); break;
      case 2: monitored_barrier(60s); break;
      default: barrier_async().wait(); break;
    }
    for (int r = 0; r < n; ++r) {
      const int seen = entered[static_cast<std::size_t>(r)].load(std::memory_order_relaxed);
      ASSERT_TRUE(seen == round || seen == round + 1) << "rank " << r << " was at " << seen << " in round " << round;
    }
  }
}

// Among processes: rank 0 enters only after everybody has told it that the barrier is before them, and nobody says anything after it.
WORLD_TEST(Barrier, KeepsTheOrderOfMessages) {
  const int n = world_size();
  for (int round = 0; round < 20; ++round) {
    if (rank() == 0) {
      for (int r = 1; r < n; ++r) {
        std::array<int, 1> said{-1};
        recv(said, r);
        ASSERT_EQ(said[0], round);
      }
      barrier();
    } else {
      send(std::array{round}, 0);
      Work passed = barrier_async();
      passed.wait();
    }
  }
}

}  // namespace

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <thread>

#include "covers.h"
#include "unisono/objects.h"
#include "world.h"

using namespace unisono;
using namespace conformance;
using namespace std::chrono_literals;

namespace {

/// Counters that all ranks of a group see, whether they are threads or processes: of this machine they all are, also those that present themselves
/// as being on several hosts. They are told by memory, and not by a call of the library.
class Counters {
 public:
  explicit Counters(const ProcessGroup& group) {
    std::string name = (std::filesystem::temp_directory_path() / "unisono-barrier-XXXXXX").native();
    int file = -1;
    if (group.rank() == 0) {
      file = ::mkstemp(name.data());
      if (file >= 0 && ::ftruncate(file, bytes) != 0) throw std::runtime_error("no file for the counters");
    }
    name = broadcast(name, 0, group);
    if (group.rank() != 0) file = ::open(name.c_str(), O_RDWR | O_CLOEXEC);
    if (file < 0) throw std::runtime_error("no file for the counters");
    memory_ = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    ::close(file);
    if (memory_ == MAP_FAILED) throw std::runtime_error("no memory for the counters");
    static_cast<void>(all_reduce(0, ReduceOp::sum, group));  // all have it
    if (group.rank() == 0) std::filesystem::remove(name);
  }
  ~Counters() { ::munmap(memory_, bytes); }
  Counters(const Counters&) = delete;
  Counters& operator=(const Counters&) = delete;
  std::atomic<int>& operator[](int rank) { return static_cast<std::atomic<int>*>(memory_)[16 * rank]; }  // a line of the cache each

 private:
  static constexpr std::size_t bytes = 4096;
  void* memory_ = nullptr;
};
static_assert(std::atomic<int>::is_always_lock_free && sizeof(std::atomic<int>) == sizeof(int));

void nobody_leaves_before_all_have_entered(const ProcessGroup& group, int rounds) {
  const int n = group.size();
  Counters entered(group);
  for (int round = 1; round <= rounds; ++round) {
    if (round % n == group.rank()) std::this_thread::yield();
    entered[group.rank()].store(round);
    switch (round % 4) {
      case 0: barrier(group); break;
      case 1: synchronize(group); break;
      case 2: monitored_barrier(60s, group); break;
      default: barrier_async(group).wait(); break;
    }
    for (int r = 0; r < n; ++r) {
      const int seen = entered[r].load();
      ASSERT_TRUE(seen == round || seen == round + 1) << "rank " << r << " was at " << seen << " in round " << round;
    }
  }
}

// Told by counters, not by clocks.
WORLD_TEST(Barrier, NobodyLeavesBeforeAllHaveEntered) {
  COVERS("T-36", "V-06", "W-10");
  if (world().backend() == "tcp") COVERS("X-06");
  nobody_leaves_before_all_have_entered(world(), launched() || sanitized ? 60 : 300);
}

WORLD_TEST(Barrier, NobodyOfAGroupLeavesBeforeAllOfItHaveEntered) {
  COVERS("T-36", "K-78");
  const auto half = split_group(world(), rank() % 2, -rank());
  nobody_leaves_before_all_have_entered(*half, launched() || sanitized ? 20 : 100);
}

// Each rank in turn stays outside, and only then tells the others to look: the barriers still under way are those that wait for that rank.
MANY_TEST(Barrier, TheBarrierWaitsForTheOneThatIsMissing) {
  COVERS("T-36", "B-19");
  const int n = world_size();
  for (int late = 0; late < n; ++late) {
    std::array<int, 1> word{late};
    if (rank() == late) {
      for (int r = 0; r < n; ++r) {
        if (r != late) recv(word, r);
      }
      for (int r = 0; r < n; ++r) {
        if (r != late) send(word, r);
      }
      for (int r = 0; r < n; ++r) {
        if (r != late) recv(word, r);
      }
      barrier();
    } else {
      Work passed = barrier_async();
      send(word, late);
      recv(word, late);  // all the others are inside
      EXPECT_FALSE(passed.wait_for(20ms)) << "without rank " << late;
      EXPECT_FALSE(passed.is_completed());
      send(word, late);
      passed.wait();
    }
  }
}

// Messages that were sent before it are there after it, whichever rank takes them when.
WORLD_TEST(Barrier, TheBarrierKeepsTheOrderOfMessages) {
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

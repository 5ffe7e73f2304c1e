// Small calls that wait behind each other and share a step.

#include <gtest/gtest.h>
#include <sched.h>

#include <array>
#include <chrono>
#include <functional>
#include <latch>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "engines/shm/engine.h"
#include "group/group.h"
#include "unisono/launch.h"
#include "unisono/unisono.h"

using namespace unisono;
using namespace std::chrono_literals;
using engines::shm::Segment;
using engines::shm::ShmEngine;

namespace {

/// One of two ranks, without threads: the test advances both.
struct Member {
  Member(std::shared_ptr<Segment> segment, int rank) : engine(std::move(segment), rank, true), number(rank) {}

  void post(std::vector<float>& in, std::vector<float>& out, Operation operation = Operation::all_reduce) {
    CollectiveCall call;
    call.operation = operation;
    call.in = TensorView(in.data(), DType::float32, in.size());
    call.out = TensorView(out.data(), DType::float32, out.size());
    call.count = in.size();
    if (operation == Operation::broadcast) call.root = 1;
    call.sequence = queue.size() + 1;
    queue.push_back(engine.start(call));
  }
  void post(std::vector<float>& x, Operation operation = Operation::all_reduce) { post(x, x, operation); }
  /// Has so many calls follow call `first`, as far as the others have them too, and begins it.
  bool begin(std::size_t first, std::size_t followers) {
    std::vector<Task*> calls;
    for (std::size_t i = first + 1; i <= first + followers; ++i) calls.push_back(queue[i].get());
    queue[first]->take_along(calls);
    return queue[first]->advance();
  }
  bool is_over(std::size_t i) const { return !queue[i]->shares_step(); }

  ShmEngine engine;
  int number;
  std::vector<std::unique_ptr<Task>> queue = {};
};

struct Two {
  std::shared_ptr<Segment> segment = [] {
    const Segment::Shape shape{.ranks = 2};
    auto memory = engines::shm::private_memory(Segment::size_for(shape));
    return std::make_shared<Segment>(shape, memory.get(), memory);
  }();
  std::array<Member, 2> ranks{Member(segment, 0), Member(segment, 1)};

  std::vector<std::vector<float>> post(std::size_t rank, std::size_t calls, std::size_t length = 2) {
    std::vector<std::vector<float>> x;
    for (std::size_t i = 0; i < calls; ++i) x.emplace_back(length + i, static_cast<float>((rank + 1) * 10 + i));
    for (auto& each : x) ranks[rank].post(each);  // the elements stay where they are when `x` moves
    return x;
  }
};

float sum(std::size_t i) { return static_cast<float>(30 + 2 * i); }

}  // namespace

TEST(Batch, ABatchPaysWhereRanksShareProcessors) {
  const Two two;
  for (const bool is_crowded : {false, true}) EXPECT_EQ(engines::shm::Lockstep(two.segment, 0, is_crowded).coalesces(), is_crowded);
}

// The rank that comes second sees how many the first has put there; the first puts few there until it knows that the others have as many.
TEST(Batch, ABatchCarriesOutAsManyAsAllHave) {
  Two two;
  auto& [a, b] = two.ranks;
  const auto x = two.post(0, 8), y = two.post(1, 8);
  EXPECT_FALSE(a.begin(0, 7));
  EXPECT_TRUE(b.begin(0, 3));
  EXPECT_TRUE(a.queue[0]->advance());
  EXPECT_TRUE(a.is_over(1) && b.is_over(1));
  EXPECT_FALSE(a.is_over(2) || b.is_over(2));
  EXPECT_FALSE(b.begin(2, 5));  // two follow now
  EXPECT_TRUE(a.begin(2, 1));
  EXPECT_TRUE(b.queue[2]->advance());
  EXPECT_TRUE(a.is_over(3) && b.is_over(3));
  EXPECT_FALSE(a.is_over(4) || b.is_over(4));
  for (std::size_t i = 4; i < 8; ++i) {  // without followers
    EXPECT_FALSE(a.queue[i]->advance());
    EXPECT_TRUE(b.queue[i]->advance());
    EXPECT_TRUE(a.queue[i]->advance());
  }
  EXPECT_EQ(a.engine.lockstep().step(), 6U);
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(x[i], std::vector<float>(2 + i, sum(i))) << i;
    EXPECT_EQ(y[i], x[i]);
  }
}

TEST(Batch, ABatchWithoutFollowersHoldsNobodyUp) {
  Two two;
  auto& [a, b] = two.ranks;
  const auto x = two.post(0, 3), y = two.post(1, 1);
  EXPECT_FALSE(a.begin(0, 2));
  EXPECT_TRUE(b.queue[0]->advance());
  EXPECT_TRUE(a.queue[0]->advance());
  EXPECT_EQ(y[0], std::vector<float>(2, sum(0)));
  EXPECT_FALSE(a.is_over(1));
  EXPECT_EQ(x[1], std::vector<float>(3, 11));
}

// The elements of calls of more than a line lie in the slot before those of their followers. Both operations, and a batch that is full.
TEST(Batch, ABatchHoldsDifferentCallsAndNotTooMany) {
  Two two;
  auto& [a, b] = two.ranks;
  constexpr std::size_t calls = 30, length = 240;
  std::array<std::vector<std::vector<float>>, 2> x;
  for (std::size_t r = 0; r < 2; ++r) {
    for (std::size_t i = 0; i < calls; ++i) x[r].emplace_back(length + i, static_cast<float>((r + 1) * 100 + i));
    for (std::size_t i = 0; i < calls; ++i) two.ranks[r].post(x[r][i], i % 2 == 0 ? Operation::all_reduce : Operation::broadcast);
  }
  for (std::size_t i = 0; i < calls;) {
    EXPECT_FALSE(a.begin(i, calls - i - 1));
    EXPECT_TRUE(b.begin(i, calls - i - 1));
    EXPECT_TRUE(a.queue[i]->advance());
    while (i < calls && a.is_over(i)) EXPECT_TRUE(b.is_over(i++));
  }
  EXPECT_LT(a.engine.lockstep().step(), calls / 2);
  for (std::size_t i = 0; i < calls; ++i) {
    const auto expected = static_cast<float>(i % 2 == 0 ? 300 + 2 * i : 200 + i);
    EXPECT_EQ(x[0][i], std::vector<float>(length + i, expected)) << i;
    EXPECT_EQ(x[1][i], x[0][i]) << i;
  }
}

// A call that reads what one before it writes, the first of the batch or another, gets a step behind that one.
TEST(Batch, ABatchLeavesOutWhatReadsAResult) {
  Two two;
  auto& [a, b] = two.ranks;
  std::array<std::vector<std::vector<float>>, 2> x;
  for (std::size_t r = 0; r < 2; ++r) {
    x[r].assign(7, std::vector<float>{static_cast<float>(r + 1)});
    Member& rank = two.ranks[r];
    rank.post(x[r][0], x[r][1]);
    rank.post(x[r][1]);
    rank.post(x[r][2]);
    rank.post(x[r][3]);
    rank.post(x[r][4]);
    rank.post(x[r][5], x[r][6]);
    rank.post(x[r][6]);
  }
  std::vector<std::size_t> leaders;
  for (std::size_t i = 0; i < 7;) {
    leaders.push_back(i);
    const std::size_t end = i < 2 ? 2 : i < 4 ? 4 : 7;
    EXPECT_FALSE(a.begin(i, end - i - 1));
    EXPECT_TRUE(b.begin(i, end - i - 1));
    EXPECT_TRUE(a.queue[i]->advance());
    while (i < 7 && a.is_over(i)) ++i;
  }
  EXPECT_EQ(leaders, (std::vector<std::size_t>{0, 1, 2, 4, 6}));
  for (std::size_t r = 0; r < 2; ++r) {
    EXPECT_EQ(x[r][1], std::vector<float>{6});
    EXPECT_EQ(x[r][6], std::vector<float>{6});
  }
}

TEST(Batch, ABatchNamesTheCallThatDiffersAndEndsThere) {
  Two two;
  auto& [a, b] = two.ranks;
  std::array<std::vector<std::vector<float>>, 2> x;
  for (std::size_t r = 0; r < 2; ++r) {
    for (std::size_t i = 0; i < 5; ++i) x[r].emplace_back(i == 3 ? 4 + r : 4, static_cast<float>(r + 1));
    for (auto& each : x[r]) two.ranks[r].post(each);
  }
  for (const auto& [first, followers] : {std::pair{0U, 1U}, std::pair{2U, 2U}}) {
    EXPECT_FALSE(a.begin(first, followers));
    EXPECT_TRUE(b.begin(first, followers));
    EXPECT_TRUE(a.queue[first]->advance());
  }
  for (Member& rank : two.ranks) {
    EXPECT_TRUE(rank.queue[1]->advance());
    EXPECT_FALSE(rank.is_over(4));
    try {
      rank.queue[3]->advance();
      ADD_FAILURE() << "went through";
    } catch (const Mismatch& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find("rank 0 all_reduce(float32 × 4, sum), rank 1 all_reduce(float32 × 5, sum)"), std::string::npos) << text;
      EXPECT_EQ(error.info().sequence, 4U);
    }
    EXPECT_EQ(x[static_cast<std::size_t>(rank.number)][3][0], static_cast<float>(rank.number + 1));  // nothing was moved
  }
  EXPECT_FALSE(a.queue[4]->advance());
  EXPECT_TRUE(b.queue[4]->advance());
  EXPECT_TRUE(a.queue[4]->advance());
  EXPECT_EQ(x[0][4], std::vector<float>(4, 3));
}

namespace {

/// Two ranks with calls that wait: rank 0 posts all of its calls before rank 1 posts its first one, and has its first one done, a gate, when rank 1
/// has posted all of its own.
class Gate {
 public:
  /// Returns the calls that `post` makes, behind the gate.
  std::vector<Work> posted(int rank, const std::function<std::vector<Work>()>& post) {
    if (rank == 1) is_0_there_.wait();
    const auto add = [this, rank](int a, int b) {
      if (rank == 0) is_1_there_.wait();
      return a + b;
    };
    Work gate = all_reduce_async(elements_[static_cast<std::size_t>(rank)], add);
    std::vector<Work> works = post();
    (rank == 0 ? is_0_there_ : is_1_there_).count_down();
    gate.wait();
    return works;
  }

 private:
  std::latch is_0_there_{1}, is_1_there_{1};
  std::array<std::vector<int>, 2> elements_{std::vector<int>{1}, std::vector<int>{1}};
};

/// Has all ranks share one processor, so that their calls share steps.
class Coalescing : public ::testing::Test {
 protected:
  Coalescing() {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<unsigned>(::sched_getcpu()), &one);
    EXPECT_EQ(::sched_getaffinity(0, sizeof all_, &all_), 0);
    EXPECT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
  }
  ~Coalescing() override { EXPECT_EQ(::sched_setaffinity(0, sizeof all_, &all_), 0); }
  cpu_set_t all_{};
};

std::uint32_t step() { return static_cast<ShmEngine&>(*world().implementation()->coordination().host_engine()).lockstep().step(); }

std::vector<std::vector<int>> lists(std::size_t n, int rank) { return std::vector<std::vector<int>>(n, std::vector<int>(3, rank + 1)); }

std::vector<Work> post_all(std::vector<std::vector<int>>& lists, const CallOptions& options = {}) {
  std::vector<Work> works;
  for (auto& x : lists) works.push_back(all_reduce_async(x, ReduceOp::sum, world(), options));
  return works;
}

TEST_F(Coalescing, CallsThatWaitShareSteps) {
  Gate gate;
  run_threads(2, [&](int rank) {
    auto x = lists(8, rank);
    const std::uint32_t before = step();
    auto works = gate.posted(rank, [&] { return post_all(x); });
    wait_all(works);
    EXPECT_LT(step() - before, 9U);
    for (const auto& each : x) EXPECT_EQ(each, std::vector<int>(3, 3));
    EXPECT_EQ(all_reduce(rank), 1);
  });
}

TEST_F(Coalescing, OnlyTheCallThatDiffersFails) {
  Gate gate;
  run_threads(2, [&](int rank) {
    auto x = lists(8, rank);
    if (rank == 1) x[4].resize(2);
    auto works = gate.posted(rank, [&] { return post_all(x); });
    for (std::size_t i = 0; i < works.size(); ++i) {
      if (i == 4) EXPECT_THROW(works[i].wait(), Mismatch);
      else EXPECT_NO_THROW(works[i].wait()) << i;
      EXPECT_EQ(x[i][0], i == 4 ? rank + 1 : 3) << i;
    }
  });
}

// The error belongs to the first call after its Work was dropped, on both ranks: neither carries that one out.
TEST_F(Coalescing, AnErrorThatNobodyHasSeenTakesTheNextCall) {
  Gate gate;
  run_threads(2, [&](int rank) {
    auto x = lists(8, rank);
    if (rank == 1) x[2].resize(2);
    auto works = gate.posted(rank, [&] {
      std::vector<Work> posted;
      for (auto& each : x) {
        posted.push_back(all_reduce_async(each));
        if (posted.size() == 5) posted[2] = Work();
      }
      return posted;
    });
    for (std::size_t i = 0; i < works.size(); ++i) {
      if (i == 5) EXPECT_THROW(works[i].wait(), Mismatch);
      else EXPECT_NO_THROW(works[i].wait()) << i;
      EXPECT_EQ(x[i][0], i == 2 || i == 5 ? rank + 1 : 3) << i;
    }
  });
}

TEST_F(Coalescing, ADeadlineEndsWhatTheOthersHaveNot) {
  Gate gate;
  std::latch over(1);
  run_threads(2, [&](int rank) {
    auto x = lists(rank == 0 ? 8 : 3, rank);
    auto works = gate.posted(rank, [&] { return post_all(x, {.timeout = 2s}); });
    for (std::size_t i = 0; i < works.size(); ++i) {
      if (i < 3) EXPECT_NO_THROW(works[i].wait()) << i;
      else EXPECT_THROW(works[i].wait(), Timeout) << i;
    }
    if (rank == 0) over.count_down();
    else over.wait();
  });
}

TEST_F(Coalescing, ARankThatEndsEndsWhatItHasNotPosted) {
  Gate gate;
  const auto job = [&](int rank) {
    auto x = lists(rank == 0 ? 8 : 3, rank);
    auto works = gate.posted(rank, [&] { return post_all(x); });
    for (std::size_t i = 0; i < 3; ++i) works[i].wait();
    if (rank == 1) throw std::runtime_error("enough");
    for (std::size_t i = 3; i < 8; ++i) EXPECT_THROW(works[i].wait(), PeerFailed) << i;
  };
  EXPECT_THROW(run_threads(2, job), std::runtime_error);
}

// The bits are those of a step for each call.
TEST_F(Coalescing, CoalescingGivesTheSameBits) {
  constexpr std::size_t calls = 200;
  run_threads(5, [&](int rank) {
    std::vector<std::vector<float>> alone, together;
    for (std::size_t i = 0; i < calls; ++i)
      alone.emplace_back(1 + i * 7 % 60, 1.0F / static_cast<float>(1 + i + static_cast<std::size_t>(rank) * 37));
    together = alone;
    std::vector<Work> works;
    for (auto& x : together) works.push_back(all_reduce_async(x));
    wait_all(works);
    for (auto& x : alone) all_reduce(x);
    EXPECT_EQ(together, alone);
  });
}

}  // namespace

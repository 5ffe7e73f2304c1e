#include <array>
#include <atomic>
#include <optional>
#include <random>
#include <thread>

#include "covers.h"
#include "world.h"

using namespace unisono;
using namespace conformance;
using namespace std::chrono_literals;

namespace {

// Every buffer form, asynchronously, all under way at once, waited for in the reverse order.
WORLD_TEST(Async, EveryOperationRunsAtOnce) {
  COVERS("TS-01");
  const int n = world_size();
  const auto ranks = static_cast<std::size_t>(n);
  const auto me = static_cast<std::size_t>(rank());
  for (const std::size_t count : {std::size_t{3}, std::size_t{40000}}) {
    if (sanitized && count > 1000) continue;
    const auto in = values<double>(count, rank());
    const auto blocks = values<double>(count * ranks, rank());
    auto a = in, b = in, c = in, d = in, e = in;
    std::vector<double> f(count), g(count * ranks), h(rank() == 0 ? count * ranks : 0), i(count), j(count), k(count * ranks);
    std::vector<Work> works;
    works.push_back(all_reduce_async(a));
    works.push_back(reduce_async(b, n - 1));
    works.push_back(broadcast_async(c, n - 1));
    works.push_back(scan_async(d));
    works.push_back(exscan_async(e));
    works.push_back(all_reduce_async(in, f, ReduceOp::max));
    works.push_back(all_gather_async(in, g));
    works.push_back(gather_async(in, h));
    works.push_back(scatter_async(blocks, i, n - 1));
    works.push_back(reduce_scatter_async(blocks, j));
    works.push_back(all_to_all_async(blocks, k));
    works.push_back(barrier_async());
    for (auto work = works.rbegin(); work != works.rend(); ++work) work->wait();
    for (const Work& work : works) {
      EXPECT_TRUE(work.is_completed());
      EXPECT_EQ(work.exception(), nullptr);
      EXPECT_EQ(work.source_rank(), -1);
    }
    const auto total = sums<double>(count, n);
    EXPECT_EQ(difference(a, total), "");
    EXPECT_EQ(difference(b, rank() == n - 1 ? total : in), "");
    EXPECT_EQ(difference(c, values<double>(count, n - 1)), "");
    EXPECT_EQ(difference(d, sums<double>(count, rank() + 1)), "");
    EXPECT_EQ(difference(e, rank() == 0 ? in : sums<double>(count, rank())), "");
    EXPECT_EQ(difference(f, values<double>(count, n - 1)), "");
    for (std::size_t r = 0; r < ranks; ++r) {
      const auto theirs = values<double>(count, static_cast<int>(r));
      EXPECT_EQ(difference(std::span(g).subspan(r * count, count), theirs), "");
      if (rank() == 0) {
        EXPECT_EQ(difference(std::span(h).subspan(r * count, count), theirs), "");
      }
      const auto whole = values<double>(count * ranks, static_cast<int>(r));
      EXPECT_EQ(difference(std::span(k).subspan(r * count, count), std::span(whole).subspan(me * count, count)), "");
    }
    const auto whole = values<double>(count * ranks, n - 1);
    EXPECT_EQ(difference(i, std::span(whole).subspan(me * count, count)), "");
    const auto summed = sums<double>(count * ranks, n);
    EXPECT_EQ(difference(j, std::span(summed).subspan(me * count, count)), "");
  }
}

// C9, rule 5: one rank's blocking call meets another's asynchronous one; the order of the calls is the order of the operations. Each call has
// a length of its own, so that any other order would be a Mismatch.
WORLD_TEST(Async, BlockingAndNotAreTheSameToTheOthers) {
  std::mt19937 random(static_cast<unsigned>(rank()) * 31 + 5);
  constexpr std::size_t calls = sanitized ? 60 : 300;
  std::vector<std::vector<float>> buffers;
  for (std::size_t i = 0; i < calls; ++i) buffers.push_back(values<float>(i * 13 % 700 + i % 5, rank()));
  std::vector<Work> works;
  for (std::size_t i = 0; i < calls; ++i) {
    switch (random() % 4) {
      case 0: all_reduce(buffers[i]); break;
      case 1: all_reduce_async(buffers[i]).wait(); break;
      case 2: static_cast<void>(all_reduce_async(buffers[i])); break;  // dropped: it completes all the same
      default: works.push_back(all_reduce_async(buffers[i])); break;
    }
  }
  wait_all(works);
  barrier();  // behind everything
  for (std::size_t i = 0; i < calls; ++i) ASSERT_EQ(difference(buffers[i], sums<float>(buffers[i].size(), world_size())), "") << i;
}

// The same with calls whose elements fill many slots, so that some ranks are inside of one while others have queued several.
WORLD_TEST(Async, LargeCallsThatBlockAndNotAreTheSameToTheOthers) {
  constexpr std::size_t calls = 12, length = 150'001;
  std::vector<std::vector<float>> buffers;
  for (std::size_t i = 0; i < calls; ++i) buffers.push_back(values<float>(length + i, rank()));
  std::vector<Work> works;
  for (std::size_t i = 0; i < calls; ++i) {
    if ((i / 2 + static_cast<std::size_t>(rank())) % 2 == 0) all_reduce(buffers[i]);
    else works.push_back(all_reduce_async(buffers[i]));
  }
  wait_all(works);
  for (std::size_t i = 0; i < calls; ++i) ASSERT_EQ(difference(buffers[i], sums<float>(buffers[i].size(), world_size())), "") << i;
}

// A blocking call behind operations under way.
WORLD_TEST(Async, BlockingCallsWaitBehindMany) {
  std::vector<std::vector<int>> buffers(64);
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    buffers[i] = values<int>(i * 100, rank());
    static_cast<void>(all_reduce_async(buffers[i]));
  }
  EXPECT_EQ(all_reduce(1), world_size());
  for (const auto& x : buffers) EXPECT_EQ(difference(x, sums<int>(x.size(), world_size())), "");
}

// wait_for says false and leaves the operation going on; the others come only after they have been told so.
MANY_TEST(Work, WaitForIsFalseAndThenItCompletes) {
  COVERS("TS-02");
  std::array<int, 1> go{1};
  auto x = values<float>(50, rank());
  if (rank() == 0) {
    Work work = all_reduce_async(x);
    EXPECT_FALSE(work.wait_for(0ms));
    EXPECT_FALSE(work.wait_for(5ms));
    EXPECT_FALSE(work.is_completed());
    EXPECT_EQ(work.exception(), nullptr);
    for (int r = 1; r < world_size(); ++r) send(go, r);
    while (!work.wait_for(50ms)) {
    }
    EXPECT_TRUE(work.is_completed());
    EXPECT_TRUE(work.wait_for(0ms));
    work.wait();  // again
  } else {
    recv(go, 0);
    all_reduce(x);
  }
  EXPECT_EQ(difference(x, sums<float>(50, world_size())), "");
}

// Nobody waits: it goes on by itself.
MANY_TEST(Work, WorkCompletesWithoutAnybodyWaiting) {
  auto x = values<float>(100000, rank());
  const Work work = all_reduce_async(x);
  while (!work.is_completed()) std::this_thread::yield();
  EXPECT_EQ(work.exception(), nullptr);
  EXPECT_EQ(difference(x, sums<float>(x.size(), world_size())), "");
}

MANY_TEST(Work, WaitAnyReturnsOneThatIsDone) {
  const int n = world_size();
  EXPECT_THROW(wait_any({}), InvalidArgument);
  if (rank() == 0) {
    std::vector<std::array<int, 1>> x(static_cast<std::size_t>(n - 1));
    std::vector<Work> works;
    for (int r = 1; r < n; ++r) works.push_back(irecv(x[static_cast<std::size_t>(r - 1)], r));
    for (int r = n - 1; r > 0; --r) {  // one after the other, the last first
      send(std::array{r}, r);
      std::vector<Work> first(works.begin(), works.begin() + r);
      EXPECT_EQ(wait_any(first), static_cast<std::size_t>(r - 1));
      EXPECT_EQ(x[static_cast<std::size_t>(r - 1)][0], 10 * r);
      for (int other = 1; other < r; ++other) EXPECT_FALSE(works[static_cast<std::size_t>(other - 1)].is_completed());
    }
  } else {
    std::array<int, 1> go{};
    recv(go, 0);
    send(std::array{10 * rank()}, 0);
  }
}

TEST(Work, WorkOfNothingIsDone) {
  Work work;
  work.wait();
  EXPECT_TRUE(work.is_completed());
  EXPECT_TRUE(work.wait_for(0ms));
  EXPECT_EQ(work.source_rank(), -1);
}

// The error of an operation whose Work is held is the Work's; that of a dropped one is thrown by the next call, on every rank alike, however
// early or late a rank is; and then all goes on.
MANY_TEST(Work, ErrorsOfHeldAndDroppedWorksAreThrown) {
  std::mt19937 random(static_cast<unsigned>(rank()));
  for (int round = 0; round < (sanitized ? 10 : 60); ++round) {
    std::vector<float> odd(static_cast<std::size_t>(5 + rank()), 1.0F);
    const auto before = odd;
    const auto jitter = [&] {
      for (unsigned i = random() % 4; i > 0; --i) std::this_thread::yield();
    };
    jitter();
    Work held = all_reduce_async(odd);
    jitter();
    EXPECT_THROW(held.wait(), Mismatch);
    EXPECT_NE(held.exception(), nullptr);
    EXPECT_THROW(held.wait(), Mismatch);  // it stays its error
    expect_usable();                      // and nobody else's

    static_cast<void>(all_reduce_async(odd));
    jitter();
    auto x = values<float>(9, rank());
    if (round % 3 == 0) {
      EXPECT_THROW(all_reduce(x), Mismatch);
    } else if (round % 3 == 1) {
      EXPECT_THROW(barrier(), Mismatch);
    } else {
      try {
        Work next = all_reduce_async(x);
        next.wait();
        ADD_FAILURE() << "the error of the dropped operation was lost";
      } catch (const Mismatch& error) {
        EXPECT_EQ(error.operation(), "all_reduce");
      }
    }
    EXPECT_EQ(difference(x, values<float>(9, rank())), "") << "the call that reports an earlier error is not carried out";
    EXPECT_EQ(odd, before);
    expect_usable();
  }
}

// wait_all waits for all, also after the first error.
MANY_TEST(Work, WaitAllThrowsTheFirstError) {
  std::vector<int> odd(static_cast<std::size_t>(1 + rank()));
  auto x = values<float>(2000, rank());
  std::vector<Work> works;
  works.push_back(all_reduce_async(odd));
  works.push_back(all_reduce_async(x));
  EXPECT_THROW(wait_all(works), Mismatch);
  EXPECT_TRUE(works[1].is_completed());
  EXPECT_EQ(difference(x, sums<float>(2000, world_size())), "");
}

// Once each, when the operation is done, and free to begin another one.
WORLD_TEST(Async, CompletionIsCalledBack) {
  std::array<std::atomic<int>, 3> calls{};
  const auto others = new_group(world().global_ranks());
  std::vector<float> a(20000, 1.0F), b(3, 2.0F);
  std::optional<Work> next;
  Work first = all_reduce_async(a);
  first.on_completion([&] {
    next = all_reduce_async(b, ReduceOp::sum, *others);
    ++calls[0];
  });
  first.on_completion([&] { ++calls[1]; });
  first.wait();
  barrier();
  while (calls[1] == 0) std::this_thread::yield();  // the thread that brought it about may not be through yet
  next->wait();
  first.on_completion([&] { ++calls[2]; });  // done already
  EXPECT_EQ(calls[0], 1);
  EXPECT_EQ(calls[1], 1);
  EXPECT_EQ(calls[2], 1);
  EXPECT_EQ(b[2], 2.0F * static_cast<float>(world_size()));
  Work().on_completion([&] { ++calls[2]; });
  EXPECT_EQ(calls[2], 2);
}

// Also of one that fails, and with the error to be seen.
WORLD_TEST(Async, CompletionOfAFailureIsCalledBack) {
  if (world_size() == 1) return;
  const auto pair = new_group({0, 1});
  if (!pair) return;
  float x = 1;
  std::atomic<bool> called{false}, failed{false};
  if (rank() == 0) {
    Work work = irecv(std::span(&x, 1), 1, *pair);
    work.on_completion([&] {
      failed = work.exception() != nullptr;
      called = true;
    });
    send(std::vector<int>{1}, 1);
    EXPECT_THROW(work.wait(), PeerFailed);
    while (!called) std::this_thread::yield();
    EXPECT_TRUE(failed);
  } else {
    std::vector<int> begun(1);
    recv(begun, 0);  // the other's receive has begun; said on another group, which goes on
    ProcessGroup(*pair).abort("enough");
  }
}

}  // namespace

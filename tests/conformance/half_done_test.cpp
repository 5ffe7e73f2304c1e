// A rank that leaves a call half done begins no other one on that group. The others wait for the rest of that call, and would take whatever comes
// next for it: a Mismatch, or wrong numbers, instead of the error that the rank has met.

#include <sys/types.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "world.h"

using namespace unisono;
using namespace conformance;
using namespace std::chrono_literals;

namespace {

struct GivenUp {};

using Numbers = std::vector<std::int64_t>;
Numbers numbers(std::size_t count) { return values<std::int64_t>(count, rank()); }

void expect_aborted(const PeerFailed& error, int culprit) {
  EXPECT_EQ(error.cause(), PeerFailed::aborted) << error.what();
  EXPECT_EQ(error.culprit(), culprit) << error.what();
}

/// Expects that the call which another rank leaves half done fails, or is right where all that this rank needs had come.
void expect_right_or_aborted(Work& work, const Numbers& result, int culprit) {
  try {
    work.wait();
    EXPECT_EQ(difference(result, sums<std::int64_t>(result.size(), world_size())), "");
  } catch (const PeerFailed& error) {
    expect_aborted(error, culprit);
  }
}

// The calls behind it in the queue.
WORLD_TEST_IN((Worlds{.at_least = 2, .at_most = 5, .poisons = true}), HalfDone, ACallThatIsLeftBeforeOthersInTheQueueIsNamed) {
  const int quitter = world_size() - 1;
  const bool quits = rank() == quitter;
  auto first = numbers(100'001);  // two steps in shared memory
  const auto op = [quits](std::int64_t a, std::int64_t b) {
    if (quits) throw GivenUp{};
    return a + b;
  };
  std::vector<Numbers> behind(30, numbers(5));
  std::array<int, 1> token{};
  barrier();
  if (!quits) recv(token, quitter);  // its queue is full
  Work half_done = all_reduce_async(first, op);
  std::vector<Work> works;
  for (Numbers& x : behind) {
    try {
      works.push_back(all_reduce_async(x));
    } catch (const PeerFailed& error) {  // known already
      EXPECT_FALSE(quits);
      expect_aborted(error, quitter);
    }
  }
  for (int r = 0; quits && r < quitter; ++r) send(token, r);
  if (quits) EXPECT_THROW(half_done.wait(), GivenUp);
  else expect_right_or_aborted(half_done, first, quitter);
  for (Work& work : works) expect_aborted(thrown_by<PeerFailed>([&] { work.wait(); }), quitter);
  for (const Numbers& x : behind) EXPECT_EQ(difference(x, numbers(5)), "");
}

/// Returns 'S' for a thread that sleeps.
char state_of_thread(pid_t thread) {
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  const std::size_t end_of_name = text.rfind(") ");
  return end_of_name == std::string::npos || end_of_name + 2 >= text.size() ? '?' : text[end_of_name + 2];
}

std::atomic<bool> others_may_come{false}, is_under_way{false};
std::atomic<pid_t> caller{0};

/// Waits until the caller sleeps in its next call: it waits there for the thread that advances the one before.
void wait_for_caller() {
  is_under_way = true;
  const auto deadline = std::chrono::steady_clock::now() + 20s;
  while (caller == 0 || state_of_thread(caller) != 'S') {
    if (std::chrono::steady_clock::now() > deadline) {
      ADD_FAILURE() << "the caller does not wait";
      return;
    }
    std::this_thread::yield();
  }
}

/// Has the last rank leave an all_reduce half done when its next call, which is `next`, has found the group sound and waits for its turn. All ranks
/// call `next`.
void quit_before(const std::function<void()>& next) {
  const int quitter = world_size() - 1;
  const bool quits = rank() == quitter;
  auto first = numbers(600'001);
  const auto op = [quits](std::int64_t a, std::int64_t b) {
    if (!quits) return a + b;
    wait_for_caller();
    throw GivenUp{};
  };
  if (quits) {
    others_may_come = is_under_way = false;
    caller = 0;
  }
  barrier();
  while (!quits && !others_may_come) std::this_thread::yield();  // the quitter's call goes on in a thread of its own
  Work half_done = all_reduce_async(first, op);
  if (quits) {
    others_may_come = true;
    while (!is_under_way) std::this_thread::yield();
    caller = ::gettid();
  }
  expect_aborted(thrown_by<PeerFailed>(next), quitter);
  if (quits) EXPECT_THROW(half_done.wait(), GivenUp);
  else expect_right_or_aborted(half_done, first, quitter);
}

constexpr Worlds threads{.at_least = 2, .at_most = 5, .poisons = true, .threads_only = true};

WORLD_TEST_IN(threads, HalfDone, ACallThatIsLeftBeforeABlockingOneIsNamed) {
  quit_before([] { barrier(); });
}

WORLD_TEST_IN(threads, HalfDone, ACallThatIsLeftBeforeAnAsynchronousOneIsNamed) {
  Numbers x = numbers(5);
  quit_before([&] { all_reduce_async(x).wait(); });
  EXPECT_EQ(difference(x, numbers(5)), "");
}

// Beside a receive that waits, so that both take their turn.
template <class Call>
void quit_before_message(Call&& call) {
  const bool quits = rank() == world_size() - 1;
  std::array<int, 1> never{};
  Work waits;
  if (quits) waits = irecv(never, 0, world(), {.tag = 9});
  quit_before([&] { quits ? call() : barrier(); });
  if (quits) expect_aborted(thrown_by<PeerFailed>([&] { waits.wait(); }), rank());
}

WORLD_TEST_IN(threads, HalfDone, ACallThatIsLeftBeforeAReceiveIsNamed) {
  std::array<int, 1> x{rank()};
  if (rank() == 0) send(x, world_size() - 1);
  quit_before_message([&] { recv(x, 0); });
  EXPECT_EQ(x[0], rank());
}

WORLD_TEST_IN(threads, HalfDone, ACallThatIsLeftBeforeASendIsNamed) {
  std::array<int, 1> x{rank()};
  quit_before_message([&] { send(x, 0); });
}

}  // namespace

// The place of a rank as errors of others tell it: by its record, and by what it has told from another host.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "coordination/whereabouts.h"
#include "recorder/recorder.h"
#include "recorder/whereabouts.h"

namespace unisono::testing {
namespace {

using coordination::Whereabouts;
using recorder::CallSeen;
using recorder::CallState;
using recorder::RankSeen;
using recorder::whereabouts_of;

constexpr std::uint64_t second = 1'000'000'000;

CallSeen call(CallState state, std::uint64_t sequence, std::string place) {
  CallSeen made;
  made.operation = "barrier";
  made.group = "world";
  made.place = std::move(place);
  made.state = state;
  made.sequence = sequence;
  return made;
}

RankSeen rank_with(std::vector<CallSeen> calls, std::uint64_t now = 0) {
  RankSeen rank;
  rank.now = now;
  rank.recent = std::move(calls);
  return rank;
}

TEST(Whereabouts, ARankThatHasMadeNoCallIsSaidToHaveMadeNone) { EXPECT_EQ(whereabouts_of(RankSeen{}), "has made no call yet"); }

TEST(Whereabouts, ARankInACallIsShownWithThatCall) {
  CallSeen posted = call(CallState::waiting, 2, "b.cpp:2");
  posted.queued = second;
  const CallSeen waits = call(CallState::waiting, 3, "c.cpp:3"), over = call(CallState::done, 1, "a.cpp:1");
  EXPECT_EQ(whereabouts_of(rank_with({over, waits, posted})), "is in barrier #3 of world (c.cpp:3)") << "it blocks, and the other does not";
  EXPECT_EQ(whereabouts_of(rank_with({call(CallState::failed, 2, ""), waits})),
            "is in barrier #3 of world (c.cpp:3), after barrier #2 of world has failed");
  EXPECT_EQ(whereabouts_of(rank_with({call(CallState::failed, 2, ""), CallSeen(), waits})),
            "is in barrier #3 of world (c.cpp:3), after barrier #2 of world has failed")
      << "a wait of the program lies between them";
  EXPECT_EQ(whereabouts_of(rank_with({call(CallState::failed, 1, ""), over, waits})), "is in barrier #3 of world (c.cpp:3)") << "only the one before";
  EXPECT_EQ(whereabouts_of(rank_with({over, posted})), "has begun barrier #2 of world (b.cpp:2)");
  EXPECT_EQ(whereabouts_of(rank_with({over, call(CallState::running, 4, "")})), "is in barrier #4 of world");
}

TEST(Whereabouts, ARankInItsProgramIsShownWithItsLastCall) {
  CallSeen over = call(CallState::done, 7, "a.cpp:1"), failed = call(CallState::failed, 8, "b.cpp:2");
  over.done = 10 * second;
  EXPECT_EQ(whereabouts_of(rank_with({over}, 22 * second)), "was last in barrier #7 of world (a.cpp:1), which ended 12.0 s ago");
  EXPECT_EQ(whereabouts_of(rank_with({over, failed}, 22 * second)), "was last in barrier #8 of world (b.cpp:2), which failed");
  EXPECT_EQ(whereabouts_of(rank_with({over}, 9 * second)), "was last in barrier #7 of world (a.cpp:1), which ended") << "after the look at the clock";
  CallSeen wait_of_program;  // of a trace
  EXPECT_EQ(whereabouts_of(rank_with({over, wait_of_program}, 11 * second)), "was last in barrier #7 of world (a.cpp:1), which ended 1.0 s ago");
}

// A process of this host is looked for by its record, and the system knows whether it is stopped.
TEST(Whereabouts, WhereaboutsOfAProcessSayWhetherItIsStopped) {
  const auto own = recorder::of_process();
  {
    const recorder::Recording recording(*own, {.operation = Operation::barrier, .group = own->add_group("world", 2), .sequence = 4});
    EXPECT_EQ(whereabouts_of(::getpid()), "is in barrier #4 of world");
  }
  const pid_t child = ::fork();
  if (child == 0) {
    const auto of_child = recorder::of_process();
    const recorder::Recording recording(*of_child, {.operation = Operation::barrier, .group = of_child->add_group("world", 2), .sequence = 5});
    ::raise(SIGSTOP);
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, WUNTRACED), child);
  EXPECT_TRUE(WIFSTOPPED(status)) << status;
  EXPECT_EQ(whereabouts_of(child), "is stopped, and is in barrier #5 of world");
  ::kill(child, SIGCONT);
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(whereabouts_of(child), "") << "it is gone";
}

TEST(Whereabouts, WhereaboutsOfAnotherHostAreShortAndCanBePrinted) {
  Whereabouts told;
  EXPECT_EQ(told.of(3), "");
  told.take(3, "is in recv of world");
  told.take(3, "is in\x1b[2J recv\n of world (µ.cpp:1)");
  EXPECT_EQ(told.of(3), "is in?[2J recv? of world (µ.cpp:1)");
  EXPECT_EQ(told.of(2), "");
  told.take(2, std::string(5000, 'x'));
  EXPECT_EQ(told.of(2).size(), 300U);
}

// A rank that has gone on does not say so.
TEST(Whereabouts, WhereaboutsOfAnotherHostAreForgotten) {
  Whereabouts told;
  told.take(3, "is in recv of world");
  const auto now = base::Clock::now();
  EXPECT_EQ(told.of(3, now + std::chrono::seconds(2)), "is in recv of world");
  EXPECT_EQ(told.of(3, now + std::chrono::seconds(4)), "");
  EXPECT_EQ(told.of(3), "is in recv of world") << "and only then";
}

TEST(Circles, CirclesAreToldWithTheAdviceFirst) {
  const auto send = [](int rank, int to) {
    return recorder::MessageWait{.rank = rank, .waited_for = to, .sends = true, .call = fmt::format("send #{} of world", rank + 2)};
  };
  EXPECT_EQ(recorder::circle_text(std::vector{send(1, 0), send(0, 1)}),
            "ranks 0, 1 wait for each other: all of them send before they receive, and a message of more than 64 KiB waits for its receiver: use "
            "send_recv, "
            "or isend; rank 1 is in send #3 of world, and waits for rank 0; rank 0 is in send #2 of world, and waits for rank 1");
  std::vector<recorder::MessageWait> five;
  for (int r = 0; r < 5; ++r) five.push_back(send(r, (r + 1) % 5));
  five[2].sends = false;
  const std::string text = recorder::circle_text(five);
  EXPECT_TRUE(
      text.starts_with("ranks 0-4 wait for each other: none of these calls can go on before another one of them: compare their order; rank 0 "))
      << text;
  EXPECT_TRUE(text.ends_with("; rank 3 is in send #5 of world, and waits for rank 4; and so on")) << text;
}

TEST(WaitChains, ChainsAreFetchedOnceAndOnlyTheLastOnesAreKept) {
  coordination::WaitChains chains;
  EXPECT_TRUE(chains.fetch().empty());
  for (int i = 0; i < 70; ++i) chains.take(std::to_string(i));
  chains.take(std::string(10'000, 'x'));
  const auto come = chains.fetch();
  ASSERT_EQ(come.size(), 64U);
  EXPECT_EQ(come.front(), "6");
  EXPECT_EQ(come.back(), "69") << "the longer one was dropped";
  EXPECT_TRUE(chains.fetch().empty());
}

TEST(WaitChains, ChainsOfACircleAreForgotten) {
  coordination::WaitChains chains;
  EXPECT_EQ(chains.circle(), "");
  chains.keep_circle("circle");
  const auto now = base::Clock::now();
  EXPECT_EQ(chains.circle(now + std::chrono::seconds(1)), "circle");
  EXPECT_EQ(chains.circle(now + std::chrono::seconds(2)), "");
}

TEST(WaitChains, ChainsAreSentWhenACallHasWaited) {
  using namespace std::chrono_literals;
  coordination::WaitChains chains;
  EXPECT_FALSE(chains.is_due(400ms, 30min));
  EXPECT_FALSE(chains.is_due(100ms, 300ms));
  EXPECT_TRUE(chains.is_due(160ms, 300ms));
  EXPECT_FALSE(chains.is_due(600ms, 30min)) << "a moment later";
}

}  // namespace
}  // namespace unisono::testing

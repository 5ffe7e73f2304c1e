// Whom a job that stands still waits for, from the records of its ranks.
#include <gtest/gtest.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <chrono>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "status/report.h"
#include "launch/view/rank_facts.h"
#include "launch/view/standstill.h"
#include "unit/temporary_file.h"

namespace unisono::tools {
namespace {

using launcher::Delay;
using launcher::delays_of;
using launcher::system_wait_of;
using launcher::told_delay_ns;
using recorder::CallSeen;
using recorder::CallState;

constexpr std::uint64_t second = 1'000'000'000, now = 100 * second;

CallSeen call(Operation kind, const std::string& group, const std::string& place, CallState state = CallState::done) {
  CallSeen seen;
  seen.operation = std::string(to_string(kind));
  seen.kind = kind;
  seen.group = group;
  seen.place = place;
  seen.state = state;
  seen.sequence = 7;
  seen.begun = now - 20 * second;
  seen.done = state == CallState::waiting ? 0 : now - 19 * second;
  return seen;
}

/// A call that has waited for `seconds` for a rank.
CallSeen waiting(Operation kind, const std::string& group, const std::string& place, int whom, int seconds = 10) {
  CallSeen seen = call(kind, group, place, CallState::waiting);
  seen.begun = now - static_cast<std::uint64_t>(seconds) * second;
  seen.waited_for = whom;
  return seen;
}

CallSeen message(CallSeen seen, int peer, int tag) {
  seen.peer = peer;
  seen.tag = tag;
  return seen;
}

/// A job in which each rank has made these calls.
JobFacts job_of(const std::vector<std::vector<CallSeen>>& calls) {
  JobFacts job;
  job.name = "made";
  job.size = static_cast<int>(calls.size());
  for (std::size_t i = 0; i < calls.size(); ++i) {
    RankFacts rank;
    rank.record.rank = static_cast<int>(i);
    rank.record.size = job.size;
    rank.record.state = recorder::RankState::running;
    rank.record.is_copy = true;
    rank.record.now = now;
    rank.record.recent = calls[i];
    rank.record.calls = calls[i].size();
    rank.process.lives = true;
    job.ranks.push_back(std::move(rank));
  }
  return job;
}

std::vector<Delay> delays(const JobFacts& job) { return delays_of(job.ranks, told_delay_ns); }

constexpr auto all_reduce = Operation::all_reduce, barrier = Operation::barrier, send = Operation::send, recv = Operation::recv;

TEST(Standstill, AStandstillNamesTheRankThatDoesNotWait) {
  const auto found = delays(
      job_of({{waiting(all_reduce, "world", "a.cpp:3", 2)}, {waiting(barrier, "{0, 1}", "a.cpp:5", 0)}, {call(all_reduce, "world", "a.cpp:1")}}));
  ASSERT_EQ(found.size(), 1U) << "rank 0 only waits because of rank 2";
  EXPECT_EQ(found[0].late, 2);
  EXPECT_EQ(found[0].text,
            "rank 2 has not come to all_reduce #7 of world (a.cpp:3) for 10.0 s: it is in the program for 19.0 s, last seen in "
            "all_reduce #7 of world (a.cpp:1)");
}

TEST(Standstill, ARankInNoOtherCallsWayIsNoDelay) {
  EXPECT_TRUE(delays(job_of({{call(barrier, "world", "a.cpp:1")}, {call(barrier, "world", "a.cpp:1")}})).empty());
  const auto brief = waiting(all_reduce, "world", "a.cpp:3", 1, 0);
  EXPECT_TRUE(delays(job_of({{brief}, {call(barrier, "world", "a.cpp:1")}})).empty());
}

// Three ranks are in one collective: the one in another call has left their way, although it waits for one of them.
TEST(Standstill, ACircleIsBrokenByTheRankThatIsAlone) {
  const auto found = delays(job_of({{waiting(all_reduce, "world", "a.cpp:3", 2)},
                                    {waiting(all_reduce, "world", "a.cpp:3", 2)},
                                    {message(waiting(recv, "world", "a.cpp:9", 1), 1, 0)},
                                    {waiting(all_reduce, "world", "a.cpp:3", 2, 11)}}));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].late, 2);
  EXPECT_EQ(found[0].circle, (std::vector{2, 1}));
  EXPECT_NE(found[0].text.find("rank 2 has not come to all_reduce #7 of world (a.cpp:3), in which ranks 0, 1 and 3 wait for 10.0 s: it is in recv #7 "
                               "of world (a.cpp:9), and waits for rank 1, which is one of them"),
            std::string::npos)
      << found[0].text;
  EXPECT_NE(found[0].advice.find("what leads rank 2 past a.cpp:3 to a.cpp:9"), std::string::npos) << found[0].advice;
}

TEST(Standstill, TwoRanksAloneAreBothNamed) {
  const auto found = delays(job_of({{waiting(all_reduce, "world", "a.cpp:3", 1)}, {waiting(all_reduce, "{1, 0}", "a.cpp:4", 0)}}));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].circle.size(), 2U);
  EXPECT_TRUE(found[0].text.starts_with("ranks 0 and 1 wait for each other for 10.0 s")) << found[0].text;
  EXPECT_NE(found[0].text.find("a.cpp:3"), std::string::npos);
  EXPECT_NE(found[0].text.find("a.cpp:4"), std::string::npos);
}

TEST(Standstill, ARingOfSendsIsOneCircle) {
  std::vector<std::vector<CallSeen>> ranks;
  for (int r = 0; r < 5; ++r) ranks.push_back({message(waiting(send, "world", "a.cpp:3", (r + 1) % 5), (r + 1) % 5, 0)});
  const auto found = delays(job_of(ranks));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].circle.size(), 5U);
  EXPECT_NE(found[0].advice.find("send_recv"), std::string::npos) << found[0].advice;
}

TEST(Standstill, AMessageWithAnotherTagIsShown) {
  const auto found = delays(job_of({{message(call(send, "world", "a.cpp:3"), 1, 4), message(call(send, "world", "a.cpp:3"), 1, 6),
                                     message(call(send, "world", "a.cpp:3"), 1, 7), waiting(barrier, "world", "a.cpp:9", 1)},
                                    {message(call(recv, "world", "a.cpp:5"), 0, 4), message(waiting(recv, "world", "a.cpp:5", 0), 0, 5)}}));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].late, 0) << "the sender";
  EXPECT_NE(found[0].text.find("for a message of rank 0 with tag 5"), std::string::npos) << found[0].text;
  EXPECT_NE(found[0].text.find("rank 0 has sent it one with tag 6 (send #7 of world (a.cpp:3))"), std::string::npos) << found[0].text;
  EXPECT_EQ(found[0].text.find("tag 4"), std::string::npos) << "that one was received";
}

TEST(Standstill, AMessageToAnotherRankIsShown) {
  const auto found = delays(job_of(
      {{message(call(send, "world", "a.cpp:3"), 2, 5)}, {message(waiting(recv, "world", "a.cpp:5", 0), 0, 5)}, {call(barrier, "world", "a.cpp:1")}}));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].late, 0);
  EXPECT_NE(found[0].text.find("rank 0 has sent one with tag 5 to rank 2 (send #7 of world (a.cpp:3)), which has not asked for it"),
            std::string::npos)
      << found[0].text;
}

// A message that a receive from any rank may have taken is not missing.
TEST(Standstill, AReceiveFromAnyRankCounts) {
  const auto found = delays(job_of({{message(call(send, "world", "a.cpp:3"), 1, 6)},
                                    {message(call(recv, "world", "a.cpp:4"), -1, 6), message(waiting(recv, "world", "a.cpp:5", 0), 0, 5)}}));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].text.find("tag 6"), std::string::npos) << found[0].text;
}

TEST(Standstill, NobodyIsLeftToSend) {
  auto any = message(waiting(recv, "world", "a.cpp:5", 1), -1, 3);
  any.waited_count = 2;
  const auto found = delays(job_of({{any}, {waiting(barrier, "world", "a.cpp:9", 0)}, {waiting(barrier, "world", "a.cpp:9", 0)}}));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].late, 0);
  EXPECT_NE(found[0].text.find("a message of any rank with tag 3"), std::string::npos) << found[0].text;
  EXPECT_NE(found[0].text.find("no rank can send one"), std::string::npos) << found[0].text;
  const auto some = delays(job_of({{any}, {waiting(barrier, "world", "a.cpp:9", 0)}, {call(barrier, "world", "a.cpp:1")}}));
  ASSERT_EQ(some.size(), 1U);
  EXPECT_EQ(some[0].late, 2) << "it could send one";
}

// A program that goes on while an asynchronous call waits is no part of a circle.
TEST(Standstill, AnAsynchronousCallBlocksOnlyAProgramThatWaitsForIt) {
  CallSeen posted = waiting(all_reduce, "world", "a.cpp:3", 1);
  posted.queued = posted.begun;
  JobFacts job = job_of({{posted}, {waiting(barrier, "{0, 1}", "a.cpp:4", 0)}});
  auto found = delays(job);
  ASSERT_FALSE(found.empty());
  EXPECT_TRUE(found[0].circle.empty());
  EXPECT_EQ(found[0].late, 0) << found[0].text;
  EXPECT_NE(found[0].text.find("it is in the program"), std::string::npos) << found[0].text;
  job.ranks[0].record.program_waits_since = posted.begun;
  found = delays(job);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].circle.size(), 2U);
}

TEST(Standstill, ARankThatIsGoneOrStoppedIsTold) {
  JobFacts job = job_of({{waiting(all_reduce, "world", "a.cpp:3", 1)}, {call(all_reduce, "world", "a.cpp:1")}});
  RankFacts& late = job.ranks[1];
  late.record.state = recorder::RankState::left;
  EXPECT_NE(delays(job).at(0).text.find("it has left the job with finalize, last seen in all_reduce #7 of world (a.cpp:1)"), std::string::npos);
  late.record.state = recorder::RankState::running;
  late.process.is_stopped = true;
  EXPECT_NE(delays(job).at(0).text.find("its process is stopped"), std::string::npos);
  late.process = {.lives = false};
  EXPECT_NE(delays(job).at(0).text.find("its process has ended"), std::string::npos);
  job.ranks.pop_back();
  EXPECT_NE(delays(job).at(0).text.find("it is on another host, or was not recorded"), std::string::npos);
}

/// A process that does something for which it waits.
class Sleeper {
 public:
  explicit Sleeper(const std::function<void()>& act) : pid_(::fork()) {
    if (pid_ != 0) return;
    act();
    ::_exit(0);
  }
  ~Sleeper() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;
  /// Returns true as soon as it is said to wait so.
  bool is_seen_to(const std::string& text) const {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (std::chrono::steady_clock::now() < end) {
      last_ = system_wait_of(pid_);
      if (last_.find(text) != std::string::npos) return true;
      std::this_thread::yield();
    }
    return false;
  }
  const std::string& last() const { return last_; }

 private:
  pid_t pid_;
  mutable std::string last_;
};

bool looks_into_processes() {
  const Sleeper sleeper([] { ::pause(); });
  return sleeper.is_seen_to("signal");
}

TEST(SystemWait, TheSystemTellsWhatAProcessWaitsFor) {
  if (!looks_into_processes()) GTEST_SKIP() << "this system shows no process what another one does (/proc/PID/syscall)";
  const TemporaryFolder folder;
  const std::string pipe = folder.path() + "/fifo";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const Sleeper opening([&] { static_cast<void>(::open(pipe.c_str(), O_RDONLY)); });
  EXPECT_TRUE(opening.is_seen_to("waits to open the named pipe " + pipe)) << opening.last();
  const Sleeper reading([&] {
    const int fd = ::open(pipe.c_str(), O_RDWR);
    char byte = 0;
    static_cast<void>(!::read(fd, &byte, 1));
  });
  EXPECT_TRUE(reading.is_seen_to("reads the named pipe " + pipe)) << reading.last();
  const Sleeper locked([] {
    std::mutex mutex;
    mutex.lock();
    mutex.lock();
  });
  EXPECT_TRUE(locked.is_seen_to("waits for a mutex that it has locked itself")) << locked.last();
  const Sleeper other([] {
    std::mutex mutex;
    std::thread holder([&] {
      mutex.lock();
      ::pause();
    });
    while (mutex.try_lock()) mutex.unlock();
    mutex.lock();
  });
  EXPECT_TRUE(other.is_seen_to("waits for a mutex that thread ")) << other.last();
  const Sleeper parent([] {
    const pid_t own = ::getpid();
    if (::fork() == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // it must not outlive the test, which ctest would wait for
      if (::getppid() == own) ::pause();
      ::_exit(0);
    }
    ::waitpid(-1, nullptr, 0);
  });
  EXPECT_TRUE(parent.is_seen_to("waits for a process that it has started")) << parent.last();
}

}  // namespace
}  // namespace unisono::tools

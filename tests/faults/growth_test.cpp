// Groups, and worlds with all their connections, that are made and ended again and again leave nothing behind (R10).

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <sstream>

#include "faults.h"

namespace unisono::testing {
namespace {

/// The numbers of a "held" line of fault_rank, which names them.
std::map<std::string, long> held(const std::vector<std::string>& lines, const std::string& name) {
  std::istringstream text(line_of(lines, fmt::format("held {}: ", name)));
  std::map<std::string, long> numbers;
  std::string what;
  for (long number = 0; text >> what >> number;) numbers[what] = number;
  return numbers;
}

std::map<std::string, long> held_by_launcher(pid_t pid) {
  std::map<std::string, long> numbers;
  for (const char* folder : {"fd", "task"}) {
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(fmt::format("/proc/{}/{}", pid, folder))) ++numbers[folder];
  }
  std::istringstream status(contents(fmt::format("/proc/{}/status", pid)));
  for (std::string word; status >> word;) {
    if (word == "RssAnon:") status >> numbers["resident"];
  }
  return numbers;
}

/// Compares the memory that a process holds of its own. 24 bytes are the least that can be allocated: a process that grows by less than that for each
/// thing made keeps nothing of it. Beside that the allocator keeps up to 128 KiB at the end of the heap before it gives memory back.
void expect_no_growth(std::map<std::string, long> before, std::map<std::string, long> after, int made, const std::string& who) {
  constexpr long bytes_each = 24, kib_once = 128;
  const long allowed_kib = kib_once + bytes_each * made / 1024;
  EXPECT_GT(before["resident"], 0) << who;
  EXPECT_LE(after["resident"] - before["resident"], allowed_kib) << who << ": " << before["resident"] << " KiB before";
  before.erase("resident");
  after.erase("resident");
  EXPECT_EQ(before, after) << who;
}

/// Groups of shared memory, or of a world over TCP whose ranks present themselves as being on three hosts.
void make_groups(int times, const Variables& variables) {
  RunningCommand job(faulty_job(3, {"groups", std::to_string(times)}), {.environment = variables});
  ASSERT_TRUE(job.until([&] { return count(job.out(), "ready ") == 3; }, std::chrono::minutes(3))) << job.out() << job.err();
  const auto launcher = held_by_launcher(job.pid());
  const auto go = [&] {
    for (int r = 0; r < 3; ++r) ::kill(pid_of(job, r), SIGUSR1);
  };
  go();
  ASSERT_TRUE(job.until([&] { return count(job.out(), "all made") == 3; }, std::chrono::minutes(20))) << job.out() << job.err();
  expect_no_growth(launcher, held_by_launcher(job.pid()), 3 * times, "the launcher");
  go();
  EXPECT_EQ(job.wait(), 0) << job.err();
  if (!variables.contains("TEST_HOSTS")) {  // a rank that presents itself elsewhere is warned of its local rank
    EXPECT_EQ(job.err(), "");
  }
  for (int r = 0; r < 3; ++r) {
    const auto lines = lines_of_rank(job, r);
    EXPECT_GT(held(lines, "before")["keys"], 0);
    expect_no_growth(held(lines, "before"), held(lines, "after"), times, fmt::format("rank {}", r));
  }
  expect_nothing_left(job_id(job));
}

void make_worlds(int times, const Variables& variables) {
  RunningCommand job(faulty_job(3, {"worlds", std::to_string(times)}), {.environment = variables});
  EXPECT_EQ(job.wait(std::chrono::minutes(20)), 0) << job.out() << job.err();
  for (int r = 0; r < 3; ++r) {
    const auto lines = lines_of_rank(job, r);
    auto before = held(lines, "before"), after = held(lines, "after");
    // The store keeps for good that a world of this job is over, so that nobody joins it. That is the launcher's memory, not the rank's.
    EXPECT_GT(after["keys"], before["keys"]);
    before.erase("keys");
    after.erase("keys");
    expect_no_growth(before, after, times, fmt::format("rank {}", r));
  }
}

/// Six ranks, of which one is lost and replaced five times. The store grows by what the lost process has left there, and not by what all have put
/// there for the new world, as it does the first time: that is erased when nobody can need it any more.
void make_generations(const Variables& variables) {
  constexpr int size = 6, losses = 5;
  RunningCommand job({UNISONO_COMMAND, "run", "-n", fmt::format("2:{}", size), "--max-restarts", "20", "--", FAULT_RANK, "generations",
                      std::to_string(size), std::to_string(losses)},
                     {.environment = variables});
  EXPECT_EQ(job.wait(std::chrono::minutes(3)), 0) << job.out() << job.err();
  std::istringstream text(line_of(lines_of(job.out()), "[0] keys "));
  std::vector<long> keys;
  for (long number = 0; text >> number;) keys.push_back(number);
  ASSERT_EQ(keys.size(), losses + 1) << job.out();
  const long at_first = keys[1] - keys[0], later = (keys[5] - keys[2]) / 3;
  EXPECT_GT(later, 0) << job.out();
  EXPECT_LT(2 * later, at_first) << job.out();
}

const Variables over_tcp{{"TEST_INIT_BACKEND", "tcp"}, {"TEST_HOSTS", "a,b,c"}};

TEST(Growth, GroupsInSharedMemoryLeaveNothingBehind) { make_groups(400, {}); }
TEST(Growth, GroupsOverTcpLeaveNothingBehind) { make_groups(400, over_tcp); }
TEST(Growth, WorldsInSharedMemoryLeaveNothingBehind) { make_worlds(60, {}); }
TEST(Growth, WorldsOverTcpLeaveNothingBehind) { make_worlds(60, over_tcp); }
TEST(Growth, GenerationsInSharedMemoryLeaveNothingBehind) { make_generations({}); }
TEST(Growth, GenerationsOverTcpLeaveNothingBehind) { make_generations({{"TEST_INIT_BACKEND", "tcp"}}); }

// ctest runs these by themselves, with the label long.
TEST(LongGrowth, GroupsInSharedMemoryLeaveNothingBehind) { make_groups(10'000, {}); }
TEST(LongGrowth, GroupsOverTcpLeaveNothingBehind) { make_groups(10'000, over_tcp); }
TEST(LongGrowth, WorldsInSharedMemoryLeaveNothingBehind) { make_worlds(1'000, {}); }
TEST(LongGrowth, WorldsOverTcpLeaveNothingBehind) { make_worlds(1'000, over_tcp); }

}  // namespace
}  // namespace unisono::testing

// The status line of a job of several hosts, put together from what each launcher says of its own ranks.
#include "hosts/host_streams.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <string>

namespace unisono::tools {
namespace {

using namespace std::chrono_literals;
using launcher::StatusTexts;

constexpr std::uint64_t second = 1'000'000'000;

std::string told(const std::string& each, const std::string& counts, int late = -1, std::uint64_t seconds = 0) {
  StatusTexts texts{.each = each, .counts = counts};
  if (late >= 0) texts.late = {.rank = late, .for_ns = seconds * second, .text = "rank " + std::to_string(late) + " is late"};
  return texts.told(2);
}

TEST(HostStates, TheStatesNameTheRankThatWaitsForNobody) {
  HostStates states(3);
  states.take(0, told("0 waiting, 1 waiting", "2 waiting", 4, 9));
  states.take(1, told("4 waiting, 14 waiting", "2 waiting", 8, 8));
  states.take(2, told("8 program", "1 program"));
  EXPECT_EQ(states.line(7s, 200), "[unisono] 7 s, restart 2: 0 waiting, 1 waiting, 4 waiting, 14 waiting, 8 program | rank 8 is late");
}

TEST(HostStates, TheStatesNameTheRankThatIsLateForLongest) {
  HostStates states(2);
  states.take(0, told("0 waiting, 1 program", "1 program, 1 waiting", 1, 2));
  states.take(1, told("2 waiting, 3 program", "1 program, 1 waiting", 3, 300));
  EXPECT_EQ(states.line(7s, 200), "[unisono] 7 s, restart 2: 0 waiting, 1 program, 2 waiting, 3 program | rank 3 is late");
  states.take(1, told("2 waiting, 3 waiting", "2 waiting"));
  EXPECT_EQ(states.line(7s, 64), "[unisono] 7 s, restart 2: 1 program, 3 waiting | rank 1 is late") << "there is no room for each rank";
}

TEST(HostStates, TheStatesNameOneWhereRanksOfTwoHostsWaitForEachOther) {
  HostStates states(2);
  states.take(0, told("0 waiting", "1 waiting", 1, 5));
  states.take(1, told("1 waiting", "1 waiting", 0, 6));
  EXPECT_EQ(states.line(7s, 200), "[unisono] 7 s, restart 2: 0 waiting, 1 waiting | rank 0 is late");
}

TEST(HostStates, TheStatesTakeNothingFromALineOfAnotherKind) {
  HostStates states(1);
  for (const char* const text : {"", "\t", "a\tb", "1\t\t\tx y\tz"}) states.take(0, text);
  EXPECT_EQ(states.line(7s, 200), "");
}

}  // namespace
}  // namespace unisono::tools

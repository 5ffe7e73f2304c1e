// `unisono bench --explain`: what a call takes of each rank.

#include <gtest/gtest.h>

#include <regex>
#include <string>

#include "running_command.h"

namespace unisono::testing {
namespace {

class BenchExplain : public ::testing::Test {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "a sanitizer replaces the functions that are counted";
#endif
  }
};

/// Returns what the lines of a rank say of a function: its calls in one call of the bench.
double calls_of(const std::string& text, int rank, const std::string& function) {
  const std::size_t begin = text.find(" rank " + std::to_string(rank) + ":"), end = text.find("all else", begin);
  std::smatch found;
  const std::string lines = begin == std::string::npos ? "" : text.substr(begin, end - begin);
  return std::regex_search(lines, found, std::regex("\\n  " + function + " +([0-9.]+) ")) ? std::stod(found[1]) : -1;
}

TEST_F(BenchExplain, ExplainTellsTheSystemCallsAndCopiesOfEachRank) {
  RunningCommand command(unisono_command({"bench", "--explain", "all_reduce", "1KiB", "-n", "2", "--hosts", "2", "--quick"}));
  ASSERT_EQ(command.wait(std::chrono::seconds(100)), 0) << command.err();
  for (int rank = 0; rank < 2; ++rank) {
    const double sends = calls_of(command.out(), rank, "sendmsg");
    EXPECT_GE(sends, 1) << "a message to the other host\n" << command.out();
    EXPECT_LT(sends, 1.5) << "the elements travel with the comparison\n" << command.out();
    EXPECT_GE(calls_of(command.out(), rank, "recvmsg"), 1) << command.out();
    EXPECT_GE(calls_of(command.out(), rank, "memcpy, memmove"), 1) << command.out();
  }
}

TEST_F(BenchExplain, CallsWithinOneHostMakeNoSystemCallWhileTheRanksRun) {
  RunningCommand command(unisono_command({"bench", "--explain", "all_reduce", "1KiB", "-n", "2", "--quick"}));
  ASSERT_EQ(command.wait(std::chrono::seconds(100)), 0) << command.err();
  EXPECT_NE(command.out().find(" rank 1:"), std::string::npos) << command.out();
  for (int rank = 0; rank < 2; ++rank) EXPECT_EQ(calls_of(command.out(), rank, "sendmsg"), -1) << command.out();
}

}  // namespace
}  // namespace unisono::testing

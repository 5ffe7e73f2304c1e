// The C interface, by a program in C99 (main.c and its like) whose ranks say themselves what does not hold.

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "running_command.h"

namespace unisono::testing {
namespace {

/// Runs `c_calls WORD` on so many ranks, of which `lost` are killed.
void run_ranks(int ranks, const std::string& word, const std::vector<int>& lost = {}, int code = 0) {
  RunningCommand command(unisono_command({"run", "-n", std::to_string(ranks), "--grace", "20", "--", C_CALLS, word}));
  EXPECT_EQ(command.wait(), code) << command.out() << command.err();
  for (int rank = 0; rank < ranks; ++rank) {
    const bool is_lost = std::find(lost.begin(), lost.end(), rank) != lost.end();
    EXPECT_EQ(count(command.out(), fmt::format("rank {} of {}: {} went well\n", rank, ranks, word)), is_lost ? 0 : 1)
        << command.out() << command.err();
  }
}

/// The functions that the text of sources declares or calls.
std::set<std::string> functions_in(const std::string& folder, const std::string& ending) {
  static const std::regex comment("//[^\n]*"), function("\\b(unisono_[a-z_]+)\\(");
  std::set<std::string> found;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    if (file.path().extension() != ending) continue;
    const std::string text = std::regex_replace(contents(file.path()), comment, "");
    for (std::sregex_iterator each(text.begin(), text.end(), function), end; each != end; ++each) found.insert((*each)[1]);
  }
  return found;
}

TEST(CInterface, EveryFunctionGoesWellOnOneRankTwoAndThree) {
  for (const int ranks : {1, 2, 3}) run_ranks(ranks, "calls");
}

TEST(CInterface, AProgramThatWasNotLaunchedIsAlone) {
  RunningCommand command({C_CALLS, "calls"});
  EXPECT_EQ(command.wait(), 0) << command.err();
  EXPECT_EQ(command.out(), "rank 0 of 1: calls went well\n");
}

TEST(CInterface, TheProgramCallsEveryFunctionOfTheHeaders) {
  const std::set<std::string> declared = functions_in(C_HEADERS, ".h"), called = functions_in(C_SOURCES, ".c");
  EXPECT_GT(declared.size(), 80U);
  for (const std::string& function : declared) EXPECT_TRUE(called.contains(function)) << function;
}

TEST(CInterface, AWrongCallIsACodeWithASentenceAndTheGroupStaysUsable) {
  for (const int ranks : {1, 2}) run_ranks(ranks, "refusals");
}

TEST(CInterface, CallsThatDifferAreAMismatchOnAllRanks) {
  for (const int ranks : {2, 3}) run_ranks(ranks, "mismatch");
}

TEST(CInterface, ATimeoutNamesTheMissingRanks) { run_ranks(3, "missing"); }

TEST(CInterface, AKilledRankIsAPeerFailedWithItsRankAndTheOthersGoOn) { run_ranks(3, "killed", {1}, 128 + SIGKILL); }

TEST(CInterface, AnAbortedGroupHasItsReasonAndTheWorldGoesOn) {
  for (const int ranks : {2, 3}) run_ranks(ranks, "aborted");
}

}  // namespace
}  // namespace unisono::testing

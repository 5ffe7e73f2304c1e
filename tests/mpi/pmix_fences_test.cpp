// The fences of Open MPI's ranks on several hosts: what unisono-pmix tells its launcher, and what it takes from it.
#include "launch/mpi/pmix_fences.h"

#include <gtest/gtest.h>

#include <optional>
#include <sstream>

namespace unisono::launcher {
namespace {

class FencesTest : public ::testing::Test {
 protected:
  /// A host: one of three, which have 2, 1 and 1 ranks.
  struct Host {
    explicit Host(int number) : fences(number, {2, 1, 1}, said) {}
    std::ostringstream said;
    Fences fences;
    std::optional<std::string> data = {};

    void come(std::vector<int> among, std::string_view own) {
      fences.come(std::move(among), own, [this](std::string_view all) { data = std::string(all); });
    }
    std::string take_line() {
      std::string line = said.str();
      said.str("");
      return line;
    }
  };
  Host a_{0}, b_{1}, c_{2};
};

TEST_F(FencesTest, FencesOfOneHostAreOverAtOnce) {
  a_.come({0, 1}, "own data");
  EXPECT_EQ(a_.data, "own data");
  b_.come({2}, "");
  EXPECT_EQ(b_.data, "");
  EXPECT_EQ(a_.take_line() + b_.take_line(), "");
}

TEST_F(FencesTest, FencesOfSeveralHostsGoThroughTheLaunchers) {
  a_.come({}, std::string_view("\0\xff", 2));
  b_.come({}, "b");
  const std::string of_a = a_.take_line(), of_b = b_.take_line();
  EXPECT_TRUE(of_a.starts_with("fence ")) << of_a;
  EXPECT_TRUE(of_a.ends_with(" 0,1,2 00ff\n")) << of_a;
  EXPECT_TRUE(of_b.ends_with(" 0,1,2 62\n")) << of_b;
  const std::string name = of_a.substr(6, of_a.find(' ', 6) - 6);
  EXPECT_TRUE(of_b.starts_with("fence " + name + " ")) << of_b;
  EXPECT_EQ(a_.data, std::nullopt);
  a_.fences.hear("fence " + name + " 00ff6263");
  EXPECT_EQ(a_.data, std::string("\0\xff"
                                 "bc",
                                 4));
  EXPECT_EQ(b_.data, std::nullopt);
}

TEST_F(FencesTest, FencesOfOtherRanksOrLaterHaveOtherNames) {
  std::vector<std::string> lines;
  a_.come({}, "");
  lines.push_back(a_.take_line());
  a_.come({1, 3}, "");
  lines.push_back(a_.take_line());
  EXPECT_TRUE(lines.back().ends_with(" 0,2 \n")) << lines.back();
  a_.come({1, 2}, "");
  lines.push_back(a_.take_line());
  EXPECT_TRUE(lines.back().ends_with(" 0,1 \n")) << lines.back();
  a_.come({}, "");
  lines.push_back(a_.take_line());
  for (std::size_t i = 0; i < lines.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) EXPECT_NE(lines[i].substr(0, lines[i].find(' ', 6)), lines[j].substr(0, lines[j].find(' ', 6)));
  }
  c_.come({3, 1}, "");  // the same ranks in another order
  EXPECT_EQ(c_.take_line(), lines[1]);
}

TEST_F(FencesTest, FencesTakeNothingElse) {
  a_.come({}, "x");
  const std::string line = a_.take_line();
  const std::string name = line.substr(6, line.find(' ', 6) - 6);
  for (const std::string& other :
       {std::string(), std::string("ready"), "fence " + name + " 0", "fence " + name + " 0g", std::string("fence other-0 00")})
    a_.fences.hear(other);
  EXPECT_EQ(a_.data, std::nullopt);
  a_.fences.hear("fence " + name + " ");
  EXPECT_EQ(a_.data, "");
  a_.fences.hear("fence " + name + " 00");  // again
  EXPECT_EQ(a_.data, "");
}

}  // namespace
}  // namespace unisono::launcher

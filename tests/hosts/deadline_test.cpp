// What the error of a passed deadline says where the ranks that wait for each other are on several hosts.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "faults/faults.h"
#include "job.h"

namespace unisono::testing {
namespace {

using namespace std::chrono_literals;

std::vector<std::unique_ptr<RunningCommand>> job_of_ranks(const Hosts& hosts, int nodes, int ranks, const std::vector<std::string>& words) {
  std::vector<std::unique_ptr<RunningCommand>> job;
  for (int node = 0; node < nodes; ++node)
    job.push_back(hosts.start(node, node_words({.nodes = nodes, .node = node, .ranks = ranks, .master = hosts.address(0)}, words), secret));
  return job;
}

// Each sends a large message to the next, and nobody receives. Of 2 × 2 ranks two waits are within a host, and two between hosts. Any rank finds the
// circle by itself.
TEST(DeadlineOfHosts, RanksThatAllSendAreToldAsACircle) {
  const std::string advice =
      "all of them send before they receive, and a message of more than 64 KiB waits for its receiver: use send_recv, or isend";
  struct Shape {
    int nodes, ranks;
    const char* how;
  };
  for (const auto& [nodes, ranks, how] : {Shape{2, 1, "circle"}, Shape{3, 1, "circle 1"}, Shape{2, 2, "circle 0"}, Shape{2, 2, "circle 1"}}) {
    MAKE_HOSTS(hosts, nodes);
    const int all = nodes * ranks;
    const auto job = job_of_ranks(hosts, nodes, ranks, {FAULT_RANK, "deadline", how, "2000"});
    const std::string circle = all == 2 ? "ranks 0, 1 wait for each other: " : fmt::format("ranks 0-{} wait for each other: ", all - 1);
    for (int node = 0; node < nodes; ++node) {
      RunningCommand& launcher = *job[static_cast<std::size_t>(node)];
      EXPECT_EQ(launcher.wait(50s), 3) << launcher.err();
      for (int r = node * ranks; r < (node + 1) * ranks; ++r) {
        const std::string error = line_of(lines_of_rank(launcher, r), "error ");
        EXPECT_TRUE(error.starts_with("Timeout missing=")) << error;
        EXPECT_EQ(word_after(error, "culprit="), "-1") << error;
        EXPECT_NE(error.find(circle), std::string::npos) << error;
        EXPECT_NE(error.find(advice), std::string::npos) << error;
        EXPECT_EQ(error.find("; and so on"), std::string::npos) << error;
        for (int each = 0; each < all; ++each) EXPECT_EQ(count(error, fmt::format("rank {} is in send #", each)), 1) << error;
      }
      const auto at = launcher.err().find("first cause: ");
      ASSERT_NE(at, std::string::npos) << launcher.err();
      const std::string verdict = launcher.err().substr(at);
      EXPECT_NE(verdict.find(circle), std::string::npos) << launcher.err();
      EXPECT_NE(verdict.find(advice), std::string::npos) << launcher.err();
    }
  }
}

// Rank 0 sends something else than rank 1 waits for, and waits until that is received.
TEST(DeadlineOfHosts, AMessageWithAnotherTagIsNamed) {
  MAKE_HOSTS(hosts, 2);
  const auto job = job_of_ranks(hosts, 2, 1, {FAULT_RANK, "deadline", "astray", "2000"});
  for (const auto& launcher : job) EXPECT_EQ(launcher->wait(50s), 0) << launcher->err();
  for (int r = 0; r < 2; ++r) {
    const std::string error = line_of(lines_of_rank(*job[static_cast<std::size_t>(r)], r), "error ");
    EXPECT_TRUE(error.starts_with("Timeout missing=")) << error;
    EXPECT_NE(error.find("rank 0 has sent it a message with tag 7 (float32 × 1000000), which no receive has asked for"), std::string::npos) << error;
  }
}

}  // namespace
}  // namespace unisono::testing

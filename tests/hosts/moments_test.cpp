// Networks that fail under ranks at every moment of their work: between two calls, in small and large calls, while an asynchronous call is under way,
// and while ranks connect. Nothing comes through, in both directions or in one; the interface goes down; its address goes; connections are reset.
// N1, N2, N3, N5, N10.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "faults/faults.h"
#include "job.h"

namespace unisono::testing {
namespace {

using Words = std::vector<std::string>;

struct Cut {
  std::string name, moment;
  std::vector<int> hosts;  ///< where it happens
  Words command;
  std::string cause;  ///< "": silent, or what the system says of the connection
};

std::ostream& operator<<(std::ostream& out, const Cut& cut) { return out << cut.name << "_" << cut.moment; }

std::unique_ptr<RunningCommand> rank_on(const Hosts& hosts, int rank, const Words& words, const Variables& more) {
  return hosts.start(rank, faulty_rank(words), with(rank_variables(rank, 2, hosts.address(0)), more));
}

/// Each rank says "ready PID" first; nsenter has put itself into its place.
pid_t pid_of(const RunningCommand& rank) { return std::stoi(word_after(rank.out(), "ready ")); }

void expect_names(RunningCommand& rank, int own, const Cut& cut) {
  EXPECT_EQ(rank.wait(std::chrono::seconds(40)), 3) << rank.out() << rank.err();
  const auto lines = lines_of(rank.out());
  const std::string error = line_of(lines, "error ");
  EXPECT_TRUE(error.starts_with("PeerFailed cause=")) << error;
  const std::string cause = word_after(error, "cause=");
  EXPECT_TRUE(cause == "silent" || cause == "disconnected") << error;
  if (!cut.cause.empty()) {
    EXPECT_EQ(cause, cut.cause) << error;
  }
  EXPECT_EQ(word_after(error, "culprit="), std::to_string(1 - own)) << error;
  EXPECT_EQ(word_after(error, "host="), "host" + std::to_string(1 - own)) << error;
  EXPECT_EQ(word_after(error, "rank="), std::to_string(own)) << error;
  EXPECT_EQ(word_after(error, "group="), "world") << error;
  expect_later_calls_threw_the_same(lines);
}

class NetworkAtMoments : public ::testing::TestWithParam<Cut> {};

TEST_P(NetworkAtMoments, ANetworkThatFailsAtAnyMomentEndsBothRanks) {
  const Cut& cut = GetParam();
  MAKE_HOSTS(hosts, 2);
  std::vector<std::unique_ptr<RunningCommand>> ranks;
  for (int r = 0; r < 2; ++r) ranks.push_back(rank_on(hosts, r, {"work", cut.moment, "9"}, {{"TEST_SILENCE_MS", "3000"}}));
  for (const auto& rank : ranks) ASSERT_TRUE(rank->until_out_has("under way")) << rank->out() << rank->err();
  for (const int host : cut.hosts) hosts.run(host, cut.command);
  if (cut.moment == "idle") {
    for (const auto& rank : ranks) ::kill(pid_of(*rank), SIGUSR1);
  }
  for (int r = 0; r < 2; ++r) expect_names(*ranks[static_cast<std::size_t>(r)], r, cut);
}

std::vector<Cut> cuts() {
  std::vector<Cut> all;
  const Words blackhole{"tc", "qdisc", "add", "dev", "net0", "root", "blackhole"};
  for (const char* moment : {"idle", "small", "large", "flying"}) {
    all.push_back({"blackhole", moment, {0, 1}, blackhole, ""});
    all.push_back({"down", moment, {1}, {"ip", "link", "set", "net0", "down"}, ""});
  }
  all.push_back({"oneway", "large", {0}, blackhole, ""});
  all.push_back({"address", "idle", {1}, {"ip", "address", "del", "10.77.0.2/24", "dev", "net0"}, ""});
  for (const char* moment : {"idle", "small", "large", "flying"}) {
    all.push_back({"reset", moment, {0}, {"ss", "-K", "dst", "10.77.0.2"}, "disconnected"});
  }
  return all;
}
INSTANTIATE_TEST_SUITE_P(Cuts, NetworkAtMoments, ::testing::ValuesIn(cuts()),
                         [](const auto& one) { return one.param.name + "_" + one.param.moment; });

// Nothing comes through while data moves. The program has the error of its call, and its context has ended, soon after the call's two seconds, though
// the way to the store, which rank 0 serves, is cut as well.
class CutInACall : public ::testing::TestWithParam<const char*> {};

TEST_P(CutInACall, ACutInACallEndsItAtItsDeadline) {
  MAKE_HOSTS(hosts, 2);
  std::vector<std::unique_ptr<RunningCommand>> ranks;
  for (int r = 0; r < 2; ++r) ranks.push_back(rank_on(hosts, r, {"brief", GetParam()}, {}));
  for (const auto& rank : ranks) ASSERT_TRUE(rank->until_out_has("under way")) << rank->out() << rank->err();
  for (const int host : {0, 1}) hosts.run(host, {"tc", "qdisc", "add", "dev", "net0", "root", "blackhole"});
  for (int r = 0; r < 2; ++r) {
    RunningCommand& rank = *ranks[static_cast<std::size_t>(r)];
    EXPECT_EQ(rank.wait(std::chrono::seconds(40)), 3) << rank.out() << rank.err();
    const auto lines = lines_of(rank.out());
    const std::string error = line_of(lines, "error ");
    EXPECT_TRUE(error.starts_with(fmt::format("Timeout missing={} culprit={} ", 1 - r, 1 - r))) << error;
    EXPECT_LT(std::stoi(line_of(lines, "took ")), 2000 + 4500) << rank.out();  // the waits of a context that ends well are longer than that
  }
}
INSTANTIATE_TEST_SUITE_P(Errors, CutInACall, ::testing::Values("outside", "inside"), [](const auto& one) { return std::string(one.param); });

// m2: rank 0 stops before it dials rank 1, and goes on when nothing comes through any more.
TEST(WhileConnecting, ACutEndsBothRanks) {
  for (const bool down : {false, true}) {
    MAKE_HOSTS(hosts, 2);
    TemporaryFolder folder;
    const Variables common{{"UNISONO_TIMEOUT", "5"}};
    const Variables stops{{"LD_PRELOAD", FAILING_CALLS}, {"FAILING_CALL", "connect:1:-3"}, {"FAILING_CALL_MARK", folder.path() + "/struck"}};
    const auto zero = rank_on(hosts, 0, {"join-only"}, with(common, stops));
    const auto one = rank_on(hosts, 1, {"join-only"}, common);
    ASSERT_TRUE(zero->until_out_has("here ")) << zero->err();
    ASSERT_TRUE(zero->until([&] { return ::access((folder.path() + "/struck").c_str(), F_OK) == 0; })) << zero->out() << zero->err();
    hosts.run(1, down ? Words{"ip", "link", "set", "net0", "down"} : Words{"tc", "qdisc", "add", "dev", "net0", "root", "blackhole"});
    ::kill(std::stoi(word_after(zero->out(), "here ")), SIGCONT);
    for (RunningCommand* rank : {zero.get(), one.get()}) {
      EXPECT_EQ(rank->wait(std::chrono::seconds(50)), 3) << rank->out() << rank->err();
      const std::string error = line_of(lines_of(rank->out()), "error ");
      EXPECT_FALSE(error.empty());
    }
    const std::string of_zero = line_of(lines_of(zero->out()), "error ");
    EXPECT_NE(of_zero.find("rank 1"), std::string::npos) << of_zero;
  }
}

}  // namespace
}  // namespace unisono::testing

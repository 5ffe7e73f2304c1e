// The launchers of a job of several hosts during an attempt: what they make of a host that is lost, has left, or was taken for lost and goes on.
#include "launch/hosts/nodes.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <chrono>
#include <csignal>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/deadline.h"
#include "base/socket.h"
#include "store/client.h"

namespace unisono::launcher {
namespace {

using namespace std::chrono_literals;
using base::Deadline;

constexpr auto patience = 20s;
constexpr const char* silent = "nothing came from it for 4000 ms";

/// The launchers of a job, of two ranks each, in this process. Host 0 has the store, which the test reads and writes as well.
class Job {
 public:
  /// `least_hosts`: of --nnodes MIN:2; 0 for --nnodes 2.
  explicit Job(int least_hosts, std::chrono::milliseconds last_call = patience) {
    auto listening = base::try_listen(base::resolve("127.0.0.1", 0).front());
    const base::SocketAddress address = base::local_address(listening.fd.get());
    options_.ranks = options_.hosts.nnodes = 2;
    options_.hosts.min_nnodes = least_hosts;
    options_.hosts.last_call = last_call;
    options_.hosts.master_addr = "127.0.0.1";
    options_.hosts.master_port = address.port();
    options_.shown.verbosity = Verbosity::silent;
    options_.environment = base::Environment(std::map<std::string, std::string, std::less<>>{{"UNISONO_TIMEOUT", "20"}});
    JobOptions of_host_zero = options_;
    of_host_zero.hosts.listening = std::make_shared<base::FileDescriptor>(std::move(listening.fd));
    zero_ = std::async(std::launch::async, [this, of_host_zero] { return begun(of_host_zero); });
    client_ = store::connect_tcp({address}, "the launchers' store", {}, Deadline(patience));
  }

  Nodes& zero() {
    if (zero_.valid()) host_zero_ = zero_.get();
    return *host_zero_;
  }
  /// Another launcher joins. Throws Timeout where it is not taken in.
  Nodes& join() {
    JobOptions other = options_;
    other.hosts.node_rank = 1;
    others_.push_back(begun(other));
    return *others_.back();
  }
  void last_one_leaves() { others_.pop_back(); }
  store::Client& store() { return *client_; }
  std::optional<std::string> said(const std::string& key) { return client_->try_get("launchers/attempt/0/" + key); }
  /// Says what host 0 says of a launcher that is silent, and waits until host 0 has put the host in order.
  void lose_host_one() {
    client_->set("launchers/bye/1", silent);
    EXPECT_EQ(client_->get("launchers/attempt/0/ends/1", patience), "");
  }

 private:
  static std::unique_ptr<Nodes> begun(const JobOptions& options) {
    auto nodes = std::make_unique<Nodes>(options);
    nodes->begin(0);
    return nodes;
  }

  JobOptions options_;
  std::future<std::unique_ptr<Nodes>> zero_;
  std::unique_ptr<Nodes> host_zero_;
  std::vector<std::unique_ptr<Nodes>> others_;  // end before host 0, which waits for them
  std::shared_ptr<store::Client> client_;
};

/// Waits for trouble; nothing where none is told.
std::optional<Trouble> trouble_of(Nodes& nodes) {
  const Deadline deadline(patience);
  for (;;) {
    pollfd told{.fd = nodes.fd(), .events = POLLIN, .revents = 0};
    ::poll(&told, 1, static_cast<int>(deadline.left().count()));
    if (auto trouble = nodes.take_trouble()) return trouble;
    if (deadline.passed()) return std::nullopt;
  }
}

// Its launcher was stopped, as by SIGSTOP, for so long that the others have gone on. When it wakes it ends its ranks.
TEST(NodesOfJob, NodesHearThatTheyWereTakenForLost) {
  for (const int least_hosts : {0, 1}) {
    Job job(least_hosts);
    Nodes& one = job.join();
    job.lose_host_one();
    const auto trouble = trouble_of(one);
    ASSERT_TRUE(trouble) << least_hosts;
    EXPECT_EQ(trouble->kind, Trouble::Kind::lost);
    EXPECT_EQ(trouble->node, 1);
    EXPECT_EQ(trouble->how, silent);
  }
}

// The words of such a launcher on its ranks come too late: they count no more, while those that have ended well before still do.
TEST(NodesOfJob, NodesCountNoMembersOfAHostThatIsLost) {
  Job job(1);
  job.join();
  const auto elastic = job.zero().make_elastic(0, 0);
  job.lose_host_one();
  job.store().set("launchers/attempt/0/tally/1", encode_tally({.members = 1, .well = 1}));
  const Deadline deadline(patience);
  HostTally tally;
  while (tally.well == 0 && !deadline.passed()) tally = elastic->take().others[1];
  EXPECT_EQ(tally.well, 1);
  EXPECT_EQ(tally.members, 0);
}

// Its launcher waits for the end of the job. When it leaves before that, its place is free, and nothing else happens.
TEST(NodesOfJob, NodesGoOnWithoutAHostWhoseRanksHaveEnded) {
  Job job(1);
  Nodes& one = job.join();
  one.end({{.rank = 2, .how = RankEnd::How::signaled, .code = 9, .order = 1}, {.rank = 3, .how = RankEnd::How::exited, .code = 7}});
  const std::string ends = job.store().get("launchers/attempt/0/ends/1", patience);
  EXPECT_FALSE(ends.empty());
  job.last_one_leaves();
  const Nodes& later = job.join();
  EXPECT_TRUE(later.terms().is_late);
  EXPECT_EQ(later.terms().first_rank, 4);
  EXPECT_EQ(job.said("ends/1"), ends);
  EXPECT_EQ(job.said("trouble"), std::nullopt);
  EXPECT_EQ(job.said("first-end"), std::nullopt);
}

// A signal ends its ranks at once, so what it tells the others and how its ranks have ended leave it together.
TEST(NodesOfJob, NodesTellOfASignalBeforeTheyWaitForTheOthers) {
  for (int round = 0; round < 20; ++round) {
    Job job(1);
    Nodes& one = job.join();
    job.zero();
    one.tell({.kind = Trouble::Kind::interrupt, .signal = SIGINT});
    one.end({{.rank = 2, .how = RankEnd::How::signaled, .code = SIGINT}, {.rank = 3, .how = RankEnd::How::signaled, .code = SIGINT}});
    const auto trouble = trouble_of(job.zero());
    ASSERT_TRUE(trouble) << round;
    EXPECT_EQ(trouble->kind, Trouble::Kind::interrupt);
    EXPECT_EQ(trouble->signal, SIGINT);
  }
}

// The ranks that meet for the first time wait for those of all hosts that were there at the start, and for no others.
TEST(NodesOfJob, NodesTellRanksThatMeetOfALostHost) {
  Job job(1);
  job.join();
  job.lose_host_one();
  EXPECT_EQ(job.said("first-end"), "2 lost 0");

  Job other(1, 0ms);
  other.zero();
  ASSERT_TRUE(other.join().terms().is_late);
  other.lose_host_one();
  EXPECT_EQ(other.said("first-end"), std::nullopt);
}

TEST(SilenceWatch, TheWatchFindsAHostThatSaysNothingNew) {
  SilenceWatch watch(4s, 2s);
  auto now = base::Clock::now();
  watch.look(now);
  EXPECT_FALSE(watch.is_silent(1, "1"));
  EXPECT_FALSE(watch.is_silent(2, "7"));
  for (int second = 1; second <= 5; ++second) {
    watch.look(now += 1s);
    EXPECT_EQ(watch.is_silent(1, "1"), second > 4) << second;
    EXPECT_FALSE(watch.is_silent(2, std::to_string(second))) << second;
  }
  watch.look(now += 1s);
  EXPECT_FALSE(watch.is_silent(1, "2")) << "it goes on";
}

// After Ctrl-Z and fg, or where the machine was suspended, what the others have said meanwhile is read only after the first look.
TEST(SilenceWatch, TheWatchCountsNoTimeInWhichNobodyLooked) {
  SilenceWatch watch(4s, 2s);
  auto now = base::Clock::now();
  watch.look(now);
  EXPECT_FALSE(watch.is_silent(1, "1"));
  watch.look(now += 1h);
  EXPECT_FALSE(watch.is_silent(1, "1"));
  watch.look(now += 1s);
  EXPECT_FALSE(watch.is_silent(1, "1")) << "it has 2 s and 1 s so far";
  watch.look(now += 2s);
  EXPECT_TRUE(watch.is_silent(1, "1"));
}

}  // namespace
}  // namespace unisono::launcher

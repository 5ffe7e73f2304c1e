// Launchers tell each other, and `unisono status`, of their ranks.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/bytes.h"
#include "base/socket.h"
#include "launch/hosts/host_texts.h"
#include "launch/hosts/nodes.h"
#include "launch/view/job_view.h"
#include "launch/view/standstill.h"
#include "launch/view/state_server.h"
#include "recorder/ticks.h"
#include "unit/store/served_store.h"

namespace unisono::testing {
namespace {

using launcher::JobSeen;
using launcher::RankFacts;

constexpr std::uint64_t second = 1'000'000'000;

/// A host whose clock shows this.
JobSeen host_with(int node, std::uint64_t now) {
  JobSeen seen{
      .job = "job of " + std::to_string(node), .host = "host" + std::to_string(node), .node = node, .world_size = 4, .restarts = 1, .ranks = {}};
  for (int rank = 2 * node; rank < 2 * node + 2; ++rank) {
    RankFacts facts;
    facts.record.rank = rank;
    facts.record.size = 4;
    facts.record.pid = 1000 + rank;
    facts.record.state = recorder::RankState::running;
    facts.record.now = now;
    facts.record.began = now - 90 * second;
    facts.record.calls = 5;
    facts.record.bytes = 1U << 20;
    facts.record.failures = 1;
    facts.record.waited = 3 * second;
    facts.record.program = "./train";
    facts.record.failure = rank == 3 ? "rank 0 is gone" : "";
    facts.process = {.lives = true, .is_stopped = rank == 2, .cpu_seconds = 1.5, .cpu_share = 0.25, .memory_bytes = 4096};
    facts.record.program_waits_since = now - 11 * second;
    facts.record.recent.push_back({.operation = "all_reduce",
                                   .kind = Operation::all_reduce,
                                   .group = "world",
                                   .place = "train.cpp:7",
                                   .state = recorder::CallState::waiting,
                                   .sequence = 841,
                                   .bytes = 80,
                                   .dtype = DType::float32,
                                   .tag = 9,
                                   .begun = now - 12 * second,
                                   .waited_for = 3,
                                   .waited_count = 1});
    seen.ranks.push_back(facts);
  }
  seen.ranks.push_back({.process = {}, .has_joined = false});
  seen.ranks.back().record.rank = 2 * node + 2;
  return seen;
}

TEST(JobState, AStateArrivesAsItWas) {
  // The other host began long after this one, or long before.
  for (const std::uint64_t clock : {100 * second, recorder::steady_ns() + 1'000'000 * second}) {
    const std::uint64_t before = recorder::steady_ns();
    const auto got = launcher::decode_job(launcher::encode(host_with(1, clock)));
    ASSERT_TRUE(got);
    EXPECT_EQ(got->job, "job of 1");
    EXPECT_EQ(got->host, "host1");
    EXPECT_EQ(got->node, 1);
    EXPECT_EQ(got->world_size, 4);
    EXPECT_EQ(got->restarts, 1);
    ASSERT_EQ(got->ranks.size(), 3U);
    const RankFacts& rank = got->ranks[1];
    EXPECT_FALSE(rank.is_here);
    EXPECT_TRUE(rank.has_joined);
    EXPECT_EQ(rank.record.rank, 3);
    EXPECT_EQ(rank.record.host, "host1");
    EXPECT_EQ(rank.record.pid, 1003);
    EXPECT_EQ(rank.record.bytes, 1U << 20);
    EXPECT_EQ(rank.record.failures, 1U);
    EXPECT_EQ(rank.record.waited, 3 * second);
    EXPECT_EQ(rank.record.program, "./train");
    EXPECT_EQ(rank.record.failure, "rank 0 is gone");
    EXPECT_GE(rank.record.now, before);
    EXPECT_EQ(rank.record.now - rank.record.began, 90 * second) << "ages travel, not times";
    EXPECT_EQ(rank.process.cpu_seconds, 1.5);
    EXPECT_EQ(rank.process.cpu_share, 0.25);
    EXPECT_EQ(rank.process.memory_bytes, 4096U);
    EXPECT_TRUE(got->ranks[0].process.is_stopped);
    const auto& call = rank.record.recent.at(0);
    EXPECT_EQ(launcher::call_text(call), "all_reduce #841 of world");
    EXPECT_EQ(call.place, "train.cpp:7");
    EXPECT_EQ(call.state, recorder::CallState::waiting);
    EXPECT_EQ(call.dtype, DType::float32);
    EXPECT_EQ(call.kind, Operation::all_reduce);
    EXPECT_EQ(call.tag, 9);
    EXPECT_EQ(rank.record.now - rank.record.program_waits_since, 11 * second);
    EXPECT_EQ(rank.record.now - call.begun, 12 * second);
    EXPECT_EQ(call.done, 0U) << "an unknown time stays unknown";
    EXPECT_EQ(call.waited_for, 3);
    EXPECT_FALSE(got->ranks[2].has_joined);
    EXPECT_EQ(launcher::delays_of(got->ranks, second).at(0).for_ns, 12 * second);
  }
}

TEST(JobState, BytesThatAreNoneAreRefused) {
  const std::string whole = launcher::encode(std::vector<JobSeen>{host_with(0, 100 * second), host_with(1, 100 * second)});
  ASSERT_TRUE(launcher::decode_hosts(whole));
  EXPECT_EQ(launcher::decode_hosts(whole)->size(), 2U);
  EXPECT_TRUE(launcher::decode_hosts("")->empty());
  const std::size_t first = launcher::encode(std::vector<JobSeen>{host_with(0, 100 * second)}).size();
  for (std::size_t size = 1; size < whole.size(); ++size) {
    EXPECT_EQ(launcher::decode_hosts(std::string_view(whole).substr(0, size)).has_value(), size == first) << size;
  }
  EXPECT_FALSE(launcher::decode_hosts(whole + "x"));
  const std::string one = launcher::encode(host_with(0, 100 * second));
  ASSERT_TRUE(launcher::decode_job(one));
  EXPECT_FALSE(launcher::decode_job(one + "x")) << "a byte is left over";
  EXPECT_FALSE(launcher::decode_hosts(base::ByteWriter().text(one + "x").take())) << "the same in a list of hosts";
  for (std::size_t size = 0; size < one.size(); ++size) EXPECT_FALSE(launcher::decode_job(std::string_view(one).substr(0, size))) << size;
  for (std::size_t i = 0; i < one.size(); ++i) {
    for (const char other : {'\0', '\xff', '\x7f'}) {
      std::string changed = one;
      changed[i] = other;
      static_cast<void>(launcher::decode_job(changed));  // must neither crash nor take memory because a length says so
    }
  }
}

std::vector<int> nodes_of(const std::vector<JobSeen>& hosts) {
  std::vector<int> nodes;
  for (const JobSeen& host : hosts) nodes.push_back(host.node);
  return nodes;
}

// ---- `unisono status` asks ---------------------------------------------------------------------------------------

bool is_told(const std::vector<std::vector<JobSeen>>& jobs, const std::string& name) {
  return std::ranges::any_of(jobs, [&](const auto& hosts) { return hosts.at(0).job == name; });
}

TEST(JobState, NamesThatAreCopiedToEachRankHaveALength) {
  JobSeen seen = host_with(1, 100 * second);
  seen.host = std::string(1024, 'h');
  EXPECT_TRUE(launcher::decode_job(launcher::encode(seen)));
  seen.host += 'h';
  EXPECT_FALSE(launcher::decode_job(launcher::encode(seen)));
  seen.host = "h";
  seen.job = std::string(1'000'000, 'j');
  EXPECT_FALSE(launcher::decode_job(launcher::encode(seen)));
}

TEST(StateServer, TheServerTellsThisUser) {
  const auto name = [](int i) { return "test " + std::to_string(::getpid()) + " " + std::to_string(i); };
  const auto job = [&](int i) {
    JobSeen seen = host_with(0, 100 * second);
    seen.job = name(i);
    return std::vector<JobSeen>{seen, host_with(1, 100 * second)};
  };
  {
    launcher::StateServer first([&] { return job(1); }), second_server([&] { return job(2); });
    for (int times = 0; times < 2; ++times) {
      const auto jobs = launcher::ask_launchers();
      EXPECT_TRUE(is_told(jobs, name(1)));
      EXPECT_TRUE(is_told(jobs, name(2)));
    }
    EXPECT_TRUE(launcher::connect_to_launcher(::getpid()));
    EXPECT_FALSE(launcher::connect_to_launcher(1));
  }
  EXPECT_FALSE(is_told(launcher::ask_launchers(), name(1))) << "nothing of it is left";
}

TEST(StateServer, AStateThatCannotBeToldEndsNothing) {
  std::atomic<bool> fails = true;
  launcher::StateServer server([&]() -> std::vector<JobSeen> {
    if (fails) throw std::runtime_error("the store is lost");
    JobSeen seen = host_with(0, 100 * second);
    seen.job = "after a failure " + std::to_string(::getpid());
    return {seen};
  });
  static_cast<void>(launcher::ask_launchers());
  fails = false;
  EXPECT_TRUE(is_told(launcher::ask_launchers(), "after a failure " + std::to_string(::getpid())));
}

// Those that are stopped say nothing, and one that is well is heard beside them.
TEST(StateServer, TheServerIsToldBesideStoppedLaunchersWithinOneDeadline) {
  std::vector<base::FileDescriptor> silent;
  for (int i = 0; i < 3; ++i) {
    const std::string name = "unisono-launcher-" + std::to_string(::geteuid()) + "-" + std::to_string(::getpid()) + "-silent" + std::to_string(i);
    silent.push_back(base::try_listen(base::SocketAddress::abstract_unix(name)).fd);
    ASSERT_TRUE(silent.back());
  }
  const std::string name = "beside silent ones " + std::to_string(::getpid());
  launcher::StateServer server([&] {
    JobSeen seen = host_with(0, 100 * second);
    seen.job = name;
    return std::vector<JobSeen>{seen};
  });
  const base::Deadline two_answers(std::chrono::seconds(10));
  EXPECT_TRUE(is_told(launcher::ask_launchers(), name));
  EXPECT_FALSE(two_answers.passed()) << "three launchers were waited for one after another";
}

// Neither is another user told, nor is what another user says under such a name believed.
TEST(StateServer, TheServerTellsNoOtherUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can be another user as well";
  constexpr uid_t nobody = 65534;
  launcher::StateServer server([] { return std::vector<JobSeen>{host_with(0, 100 * second)}; });
  const base::FileDescriptor own = launcher::connect_to_launcher(::getpid());
  ASSERT_TRUE(own);
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  ASSERT_EQ(::getpeername(own.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setresuid(nobody, nobody, nobody) != 0) ::_exit(2);
    const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
    if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), size) != 0) ::_exit(3);
    char byte = 0;
    ::_exit(::read(fd, &byte, 1) <= 0 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// ---- launchers ask each other ------------------------------------------------------------------------------------

/// A launcher of a host, with a connection of its own.
struct Launcher {
  Launcher(const store::Served& served, int node, int nodes)
      : connection(served.client()), hosts(roster_of(nodes)), states(connection, node, *hosts, [node] { return host_with(node, 100 * second); }) {}
  ~Launcher() { connection->hang_up(); }
  static std::unique_ptr<launcher::HostRoster> roster_of(int nodes) {
    auto roster = std::make_unique<launcher::HostRoster>();
    for (int number = 0; number < nodes; ++number) roster->add({.number = number, .ranks = 1, .first_rank = number});
    return roster;
  }
  std::shared_ptr<store::Client> connection;
  std::unique_ptr<launcher::HostRoster> hosts;
  launcher::NodeStates states;
};

TEST(NodeStates, StatesOfNodesComeFromAllOtherHosts) {
  const store::Served served;
  Launcher first(served, 0, 3), other(served, 1, 3), last(served, 2, 3);
  for (int times = 0; times < 3; ++times) {
    EXPECT_EQ(nodes_of(first.states.of_others()), (std::vector<int>{1, 2}));
    EXPECT_EQ(nodes_of(last.states.of_others()), (std::vector<int>{0, 1}));
  }
  std::vector<std::thread> asking;  // several may ask at once
  for (Launcher* each : {&first, &other, &last, &first}) asking.emplace_back([each] { EXPECT_EQ(each->states.of_others().size(), 2U); });
  for (std::thread& each : asking) each.join();
  store::wait_until([&] { return first.connection->num_keys() == 1; });  // only the number of questions is left
}

TEST(NodeStates, StatesOfALauncherThatDoesNotAnswerAreLeftOut) {
  const store::Served served;
  Launcher first(served, 0, 3), other(served, 1, 3);
  EXPECT_EQ(nodes_of(first.states.of_others()), (std::vector<int>{1}));
  // A launcher that comes late answers the next question.
  Launcher last(served, 2, 3);
  EXPECT_EQ(nodes_of(first.states.of_others()), (std::vector<int>{1, 2}));
  EXPECT_EQ(nodes_of(last.states.of_others()), (std::vector<int>{0, 1}));
}

}  // namespace
}  // namespace unisono::testing

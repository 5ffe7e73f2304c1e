#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <future>
#include <thread>

#include "messages.h"
#include "unisono/error.h"

// Ranks that die, stop, leave or fork. A rank whose peer is lost gets an exception that names it, soon, and its destructor comes back.

namespace unisono::testing {
namespace {

/// Sends to and receives from all other ranks without end. What stops a rank is an exception of its engine.
/// `lost` is called before the transfers are dropped, which ends this rank's connections.
std::string exchange_for_ever(Engine& engine, int rank, int ranks, std::size_t bytes, const Processes::Tell& tell,
                              const std::function<void()>& lost = {}) {
  std::vector<std::vector<std::uint8_t>> in(static_cast<std::size_t>(ranks), std::vector<std::uint8_t>(bytes));
  const auto out = pattern(bytes, static_cast<std::uint32_t>(rank));
  std::vector<std::unique_ptr<Task>> tasks;
  try {
    for (int i = 0;; ++i) {
      tasks.clear();
      for (int r = 0; r < ranks; ++r) {
        if (r == rank) continue;
        tasks.push_back(engine.start_recv(in[static_cast<std::size_t>(r)].data(), bytes, r, 0));
        tasks.push_back(engine.start_send(out.data(), bytes, r, 0));
      }
      // All of them in turn: a rank that waited for one peer alone would not hear that another is lost.
      while (!tasks.empty()) std::erase_if(tasks, [](const auto& task) { return task->advance(); });
      if (i == 3) tell("busy");
    }
  } catch (const PeerFailed& error) {
    if (lost) lost();
    return "culprit " + std::to_string(error.culprit().value_or(-1)) + ": " + error.what();
  }
}

/// How the two survivors of three ranks end when rank 1 is killed. UCX alone looks after rank 1 here: what the group's watch would do where UCX says
/// nothing, this does after `patience`, in other words than UCX's.
std::vector<std::string> ends_of_survivors(std::size_t bytes, std::chrono::seconds patience) {
  Processes processes(3, [bytes](int rank, const std::shared_ptr<Store>& store, const Processes::Tell& tell) -> std::string {
    const auto engine = make_engine(rank, 3, store);
    const std::jthread watch([&] {
      store->get("nobody waits any more");
      engine->abort({.culprit = 1, .message = "ucx has said nothing"});
    });
    // The other survivor may not know yet: it must see its own loss before this rank goes.
    return exchange_for_ever(*engine, rank, 3, bytes, tell, [&] {
      tell("lost");
      store->get("all");
    });
  });
  for (int r = 0; r < 3; ++r) EXPECT_EQ(processes.line(r), "busy");
  processes.signal(1, SIGKILL);
  EXPECT_EQ(processes.end_of(1), "signal 9");  // and its process is gone: for UCX's shared memory a zombie lives
  for (const int r : {0, 2}) {
    if (processes.line(r, patience) == "lost") continue;
    processes.set("nobody waits any more");
    EXPECT_EQ(processes.line(r), "lost") << r;
  }
  processes.set("all");
  processes.set("nobody waits any more");
  return {processes.end_of(0), processes.end_of(2)};
}

bool was_said_by_ucx(const std::string& end) { return end.starts_with("returned: culprit 1: ucx's connection with rank 1 broke: "); }

class Killed : public ::testing::TestWithParam<std::size_t> {};

// UCX does not notice every death: some in the middle of a large message, and over TCP now and then one between two small ones, which leave the rank
// waiting until the group's watch ends it. That UCX notices most of them is what its mode of error handling is asked for.
TEST_P(Killed, RankIsNamedByUcxToTheOthers) {
  int said = 0, survivors = 0;
  for (int round = 0; round < 3; ++round) {
    for (const std::string& end : ends_of_survivors(GetParam(), std::chrono::seconds(10))) {
      EXPECT_TRUE(was_said_by_ucx(end) || end.starts_with("returned: culprit 1: ucx has said nothing")) << end;
      said += was_said_by_ucx(end) ? 1 : 0;
      ++survivors;
    }
  }
  const bool is_large = GetParam() > 1'000'000;
  EXPECT_GE(said, is_large ? 1 : survivors / 2) << "of " << survivors;
}
INSTANTIATE_TEST_SUITE_P(Ucx, Killed, ::testing::Values(std::size_t{8}, std::size_t{50'000}, std::size_t{8} << 20));

// No transfer fails here: nothing but UCX's notice of the lost peer can end the wait.
TEST(KilledSilently, RankIsNamedByUcxToThoseThatOnlyReceive) {
  Processes processes(3, [](int rank, const std::shared_ptr<Store>& store, const Processes::Tell& tell) -> std::string {
    const auto engine = make_engine(rank, 3, store);
    const std::jthread watch([&] {
      store->get("nobody waits any more");
      engine->abort({.culprit = 1, .message = "ucx has said nothing"});
    });
    tell("busy");
    if (rank == 1) store->get("never");
    try {
      receive_bytes(*engine, 8, 1);
    } catch (const PeerFailed& error) {
      tell("lost");
      return "culprit " + std::to_string(error.culprit().value_or(-1)) + ": " + error.what();
    }
    return "received";
  });
  for (int r = 0; r < 3; ++r) ASSERT_EQ(processes.line(r), "busy");
  processes.signal(1, SIGKILL);
  EXPECT_EQ(processes.end_of(1), "signal 9");
  for (const int r : {0, 2}) {
    EXPECT_EQ(processes.line(r, std::chrono::seconds(20)), "lost");
  }
  processes.set("nobody waits any more");
  for (const int r : {0, 2}) {
    const std::string end = processes.end_of(r);
    EXPECT_TRUE(was_said_by_ucx(end)) << end;
  }
}

// The group's watch does this from outside when it finds a peer silent. UCX itself sees nothing: the peer's connections are open.
TEST(Stopped, PeerIsEndedByAbort) {
  for (const std::size_t bytes : {std::size_t{8}, std::size_t{8} << 20}) {
    Processes processes(2, [bytes](int rank, const std::shared_ptr<Store>& store, const Processes::Tell& tell) -> std::string {
      const auto engine = make_engine(rank, 2, store);
      std::thread watch([&] {
        if (rank != 0) return;
        store->get("stopped");
        engine->abort({.culprit = 1, .message = "rank 1 is silent"});
      });
      std::string end = exchange_for_ever(*engine, rank, 2, bytes, tell);
      watch.join();
      return end;
    });
    for (int r = 0; r < 2; ++r) ASSERT_EQ(processes.line(r), "busy");
    processes.signal(1, SIGSTOP);
    processes.set("stopped");
    const std::string end = processes.end_of(0);
    EXPECT_NE(end.find("rank 1 is silent"), std::string::npos) << end;
    processes.signal(1, SIGCONT);
    EXPECT_TRUE(processes.end_of(1).starts_with("returned: culprit 0")) << "rank 1";
  }
}

// A rank that is done with its last call goes at once; what it has sent still arrives, even where the receiver comes long after it has gone.
TEST(Leaving, LeavingEarlyTakesNothingAway) {
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{8}, std::size_t{5'000}}) {
    Processes processes(3, [bytes](int rank, const std::shared_ptr<Store>& store, const Processes::Tell&) -> std::string {
      const auto engine = make_engine(rank, 3, store);
      if (rank == 0) {
        for (const int to : {1, 2}) send_bytes(*engine, pattern(bytes, 7), to);
        engine->leave();
        return "left";
      }
      store->get("rank 0 has ended");
      const bool is_right = receive_bytes(*engine, bytes, 0) == pattern(bytes, 7);
      // The two that are left go on.
      const auto own = pattern(std::size_t{1} << 20, static_cast<std::uint32_t>(rank));
      const auto sending = engine->start_send(own.data(), own.size(), 3 - rank, 0);
      const bool is_right_too = receive_bytes(*engine, own.size(), 3 - rank) == pattern(own.size(), static_cast<std::uint32_t>(3 - rank));
      finish(*sending);
      engine->leave();
      return is_right && is_right_too ? "right" : "wrong";
    });
    EXPECT_EQ(processes.end_of(0), "returned: left");
    processes.set("rank 0 has ended");
    for (const int r : {1, 2}) EXPECT_EQ(processes.end_of(r), "returned: right") << bytes;
  }
}

TEST(Leaving, LeavingAtOnceDisturbsNobody) {
  for (int round = 0; round < 5; ++round) {
    Processes processes(4, [](int rank, const std::shared_ptr<Store>& store, const Processes::Tell&) -> std::string {
      const auto engine = make_engine(rank, 4, store);
      constexpr std::size_t bytes = 300'000;
      const auto own = pattern(bytes, static_cast<std::uint32_t>(rank));
      const auto sending = engine->start_send(own.data(), bytes, (rank + 1) % 4, 0);
      const int from = (rank + 3) % 4;
      const bool is_right = receive_bytes(*engine, bytes, from) == pattern(bytes, static_cast<std::uint32_t>(from));
      finish(*sending);
      engine->leave();
      return is_right ? "right" : "wrong";
    });
    for (int r = 0; r < 4; ++r) EXPECT_EQ(processes.end_of(r), "returned: right");
  }
}

// A child has neither UCX's threads nor a right to its parent's connections.
TEST(Fork, AForkLeavesTheParentsConnectionsAlone) {
  Processes processes(2, [](int rank, const std::shared_ptr<Store>& store, const Processes::Tell& tell) -> std::string {
    auto engine = make_engine(rank, 2, store);
    const auto exchange = [&](std::uint32_t seed) {
      const auto own = pattern(std::size_t{1} << 20, seed);
      const auto sending = engine->start_send(own.data(), own.size(), 1 - rank, 0);
      if (receive_bytes(*engine, own.size(), 1 - rank) != own) throw std::runtime_error("wrong");
      finish(*sending);
    };
    exchange(1);
    const pid_t child = ::fork();
    if (child == 0) {
      std::string refusal = "none";
      try {
        make_engine(0, 2, std::make_shared<MemoryStore>());
      } catch (const BackendUnavailable& error) {
        refusal = error.what();
      }
      engine->leave();
      engine.reset();
      ::_exit(refusal.find("was forked from process") != std::string::npos ? 42 : 1);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 42) tell("the child ended otherwise");
    exchange(2);
    engine->leave();
    return "right";
  });
  for (int r = 0; r < 2; ++r) EXPECT_EQ(processes.end_of(r), "returned: right");
}

}  // namespace
}  // namespace unisono::testing

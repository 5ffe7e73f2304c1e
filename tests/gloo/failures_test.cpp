#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <future>
#include <thread>

#include "engine_ranks.h"

// A rank whose connections end must not end as a process: it gets an exception, soon, and its destructor comes back.

namespace unisono::testing {
namespace {

CollectiveCall sum_of(std::vector<float>& values) {
  CollectiveCall call;
  call.operation = Operation::all_reduce;
  call.in = call.out = {values.data(), DType::float32, values.size()};
  call.count = values.size();
  return call;
}

constexpr std::size_t large = std::size_t{4} << 20;  // elements: more than the sockets hold

/// Calls without end. What stops a rank is an exception of its engine.
Processes::Body reduces_for_ever(int ranks, std::size_t count, const std::function<void(const Processes::Tell&)>& first = {}) {
  return [ranks, count, first](int rank, const std::shared_ptr<Store>& store, const Processes::Tell& tell) -> std::string {
    ::signal(SIGPIPE, SIG_DFL);
    std::string end;
    {
      const auto engine = make_engine(rank, ranks, store);
      std::vector<float> values(count, 1.0F);
      if (first) first(tell);
      try {
        for (int i = 0;; ++i) {
          engine->run(sum_of(values));
          if (i == 3) tell("busy");
        }
      } catch (const std::exception& error) {
        end = error.what();
      }
      try {  // it is over, and says so
        engine->run(sum_of(values));
        return "a call after the end went through";
      } catch (const std::exception&) {
      }
    }
    return end;
  };
}

void expect_ended_by_exception(Processes& processes, int rank) {
  const std::string end = processes.end_of(rank);
  EXPECT_TRUE(end.starts_with("returned: gloo")) << "rank " << rank << ": " << end;
}

class Killed : public ::testing::TestWithParam<std::size_t> {};

// The neighbours see it on their connections, the others through them.
TEST_P(Killed, RankIsAnExceptionForTheOthers) {
  for (int round = 0; round < 5; ++round) {
    Processes processes(4, reduces_for_ever(4, GetParam()));
    for (int r = 0; r < 4; ++r) ASSERT_EQ(processes.line(r), "busy");
    processes.signal(2, SIGKILL);
    for (const int r : {0, 1, 3}) expect_ended_by_exception(processes, r);
  }
}

INSTANTIATE_TEST_SUITE_P(Gloo, Killed, ::testing::Values(std::size_t{2}, std::size_t{50'000}, large));

std::vector<int> own_tcp_sockets() {
  std::vector<int> found;
  for (int fd = 0; fd < 256; ++fd) {
    int protocol = 0;
    socklen_t size = sizeof protocol;
    if (::getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &size) == 0 && protocol == IPPROTO_TCP) found.push_back(fd);
  }
  return found;
}

int local_port(int fd) {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  return ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0 ? ntohs(address.sin_port) : 0;
}

bool destroy_sockets_of(int port) {
  const std::string command =
      std::string("ss -K state established sport = :").append(std::to_string(port)).append(" 2>/dev/null | grep -q ").append(std::to_string(port));
  return std::system(command.c_str()) == 0;
}

class Reset : public ::testing::TestWithParam<std::size_t> {};

// The kernel ends a connection: ECONNABORTED on the one side, a reset on the other.
TEST_P(Reset, ConnectionIsAnExceptionOnBothSides) {
  if (std::system("ss -K state established sport = :1 > /dev/null 2>&1") != 0)
    GTEST_SKIP() << "no ss that can end connections (package iproute2, root)";
  for (int round = 0; round < 10; ++round) {
    Processes processes(3, reduces_for_ever(3, GetParam(), [](const Processes::Tell& tell) {
                          for (const int fd : own_tcp_sockets()) tell(std::to_string(local_port(fd)));
                          tell("all");
                        }));
    std::vector<int> ports;
    for (std::string line = processes.line(0); line != "all"; line = processes.line(0)) {
      ASSERT_NE(line, "");
      ports.push_back(std::stoi(line));
    }
    ASSERT_EQ(ports.size(), 2U);
    for (int r = 0; r < 3; ++r) {
      std::string line = processes.line(r);
      while (line != "busy" && !line.empty()) line = processes.line(r);
      ASSERT_EQ(line, "busy");
    }
    ASSERT_TRUE(destroy_sockets_of(ports[static_cast<std::size_t>(round) % 2]));
    for (int r = 0; r < 3; ++r) expect_ended_by_exception(processes, r);
  }
}

INSTANTIATE_TEST_SUITE_P(Gloo, Reset, ::testing::Values(std::size_t{2}, std::size_t{50'000}, large));

// The group's watch does this from outside when it finds a peer silent.
TEST(Stopped, PeerIsEndedByAbort) {
  Processes processes(2, [](int rank, const std::shared_ptr<Store>& store, const Processes::Tell& tell) -> std::string {
    const auto engine = make_engine(rank, 2, store);
    std::vector<float> values(large, 1.0F);
    std::promise<void> stopped;
    std::thread watch([&, seen = stopped.get_future()] {
      seen.wait();
      engine->abort({});
    });
    std::string end = "all calls went through";
    try {
      for (int i = 0;; ++i) {
        engine->run(sum_of(values));
        if (i == 3) tell("busy");
        if (i == 3 && rank == 0) {
          store->get("stopped");
          stopped.set_value();
        }
      }
    } catch (const std::exception& error) {
      end = error.what();
    }
    if (rank != 0) stopped.set_value();
    watch.join();
    return end;
  });
  for (int r = 0; r < 2; ++r) ASSERT_EQ(processes.line(r), "busy");
  processes.signal(1, SIGSTOP);
  processes.set("stopped");
  expect_ended_by_exception(processes, 0);
  processes.signal(1, SIGCONT);
  expect_ended_by_exception(processes, 1);
}

/// Rank 0 calls, the others do not.
TEST(Abort, AnAbortEndsACallThatWaits) {
  for (const std::size_t count : {std::size_t{1}, large}) {
    for (const Operation operation : {Operation::all_reduce, Operation::all_gather, Operation::barrier, Operation::broadcast}) {
      std::promise<void> aborted;
      const std::shared_future<void> after = aborted.get_future().share();
      with_engines(3, [&](Engine& engine, int rank) {
        if (rank != 0) return after.wait();
        std::vector<float> in(count), out(3 * count);
        CollectiveCall call = sum_of(in);
        call.operation = operation;
        call.root = operation == Operation::broadcast ? 1 : -1;
        if (operation == Operation::all_gather) call.out = {out.data(), DType::float32, out.size()};
        std::thread other([&] { engine.abort({}); });
        EXPECT_THROW(engine.run(call), std::exception) << to_string(operation);
        other.join();
        EXPECT_THROW(engine.run(call), std::exception) << to_string(operation);
        engine.abort({});
        aborted.set_value();
      });
    }
  }
}

// A callable that throws: that exception here, and the others are not left waiting.
TEST(Callable, ACallableThatThrowsEndsTheCallEverywhere) {
  with_engines(3, [](Engine& engine, int rank) {
    std::vector<float> values(100'000, 1.0F);
    CollectiveCall call = sum_of(values);
    call.custom = Reduction<float>([rank](float a, float b) -> float { return rank == 1 ? throw std::domain_error("not today") : a + b; }).custom();
    if (rank == 1) {
      EXPECT_THROW(engine.run(call), std::domain_error);
    } else {
      EXPECT_THROW(engine.run(call), std::exception);
    }
  });
}

// A rank that is done with its last call goes at once; the data that it has sent still arrives.
TEST(Leaving, ARankThatLeavesEarlyDisturbsNobody) {
  for (int round = 0; round < 10; ++round) {
    Processes processes(4, [round](int rank, const std::shared_ptr<Store>& store, const Processes::Tell&) -> std::string {
      const auto engine = make_engine(rank, 4, store);
      std::vector<float> values(large, static_cast<float>(rank));
      CollectiveCall call;
      call.operation = Operation::broadcast;
      call.root = round % 4;
      call.in = {values.data(), DType::float32, rank == call.root ? values.size() : 0};
      call.out = {values.data(), DType::float32, rank == call.root ? 0 : values.size()};
      call.count = values.size();
      engine->run(sum_of(values));
      engine->run(call);
      engine->leave();
      return values[0] == 6.0F && values.back() == 6.0F ? "6" : "wrong";
    });
    for (int r = 0; r < 4; ++r) EXPECT_EQ(processes.end_of(r), "returned: 6");
  }
}

// A child that a rank starts must not keep its connections open: they would outlive it.
TEST(Connections, ConnectionsAreNotInherited) {
  with_engines(3, [](Engine&, int) {
    for (const int fd : own_tcp_sockets()) EXPECT_NE(::fcntl(fd, F_GETFD) & FD_CLOEXEC, 0) << fd;
  });
}

}  // namespace
}  // namespace unisono::testing

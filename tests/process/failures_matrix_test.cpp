// Every way in which a job can go wrong, one after the other: each is an error of a kind of its own on every rank, which names whose fault it is.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <memory>
#include <stdexcept>

#include "../unit/rendezvous/testing.h"
#include "covers.h"
#include "running_command.h"
#include "spawn_ranks.h"
#include "unisono/unisono.h"

namespace unisono::testing {
namespace {

using namespace std::chrono_literals;

/// A rank's error: its kind, and the rank that it blames.
std::string seen(const std::function<void()>& call) {
  const auto said = [](const char* kind, const Error& error) { return fmt::format("{} {}", kind, error.culprit().value_or(-1)); };
  try {
    call();
  } catch (const Mismatch& error) {
    return said("Mismatch", error);
  } catch (const Timeout& error) {
    return fmt::format("Timeout {}", error.missing().empty() ? -1 : error.missing().front());
  } catch (const PeerFailed& error) {
    return said("PeerFailed", error);
  } catch (const InvalidArgument& error) {
    return said("InvalidArgument", error);
  } catch (const std::exception& error) {
    return error.what();
  }
  return "nothing";
}

using Seen = std::vector<std::string>;

/// Three ranks, of which the last one does something else; afterwards the world is as good as before.
void expect_mismatch(const std::string& what, const std::function<void(bool odd)>& call) {
  const auto all = spawn(ranks(3), [&call] {
    std::string said = seen([&] { call(rank() == 2); });
    return all_reduce(1) == 3 ? said : said + ", and the world is broken";
  });
  EXPECT_EQ(all, Seen(3, "Mismatch 2")) << what;
}

TEST(FailuresMatrix, ACallThatIsAnotherOneOnOneRank) {
  COVERS("W-09");
  expect_mismatch("order", [](bool odd) {
    std::vector<float> x(4, 1.0F);
    odd ? broadcast(x) : all_reduce(x);
  });
  expect_mismatch("size", [](bool odd) {
    std::vector<float> x(odd ? 5 : 4, 1.0F);
    all_reduce(x);
  });
  expect_mismatch("dtype", [](bool odd) {
    std::vector<float> x(4, 1.0F);
    std::vector<int> y(4, 1);
    odd ? all_reduce(y) : all_reduce(x);
  });
  expect_mismatch("root", [](bool odd) {
    std::vector<float> x(4, 1.0F);
    broadcast(x, odd ? 1 : 0);
  });
}

// Each rank is told the others, who has that rank already, and which port is taken.
TEST(FailuresMatrix, ARankThatIsMissingOrThereTwiceAndAPortInUse) {
  COVERS("W-09");
  const auto meet = [](const std::string& url, int rank, int size, std::chrono::milliseconds timeout) {
    return seen([&] { initialize({.init_method = url, .rank = rank, .world_size = size, .timeout = timeout}); });
  };
  EXPECT_EQ(meet(fmt::format("tcp://127.0.0.1:{}", free_port()), 0, 2, 300ms), "Timeout 1");
  EXPECT_FALSE(is_initialized());

  // Two processes say that they are rank 0: one is refused, and the other one waits in vain for rank 1.
  const auto store = std::make_shared<MemoryStore>();
  const auto twice = rendezvous::together(2, [&](int) { return rendezvous::attempt({.rank = 0, .world_size = 2, .timeout = 1s, .store = store}); });
  std::string all;
  for (const auto& outcome : twice) {
    all += seen([&] { static_cast<void>(outcome.get()); }) + "\n";
  }
  EXPECT_TRUE(all == "Timeout 1\nInvalidArgument -1\n" || all == "InvalidArgument -1\nTimeout 1\n") << all;

  const TcpStore holder("127.0.0.1", 0, {.is_server = true});
  EXPECT_EQ(meet(fmt::format("tcp://127.0.0.1:{}", holder.port()), 0, 2, 5s), "InvalidArgument -1");
}

// In the middle of a collective, by a signal and by an exception: the survivors name the rank, and so does the parent.
TEST(FailuresMatrix, ARankThatIsKilledOrThrows) {
  COVERS("W-09");
  for (const bool killed : {true, false}) {
    try {
      spawn(ranks(3), [killed] {
        std::vector<double> x(100'000, 1.0);
        all_reduce(x);
        if (rank() == 1) {
          if (killed) ::raise(SIGKILL);
          throw std::logic_error("no more");
        }
        for (;;) all_reduce(x);
      });
      ADD_FAILURE() << "nothing was thrown";
    } catch (const LaunchFailed& error) {
      EXPECT_EQ(error.culprit(), 1) << error.what();
      EXPECT_NE(error.message().find(killed ? "SIGKILL" : "std::logic_error: no more"), std::string::npos) << error.what();
      for (const int survivor : {0, 2}) {
        const ProcessEnd& end = error.ends().at(static_cast<std::size_t>(survivor));
        EXPECT_EQ(end.error_type, "PeerFailed");
        EXPECT_NE(end.message.find("rank 1"), std::string::npos) << end.message;
      }
    }
  }
}

// A rank that knows nothing of the failure, and one that does not listen to SIGTERM either, end all the same, and spawn comes back.
TEST(FailuresMatrix, SiblingsThatAreNotInACallAreEnded) {
  COVERS("I-20");
  try {
    spawn(ranks(3), [] {
      if (rank() == 0) ::signal(SIGTERM, SIG_IGN);
      barrier();
      if (rank() == 1) ::raise(SIGKILL);
      for (;;) ::pause();
    });
    ADD_FAILURE() << "nothing was thrown";
  } catch (const LaunchFailed& error) {
    EXPECT_EQ(error.culprit(), 1) << error.what();
    EXPECT_EQ(error.ends().at(1).signal, "SIGKILL");
    EXPECT_EQ(error.ends().at(0).signal, "SIGKILL");
    EXPECT_EQ(error.ends().at(2).signal, "SIGTERM");
    for (const int r : {0, 2}) EXPECT_TRUE(error.ends().at(static_cast<std::size_t>(r)).is_consequence) << error.what();
  }
}

}  // namespace
}  // namespace unisono::testing

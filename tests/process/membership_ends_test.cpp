// The end of a part in a group, and what it leaves to the others.
#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "free_port.h"
#include "running_command.h"
#include "spawn_ranks.h"
#include "unisono/unisono.h"

namespace unisono::testing {
namespace {

/// The text that rank 1 hears of how rank 0 has ended its part.
std::string heard_of(const std::function<void(std::unique_ptr<Membership>)>& end) {
  const TemporaryFolder folder;
  const auto results = spawn(ranks(2), [path = folder.path() + "/store", &end] {
    std::string heard = "nothing";
    {
      auto both = std::make_unique<Membership>(
          MembershipOptions{.store = std::make_shared<FileStore>(path), .rank = rank(), .size = 2, .timeout = std::chrono::seconds(20)});
      try {
        if (rank() == 0) end(std::move(both));
        else static_cast<void>(all_reduce(1, ReduceOp::sum, both->group()));
      } catch (const Error& error) {
        heard = error.message();
      }
    }
    barrier();  // of the context: until then rank 0 is there
    return heard;
  });
  EXPECT_EQ(results[0], "nothing");
  return results[1];
}

TEST(Membership, TheOthersHearThatOneHasLeft) {
  const std::string left = "rank 0 has left the group (finalize) and will not come";
  EXPECT_EQ(heard_of([](auto part) { part->leave(); }), left);
  EXPECT_EQ(heard_of([](auto part) { part.reset(); }), left);
  EXPECT_EQ(heard_of([](auto part) { part->abandon(); }), left);
  const auto by_an_exception = heard_of([](auto part) {
    try {
      const auto inside = std::move(part);
      throw std::runtime_error("no more");
    } catch (const std::runtime_error&) {
    }
  });
  EXPECT_EQ(by_an_exception, "rank 0 gave up: an exception left the scope of its group");
}

TEST(Membership, AMemberThatLeavesWaitsForWhatIsUnderWay) {
  for (const bool by_its_end : {false, true}) {
    const TemporaryFolder folder;
    const auto last = spawn(ranks(2), [path = folder.path() + "/store", by_its_end] {
      std::vector<int> numbers(std::size_t{1} << 20, rank() == 0 ? 7 : 0);  // more than is on its way at a time
      {
        Membership both({.store = std::make_shared<FileStore>(path), .rank = rank(), .size = 2});
        if (rank() == 1) {
          recv(numbers, 0, both.group());
        } else {
          static_cast<void>(isend(numbers, 1, both.group()));
          if (!by_its_end) both.leave();
        }
      }
      return numbers.back();
    });
    EXPECT_EQ(last, (std::vector{7, 7})) << by_its_end;
  }
}

/// The exit code of a forked child.
int status_of_child(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(Membership, AForkedChildHasNoPartInIt) {
  std::optional<Membership> one(std::in_place, MembershipOptions{.store = std::make_shared<MemoryStore>()});
  const auto has_ranks = [] {
    try {
      run_threads(1, [] {});
    } catch (const NotInitialized&) {
      return 0;
    }
    return 1;
  };
  EXPECT_EQ(status_of_child(has_ranks), 0);
  one.reset();
  EXPECT_EQ(status_of_child(has_ranks), 1);
  const TemporaryFolder folder;
  const auto sums = spawn(ranks(2), [path = folder.path() + "/store"] {
    auto both = std::make_unique<Membership>(MembershipOptions{.store = std::make_shared<FileStore>(path), .rank = rank(), .size = 2});
    const int ended = status_of_child([&] {
      both.reset();  // the parent's goes on
      return 5;
    });
    return std::pair(ended, all_reduce(1, ReduceOp::sum, both->group()));
  });
  EXPECT_EQ(sums, std::vector(2, std::pair(5, 2)));
}

// The process that serves the job's store may be done first; groups are formed through it as long as others are there.
TEST(ServedStore, AServedStoreStaysUntilTheOthersAreDone) {
  SpawnOptions options = ranks(3);
  options.init_method = "tcp://127.0.0.1:" + std::to_string(free_port());
  const auto sums = spawn(options, [] {
    if (rank() == 0) return 0;
    std::vector<int> nothing(1);
    EXPECT_THROW(recv(nothing, 0), PeerFailed);  // it has left the world
    int sum = 0;
    for (int i = 0; i < 20; ++i) sum += all_reduce(rank(), ReduceOp::sum, *new_group({1, 2}));
    return sum;
  });
  EXPECT_EQ(sums, (std::vector{0, 60, 60}));
}

}  // namespace
}  // namespace unisono::testing

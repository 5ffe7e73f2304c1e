// file://
#include "covers.h"
#include "testing.h"

namespace unisono::rendezvous {
namespace {

TEST(FileMeeting, RanksMeetWithRanksGiven) {
  COVERS("T-44");
  const TemporaryFolder folder;
  const std::string url = "file://" + folder.file("meet");
  {
    const auto outcomes = together(3, [&](int rank) { return attempt({.init_method = url, .rank = rank, .world_size = 3}); });
    expect_a_job(outcomes, 3);
    for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(outcomes[static_cast<std::size_t>(rank)].get().rank, rank);
    EXPECT_TRUE(std::filesystem::exists(folder.file("meet")));
  }
  EXPECT_FALSE(std::filesystem::exists(folder.file("meet")));  // the last one removed it
}

TEST(FileMeeting, TheMeetingDoesNotFollowALink) {
  const TemporaryFolder folder;
  std::filesystem::create_symlink(folder.file("target"), folder.file("meet"));
  const Outcome outcome = attempt({.init_method = "file://" + folder.file("meet"), .rank = 0, .world_size = 1});
  EXPECT_NE(outcome.text<InvalidArgument>().find("symbolic link"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(folder.file("target")));
}

TEST(FileMeeting, RanksAreAssignedAroundThoseGiven) {
  COVERS("T-07", "T-44");
  const TemporaryFolder folder;
  const std::string url = "file://" + folder.file("meet");
  const auto outcomes = together(5, [&](int i) {
    JobRequest request{.init_method = url, .world_size = 5};
    if (i == 0) request.rank = 2;
    if (i == 1) request.rank = 0;
    return attempt(request);
  });
  expect_a_job(outcomes, 5);
  EXPECT_EQ(outcomes[0].get().rank, 2);
  EXPECT_EQ(outcomes[1].get().rank, 0);
}

TEST(FileMeeting, SeveralJobsShareAFile) {
  COVERS("T-08");
  const TemporaryFolder folder;
  const std::string url = "file://" + folder.file("meet");
  const auto outcomes =
      together(4, [&](int i) { return attempt({.init_method = url, .rank = i % 2, .world_size = 2, .group_name = i < 2 ? "left" : "right"}); });
  expect_a_job({outcomes[0], outcomes[1]}, 2);
  outcomes[2].get().store->set("only right", "1");
  EXPECT_EQ(outcomes[3].get().store->get("only right"), "1");
  EXPECT_EQ(outcomes[0].get().store->try_get("only right"), std::nullopt);
}

TEST(FileMeeting, JobAfterJobMeetsInOneFile) {
  const TemporaryFolder folder;
  const std::string url = "file://" + folder.file("meet");
  std::vector<std::jthread> ranks;
  for (int rank = 0; rank < 3; ++rank) {
    ranks.push_back(in_background([&, rank] {
      for (int round = 0; round < 8; ++round) {
        const JobIdentity identity = meet({.init_method = url, .rank = rank, .world_size = 3, .timeout = 60s}, Environment());
        identity.store->set(fmt::format("{}", rank), fmt::format("{} {}", round, rank));
        for (int other = 0; other < 3; ++other) EXPECT_EQ(identity.store->get(fmt::format("{}", other), 60s), fmt::format("{} {}", round, other));
        identity.leave(std::chrono::seconds(1));
      }
    }));
  }
  for (auto& rank : ranks) rank.join();
  EXPECT_FALSE(std::filesystem::exists(folder.file("meet")));
}

// A job of another name does not wait until the first one is done, nor does it take its file away.
TEST(FileMeeting, AJobOfAnotherNameEndsFirst) {
  COVERS("T-08", "T-44");
  const TemporaryFolder folder;
  const std::string url = "file://" + folder.file("meet");
  const auto of = [&](const std::string& group, int rank) {
    return attempt({.init_method = url, .rank = rank, .world_size = 2, .group_name = group});
  };
  const auto patient = together(2, [&](int rank) { return of("left", rank); });
  {
    const auto quick = together(2, [&](int rank) { return of("right", rank); });
    expect_a_job(quick, 2);
  }
  EXPECT_TRUE(std::filesystem::exists(folder.file("meet")));
  expect_a_job(patient, 2);
}

// Automatic ranks go in the order of arrival, around those that were given.
TEST(FileMeeting, AutomaticRanksFollowTheOrderOfArrival) {
  COVERS("T-07", "T-44");
  const TemporaryFolder folder;
  const std::string path = folder.file("meet");
  std::vector<Outcome> outcomes(4);
  const auto come = [&](std::size_t i, std::optional<int> rank) {
    return in_background([&outcomes, &path, i, rank] { outcomes[i] = attempt({.init_method = "file://" + path, .rank = rank, .world_size = 4}); });
  };
  {
    auto given = come(0, 1);
    FileStore look(path);
    look.get("unisono/rendezvous//1/rank/1", 20s);
    auto first = come(1, std::nullopt);
    look.get("unisono/rendezvous//1/auto/0", 20s);
    auto second = come(2, std::nullopt);
    look.get("unisono/rendezvous//1/auto/1", 20s);
    auto third = come(3, std::nullopt);
  }
  expect_a_job(outcomes, 4);
  for (const auto& [i, rank] : {std::pair{0U, 1}, {1U, 0}, {2U, 2}, {3U, 3}}) EXPECT_EQ(outcomes[i].get().rank, rank) << i;
}

// R2: one too many, and a rank that two have.
TEST(FileMeeting, ARankThatIsOneTooManyIsRefused) {
  COVERS("T-07");
  const TemporaryFolder folder;
  const std::string url = "file://" + folder.file("meet");
  const auto outcomes = together(2, [&](int rank) { return attempt({.init_method = url, .rank = rank, .world_size = 2}); });
  expect_a_job(outcomes, 2);
  EXPECT_CONTAINS(attempt({.init_method = url, .rank = 1, .world_size = 2, .timeout = 20s}).text<InvalidArgument>(), "rank 1 is taken");
  EXPECT_CONTAINS(attempt({.init_method = url, .world_size = 2, .timeout = 20s}).text<InvalidArgument>(), "one too many");
  expect_a_job(outcomes, 2);
}

TEST(FileMeeting, TheEnvironmentMaySayRankAndSize) {
  const TemporaryFolder folder;
  const auto outcomes = together(3, [&](int i) {
    return attempt({.init_method = "file://" + folder.file("meet")}, Environment(Variables{{"RANK", std::to_string(2 - i)}, {"WORLD_SIZE", "3"}}));
  });
  expect_a_job(outcomes, 3);
  EXPECT_EQ(outcomes[0].get().rank, 2);
}

TEST(FileMeeting, ProblemsAreNamed) {
  EXPECT_CONTAINS(attempt({.init_method = "file:///no such folder/x", .rank = 0, .world_size = 1}).text<InvalidArgument>(), "/no such folder/x");
  EXPECT_CONTAINS(attempt({.init_method = "file:///tmp/x", .rank = 0}).text<InvalidArgument>(), "world_size is not given");
  const TemporaryFolder folder;
  const std::string url = "file://" + folder.file("meet");
  const std::string text = attempt({.init_method = url, .rank = 1, .world_size = 3, .timeout = 100ms}).text<Timeout>();
  EXPECT_CONTAINS(text, "missing ranks 0, 2");
  EXPECT_FALSE(std::filesystem::exists(folder.file("meet")));
  const auto outcomes = together(2, [&](int i) { return attempt({.init_method = url, .rank = i, .world_size = 2 + i, .timeout = 60s}); });
  for (const Outcome& outcome : outcomes) EXPECT_CONTAINS(outcome.text<Mismatch>(), "says 3");
}

/// Runs `body` in a child that ends without cleaning anything up, as a crash would.
void crash_after(const std::function<void()>& body) {
  const pid_t pid = ::fork();
  ASSERT_GE(pid, 0);
  if (pid == 0) {
    try {
      body();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "child: %s\n", error.what());
    }
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(pid, &status, 0), pid);
}

TEST(FileMeeting, WhatACrashedRunLeftBehindDoesNotPoisonTheNext) {
  COVERS("K-16");
  const TemporaryFolder folder;
  const std::string path = folder.file("meet");
  const std::string url = "file://" + path;
  // A whole job that crashed after it met; with other sizes than the next one.
  crash_after([&] {
    const auto outcomes = together(4, [&](int rank) { return attempt({.init_method = url, .rank = rank, .world_size = 4}); });
    for (const Outcome& outcome : outcomes) outcome.get().store->set("key", "stale");
    ::_exit(0);
  });
  ASSERT_TRUE(std::filesystem::exists(path));
  {
    const auto outcomes = together(3, [&](int rank) { return attempt({.init_method = url, .rank = rank, .world_size = 3}); });
    expect_a_job(outcomes, 3);
    EXPECT_EQ(outcomes[0].get().store->try_get("key"), std::nullopt);
  }
  EXPECT_FALSE(std::filesystem::exists(path));
  // A job that crashed while it waited for the others: seats taken, no decision.
  for (const bool automatic : {false, true}) {
    const auto request = [&](int rank, int world_size) {
      JobRequest made{.init_method = url, .world_size = world_size};
      if (!automatic) made.rank = rank;
      return made;
    };
    crash_after([&] {
      std::thread([&] { attempt(request(1, 3)); }).detach();
      FileStore look(path);
      look.get("unisono/rendezvous//1/joined", 20s);
      ::_exit(0);
    });
    ASSERT_TRUE(std::filesystem::exists(path));
    const auto outcomes = together(2, [&](int rank) { return attempt(request(rank, 2)); });
    expect_a_job(outcomes, 2);
  }
}

TEST(FileMeeting, ARankThatCrashedWhileWaitingCanBeStartedAgain) {
  COVERS("K-16");
  for (const bool automatic : {false, true}) {
    const TemporaryFolder folder;
    const std::string path = folder.file("meet");
    const auto request = [&](int rank) {
      JobRequest made{.init_method = "file://" + path, .world_size = 3, .timeout = 60s};
      if (!automatic) made.rank = rank;
      return made;
    };
    std::vector<Outcome> outcomes(3);
    auto patient = in_background([&] { outcomes[0] = attempt(request(0)); });
    {
      FileStore look(path);
      look.get("unisono/rendezvous//1/joined", 20s);
    }
    crash_after([&] {
      std::thread([&] { attempt(request(1)); }).detach();
      FileStore look(path);
      look.get(automatic ? "unisono/rendezvous//1/auto/1" : "unisono/rendezvous//1/rank/1", 20s);
      const base::Deadline deadline(20s);
      while (look.get("unisono/rendezvous//1/joined", 20s) != "2" && !deadline.passed()) std::this_thread::yield();
      ::_exit(0);
    });
    auto third = in_background([&] { outcomes[2] = attempt(request(2)); });
    outcomes[1] = attempt(request(1));
    patient.join();
    third.join();
    expect_a_job(outcomes, 3);
  }
}

}  // namespace
}  // namespace unisono::rendezvous

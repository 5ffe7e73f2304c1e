// tcp:// at one host's address, and URLs.
#include "testing.h"

#include <filesystem>

#include "covers.h"
#include "rendezvous/plan.h"

namespace unisono::rendezvous {
namespace {

TEST(TcpMeeting, RanksMeetAtNumbersAndNames) {
  COVERS("T-42");
  for (const std::string host : {"127.0.0.1", "[::1]", "localhost"}) {
    const int port = free_port();
    const std::string url = fmt::format("tcp://{}:{}", host, port);
    const auto outcomes = together(3, [&](int rank) { return attempt({.init_method = url, .rank = rank, .world_size = 3}); });
    expect_a_job(outcomes, 3);
  }
}

TEST(TcpMeeting, TheUrlMayCarryRankAndSize) {
  const int port = free_port();
  const auto outcomes =
      together(2, [&](int rank) { return attempt({.init_method = fmt::format("tcp://127.0.0.1:{}?rank={}&world_size=2", port, rank)}); });
  expect_a_job(outcomes, 2);
  EXPECT_CONTAINS(attempt({.init_method = "tcp://127.0.0.1:9?rank=0&world_size=2", .rank = 1}).text<InvalidArgument>(), "0 by init_method");
}

TEST(TcpMeeting, AMeetingNeedsRankAndSize) {
  COVERS("T-06", "T-07");
  EXPECT_CONTAINS(attempt({.init_method = "tcp://127.0.0.1:9", .rank = 0}).text<InvalidArgument>(), "world_size is not given");
  EXPECT_CONTAINS(attempt({.init_method = "tcp://127.0.0.1:9", .world_size = 2}).text<InvalidArgument>(), "rank is not given");
  EXPECT_CONTAINS(attempt({.init_method = "tcp://127.0.0.1:9", .rank = 2, .world_size = 2}).text<InvalidArgument>(), "rank 2");
}

// The launcher gives the numbers that the program does not: also of a job at an address of the program's, and of the size that the program gives.
TEST(TcpMeeting, TheEnvironmentMaySayRankAndSize) {
  for (const bool size_is_given : {false, true}) {
    const std::string url = fmt::format("tcp://127.0.0.1:{}", free_port());
    const auto outcomes = together(3, [&](int rank) {
      JobRequest request{.init_method = url};
      if (size_is_given) request.world_size = 3;
      return attempt(request, Environment(Variables{{"RANK", std::to_string(rank)}, {"WORLD_SIZE", "3"}}));
    });
    expect_a_job(outcomes, 3);
    for (std::size_t rank = 0; rank < 3; ++rank) EXPECT_EQ(outcomes[rank].get().rank, static_cast<int>(rank));
  }
  // A job of another size is none of the launcher's.
  const Environment five(Variables{{"RANK", "0"}, {"WORLD_SIZE", "5"}});
  EXPECT_CONTAINS(attempt({.init_method = "tcp://127.0.0.1:9", .world_size = 2}, five).text<InvalidArgument>(), "rank is not given");
}

// A rank that comes to an address where nobody serves, or where somebody else does, is told where it looked, in time.
TEST(TcpMeeting, NobodyThereIsNamedWithItsAddress) {
  COVERS("Q-09", "T-42", "K-44");
  const int port = free_port();
  const std::string text =
      attempt({.init_method = fmt::format("tcp://127.0.0.1:{}", port), .rank = 1, .world_size = 2, .timeout = 100ms}).text<Timeout>();
  EXPECT_CONTAINS(text, fmt::format("127.0.0.1:{}", port));
  const auto taken = base::try_listen(base::resolve("127.0.0.1", 0).front());
  const int used = base::local_address(taken.fd.get()).port();
  EXPECT_CONTAINS(attempt({.init_method = fmt::format("tcp://127.0.0.1:{}", used), .rank = 0, .world_size = 2}).text<InvalidArgument>(),
                  fmt::format("127.0.0.1:{}", used));
  EXPECT_CONTAINS(attempt({.init_method = "tcp://no.such.host.invalid:9", .rank = 1, .world_size = 2, .timeout = 100ms}).text<InvalidArgument>(),
                  "no.such.host.invalid");
}

// The name is no part of the address here, but it parts jobs all the same: who has another one is not of the job.
TEST(TcpMeeting, RanksOfAnotherGroupNameDoNotJoin) {
  COVERS("T-08");
  const std::string url = fmt::format("tcp://127.0.0.1:{}", free_port());
  const auto outcomes = together(2, [&](int rank) {
    return attempt({.init_method = url, .rank = rank, .world_size = 2, .group_name = rank == 0 ? "left" : "right", .timeout = 300ms});
  });
  for (const Outcome& outcome : outcomes) EXPECT_TRUE(outcome.error != nullptr);
}

// Torchrun's environment is nothing to a program that says everything itself.
TEST(TcpMeeting, AMeetingDoesNotAskTheEnvironment) {
  COVERS("E-12");
  const std::string url = fmt::format("tcp://127.0.0.1:{}", free_port());
  const auto outcomes = together(2, [&](int rank) {
    return attempt({.init_method = url, .rank = rank, .world_size = 2},
                   Environment(with(with(job_variables(1 - rank, 2, 1), "TORCHELASTIC_RUN_ID", "x"), "LOCAL_RANK", "0")));
  });
  expect_a_job(outcomes, 2);
  EXPECT_EQ(outcomes[0].get().rank, 0);
}

TEST(Url, BadOnesAreRefused) {
  COVERS("T-05");
  for (const std::string text :
       {"127.0.0.1:9",    "foo://x",        "tcp://",           "tcp://host",       "tcp://host:",     "tcp://host:0",       "tcp://host:65536",
        "tcp://host:12x", "tcp://:12",      "tcp://::1:12",     "tcp://[::1]12",    "tcp://[::1",      "file://relative",    "file:///",
        "env://x",        "tcp://h:1?rank", "tcp://h:1?size=2", "tcp://h:1?rank=x", "tcp://h:1?ttl=5", "etcd://h/job?tll=5", ""}) {
    EXPECT_THROW(parse_url(text), InvalidArgument) << text;
  }
  try {
    parse_url("file://runs/../meeting");
    FAIL() << "a relative path was taken";
  } catch (const InvalidArgument& error) {  // what would work
    EXPECT_CONTAINS(error.message(), fmt::format("three slashes: file://{}", (std::filesystem::current_path() / "meeting").string()));
  }
  const Url url = parse_url("tcp://[fe80::1]:77?world_size=5&rank=3");
  EXPECT_EQ(url.host, "fe80::1");
  EXPECT_EQ(url.port, 77);
  EXPECT_EQ(url.rank, 3);
  EXPECT_EQ(url.world_size, 5);
  EXPECT_EQ(parse_url("file:///a/b").path, "/a/b");
  const Url etcd = parse_url("etcd://a:1,b/job?ttl=5&rank=2");
  EXPECT_EQ(etcd.path, "etcd://a:1,b/job?ttl=5");
  EXPECT_EQ(etcd.rank, 2);
}

}  // namespace
}  // namespace unisono::rendezvous

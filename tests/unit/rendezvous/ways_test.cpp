// All ways to meet, one after the other: each ends in the same job, and says whom it is told by.
#include "base/interfaces.h"
#include "covers.h"
#include "rendezvous/announcement.h"
#include "testing.h"
#include "unisono/collectives.h"
#include "unisono/context.h"

namespace unisono::rendezvous {
namespace {

constexpr int ranks_of_each_way = 3;

/// The reason why this host cannot hear itself at the address; empty: it can.
std::string deaf_to(const std::string& host) {
  try {
    const MulticastSocket socket(base::resolve(host, 23459).front(), base::InterfaceRule("UNISONO_INTERFACE", "lo"));
    if (const int error = socket.send("heard?")) return base::error_text(error);
    return base::wait_for(socket.fd(), 1 /* POLLIN */, base::Deadline(2s)) ? "" : "this host does not hear its own multicast";
  } catch (const Error& error) {
    return error.what();
  }
}

void expect_to_meet(const std::string& way, const std::function<Outcome(int)>& rank) {
  SCOPED_TRACE(way);
  const auto outcomes = together(ranks_of_each_way, rank);
  expect_a_job(outcomes, ranks_of_each_way);
}

Environment in_network() { return Environment(Variables{{"UNISONO_TOKEN", "a secret of this test"}, {"UNISONO_INTERFACE", "lo"}}); }

Outcome come_to(const std::string& url, std::optional<int> rank, const std::string& group = "", const Environment& environment = Environment()) {
  return attempt({.init_method = url, .rank = rank, .world_size = ranks_of_each_way, .group_name = group, .timeout = 60s}, environment);
}

std::string number(int value) { return std::to_string(value); }

TEST(Ways, RanksMeetByTheEnvironmentOfEveryLauncher) {
  COVERS("W-08");
  const int n = ranks_of_each_way;
  int port = free_port();
  expect_to_meet("all variables", [&](int r) { return attempt({.timeout = 60s}, Environment(job_variables(r, n, port))); });
  port = free_port();
  expect_to_meet("a part of them, and arguments", [&](int r) {
    const Variables all = job_variables(r, n, port);
    return attempt({.world_size = n, .timeout = 60s}, Environment(without(r == 0 ? without(all, "MASTER_ADDR") : all, "WORLD_SIZE")));
  });
  EXPECT_CONTAINS(attempt({.timeout = 1s}, Environment(without(job_variables(1, n, port), "RANK"))).text<InvalidArgument>(), "RANK is not set");
  EXPECT_CONTAINS(attempt({.rank = 2, .timeout = 1s}, Environment(job_variables(1, n, port))).text<InvalidArgument>(), "1 by RANK");
  port = free_port();
  const auto at_port = [&](Variables variables) {
    variables["MASTER_ADDR"] = "127.0.0.1";
    variables["MASTER_PORT"] = number(port);
    return attempt({.timeout = 60s}, Environment(variables));
  };
  expect_to_meet("Slurm", [&](int r) {
    return at_port({{"SLURM_JOB_ID", "12_3"},
                    {"SLURM_PROCID", number(r)},
                    {"SLURM_LOCALID", number(r)},
                    {"SLURM_NTASKS", number(n)},
                    {"SLURM_JOB_NODELIST", "node[18-19,1-16]"},
                    {"SLURM_JOB_NUM_NODES", "1"}});
  });
  port = free_port();
  expect_to_meet("Open MPI", [&](int r) {
    return at_port({{"OMPI_COMM_WORLD_RANK", number(r)}, {"OMPI_COMM_WORLD_SIZE", number(n)}, {"OMPI_COMM_WORLD_LOCAL_RANK", number(r)}});
  });
  port = free_port();
  expect_to_meet("PMI", [&](int r) { return at_port({{"PMI_RANK", number(r)}, {"PMI_SIZE", number(n)}}); });
}

TEST(Ways, RanksMeetAtAnAddressInAFileAndInAStore) {
  COVERS("W-08");
  for (const char* host : {"127.0.0.1", "[::1]"}) {
    const std::string url = fmt::format("tcp://{}:{}", host, free_port());
    expect_to_meet(url, [&](int r) { return come_to(url, r); });
  }
  const TemporaryFolder folder;
  const std::string url = "file://" + folder.file("meet");
  expect_to_meet("a fresh file", [&](int r) { return come_to(url, r); });
  EXPECT_FALSE(std::filesystem::exists(folder.file("meet")));
  const pid_t crashed = ::fork();  // a job that met, and ended without cleaning anything up
  if (crashed == 0) {
    const auto all = together(2, [&](int r) { return attempt({.init_method = url, .rank = r, .world_size = 2, .timeout = 60s}); });
    ::_exit(all[0].error || all[1].error ? 1 : 0);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(crashed, &status, 0), crashed);
  ASSERT_EQ(status, 0);
  EXPECT_TRUE(std::filesystem::exists(folder.file("meet")));
  expect_to_meet("a file that was there", [&](int r) { return come_to(url, r == 1 ? std::nullopt : std::optional(r)); });
  const auto of_two_names =
      together(2 * ranks_of_each_way, [&](int i) { return come_to(url, i % ranks_of_each_way, i < ranks_of_each_way ? "left" : "right"); });
  expect_a_job({of_two_names.begin(), of_two_names.begin() + ranks_of_each_way}, ranks_of_each_way);
  expect_a_job({of_two_names.begin() + ranks_of_each_way, of_two_names.end()}, ranks_of_each_way);
  const auto store = std::make_shared<MemoryStore>();
  expect_to_meet("a store", [&](int r) { return attempt({.rank = r, .world_size = ranks_of_each_way, .timeout = 60s, .store = store}); });
}

// Ways that the original has dropped since: they are all here, in one job each.
TEST(Ways, WaysThatOtherLibrariesDroppedWork) {
  COVERS("TS-48");
  const TemporaryFolder folder;
  const std::string url = "file://" + folder.file("meet");
  expect_to_meet("a file that gives the ranks", [&](int) { return come_to(url, std::nullopt); });
  expect_to_meet("a file, and a name", [&](int r) { return come_to(url, r, "of this job"); });
  InitOptions options;
  options.backend = "tcp";
  options.store = std::make_shared<MemoryStore>();
  options.rank = 0;
  options.world_size = 1;
  {
    const Context context(options);
    EXPECT_EQ(backend(), "tcp");
    EXPECT_EQ(all_reduce(41), 41);
  }
  const std::string name = fmt::format("ways {}", ::getpid());
  const auto by_multicast = [&](const std::string& at) {
    expect_to_meet(at, [&](int r) { return come_to(at, r == 0 ? std::optional(1) : std::nullopt, name, in_network()); });
  };
  if (const std::string reason = deaf_to("239.255.83.19"); !reason.empty()) GTEST_SKIP() << "skipped: " << reason;
  by_multicast("tcp://239.255.83.19:23459");
  if (deaf_to("ff15::5319").empty()) by_multicast("tcp://[ff15::5319]:23459");
}

}  // namespace
}  // namespace unisono::rendezvous

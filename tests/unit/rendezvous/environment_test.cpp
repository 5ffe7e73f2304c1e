// env://, and a process that nobody launched.
#include "covers.h"
#include "testing.h"
#include "unisono/context.h"

namespace unisono::rendezvous {
namespace {

TEST(Alone, AProcessThatWasNotLaunchedIsRank0Of1) {
  COVERS("C-12");
  const JobIdentity identity = meet({}, Environment());
  EXPECT_EQ(identity.rank, 0);
  EXPECT_EQ(identity.world_size, 1);
  EXPECT_EQ(identity.launcher, Launcher::none);
  identity.store->set("a", "1");
  EXPECT_EQ(identity.store->get("a"), "1");
}

class EnvironmentMeeting : public testing::TestWithParam<int> {};

TEST_P(EnvironmentMeeting, TheEnvironmentBringsAllRanksTogether) {
  COVERS("T-03", "T-41");
  const int n = GetParam();
  const int port = free_port();
  const auto outcomes = together(static_cast<std::size_t>(n), [&](int rank) {
    return attempt({}, Environment(with(job_variables(rank, n, port), "LOCAL_RANK", fmt::format("{}", rank))));
  });
  expect_a_job(outcomes, n);
  for (int rank = 0; rank < n; ++rank) {
    const JobIdentity& identity = outcomes[static_cast<std::size_t>(rank)].get();
    EXPECT_EQ(identity.rank, rank);
    EXPECT_EQ(identity.local_rank, rank);
    EXPECT_EQ(identity.launcher, Launcher::torchrun);
    EXPECT_EQ(identity.serves_store, rank == 0);
  }
}
INSTANTIATE_TEST_SUITE_P(Sizes, EnvironmentMeeting, testing::Values(1, 2, 3, 5, 8));

TEST(EnvironmentVariables, MissingVariablesAreNamed) {
  COVERS("T-41", "E-04");
  const Variables all = job_variables(1, 2, 12345);
  for (const std::string name : {"RANK", "WORLD_SIZE", "MASTER_PORT", "MASTER_ADDR"}) {
    const std::string text = attempt({.timeout = 10s}, Environment(without(all, name))).text<InvalidArgument>();
    EXPECT_CONTAINS(text, name + " is not set");
  }
  EXPECT_CONTAINS(attempt({}, Environment(Variables{{"LOCAL_RANK", "0"}})).text<InvalidArgument>(), "RANK and WORLD_SIZE are not set");
}

/// The source of a number: nobody, the environment, the program, or both the same.
enum class By { nobody, variable, argument, both };
constexpr By all_sources[] = {By::nobody, By::variable, By::argument, By::both};
bool in_variable(By by) { return by == By::variable || by == By::both; }
bool in_argument(By by) { return by == By::argument || by == By::both; }

struct Combination {
  Variables variables;
  JobRequest request;
};
Combination combine(By rank, By size, bool address, int port, int r, int n) {
  Combination made;
  if (in_variable(rank)) made.variables["RANK"] = fmt::format("{}", r);
  if (in_variable(size)) made.variables["WORLD_SIZE"] = fmt::format("{}", n);
  if (address) made.variables["MASTER_ADDR"] = "127.0.0.1";
  if (port != 0) made.variables["MASTER_PORT"] = fmt::format("{}", port);
  if (in_argument(rank)) made.request.rank = r;
  if (in_argument(size)) made.request.world_size = n;
  made.request.timeout = 20s;
  return made;
}

// Every combination of where rank and size come from, and of what is said of the place: for rank 0, which needs no address …
TEST(EnvironmentVariables, EveryCombinationMakesRank0) {
  COVERS("T-41", "C-12");
  for (const By rank : all_sources) {
    for (const By size : all_sources) {
      for (const bool address : {false, true}) {
        for (const bool with_port : {false, true}) {
          const auto [variables, request] = combine(rank, size, address, with_port ? free_port() : 0, 0, 1);
          SCOPED_TRACE(fmt::format("rank {} size {} address {} port {}", static_cast<int>(rank), static_cast<int>(size), address, with_port));
          const Outcome outcome = attempt(request, Environment(variables));
          if (rank == By::nobody && size == By::nobody) {  // nothing that names a job: alone
            EXPECT_EQ(outcome.get().world_size, 1);
            EXPECT_FALSE(outcome.get().serves_store);
          } else if (rank == By::nobody) {
            EXPECT_CONTAINS(outcome.text<InvalidArgument>(), "RANK is not set");
          } else if (size == By::nobody) {
            EXPECT_CONTAINS(outcome.text<InvalidArgument>(), "WORLD_SIZE is not set");
          } else if (!with_port) {
            EXPECT_CONTAINS(outcome.text<InvalidArgument>(), "MASTER_PORT is not set");
          } else {
            EXPECT_EQ(outcome.get().rank, 0);
            EXPECT_TRUE(outcome.get().serves_store);
          }
        }
      }
    }
  }
}

// … and for another rank, beside a rank 0 that has all it needs.
TEST(EnvironmentVariables, EveryCombinationMakesRank1) {
  for (const By rank : all_sources) {
    for (const By size : all_sources) {
      for (const bool address : {false, true}) {
        for (const bool with_port : {false, true}) {
          const int port = with_port ? free_port() : 0;
          const auto [variables, request] = combine(rank, size, address, port, 1, 2);
          SCOPED_TRACE(fmt::format("rank {} size {} address {} port {}", static_cast<int>(rank), static_cast<int>(size), address, with_port));
          if (rank == By::nobody && size == By::nobody) continue;  // alone, as above
          std::string missing;
          if (rank == By::nobody) missing = "RANK";
          else if (size == By::nobody) missing = "WORLD_SIZE";
          else if (!with_port) missing = "MASTER_PORT";
          else if (!address) missing = "MASTER_ADDR";
          if (!missing.empty()) {
            EXPECT_CONTAINS(attempt(request, Environment(variables)).text<InvalidArgument>(), missing + " is not set");
            continue;
          }
          expect_a_job(
              together(
                  2, [&](int r) { return r == 0 ? attempt({}, Environment(job_variables(0, 2, port))) : attempt(request, Environment(variables)); }),
              2);
        }
      }
    }
  }
}

TEST(EnvironmentVariables, Rank0NeedsNoAddress) {
  COVERS("T-41", "E-05");
  const int port = free_port();
  const auto outcomes = together(2, [&](int rank) {
    const Variables all = job_variables(rank, 2, port);
    return attempt({}, Environment(rank == 0 ? without(all, "MASTER_ADDR") : all));
  });
  expect_a_job(outcomes, 2);
}

TEST(EnvironmentVariables, ContradictionsNameBothSources) {
  COVERS("T-41", "I-40", "E-01", "E-02");
  const Environment environment(with(job_variables(1, 2, 12345), "LOCAL_RANK", "1"));
  std::string text = attempt({.rank = 0}, environment).text<InvalidArgument>();
  EXPECT_CONTAINS(text, "rank is 0 by the argument rank");
  EXPECT_CONTAINS(text, "1 by RANK");
  text = attempt({.world_size = 3}, environment).text<InvalidArgument>();
  EXPECT_CONTAINS(text, "world size is 3 by the argument world_size");
  EXPECT_CONTAINS(text, "2 by WORLD_SIZE");
  text = attempt({.local_rank = 4}, environment).text<InvalidArgument>();
  EXPECT_CONTAINS(text, "1 by LOCAL_RANK");
  text = attempt({.init_method = "env://?rank=0"}, environment).text<InvalidArgument>();
  EXPECT_CONTAINS(text, "0 by init_method");
}

TEST(EnvironmentVariables, EqualValuesFromTwoSourcesAreFine) {
  COVERS("T-41");
  const int port = free_port();
  const auto outcomes = together(2, [&](int rank) { return attempt({.rank = rank, .world_size = 2}, Environment(job_variables(rank, 2, port))); });
  expect_a_job(outcomes, 2);
}

TEST(EnvironmentVariables, ArgumentsMayTakeThePlaceOfVariables) {
  COVERS("T-41");
  const int port = free_port();
  const auto outcomes = together(2, [&](int rank) {
    return attempt({.rank = rank, .world_size = 2}, Environment(without(without(job_variables(rank, 2, port), "RANK"), "WORLD_SIZE")));
  });
  expect_a_job(outcomes, 2);
}

TEST(EnvironmentVariables, ImpossibleNumbersAreRefused) {
  COVERS("T-06", "T-07");
  const Variables all = job_variables(1, 2, 12345);
  EXPECT_CONTAINS(attempt({}, Environment(with(all, "RANK", "2"))).text<InvalidArgument>(), "rank 2 is not within a world of 2");
  EXPECT_CONTAINS(attempt({}, Environment(with(all, "RANK", "-1"))).text<InvalidArgument>(), "rank -1");
  EXPECT_CONTAINS(attempt({}, Environment(with(all, "WORLD_SIZE", "0"))).text<InvalidArgument>(), "world size is 0");
  EXPECT_CONTAINS(attempt({}, Environment(with(all, "WORLD_SIZE", "two"))).text<InvalidArgument>(), "WORLD_SIZE");
  EXPECT_CONTAINS(attempt({}, Environment(with(all, "MASTER_PORT", "70000"))).text<InvalidArgument>(), "MASTER_PORT is 70000");
  EXPECT_CONTAINS(attempt({}, Environment(with(all, "LOCAL_RANK", "-3"))).text<InvalidArgument>(), "local rank is -3");
  EXPECT_CONTAINS(attempt({}, Environment(with(with(all, "LOCAL_RANK", "2"), "LOCAL_WORLD_SIZE", "2"))).text<InvalidArgument>(), "local rank 2");
  EXPECT_CONTAINS(attempt({}, Environment(with(all, "UNISONO_TIMEOUT", "-5"))).text<InvalidArgument>(), "UNISONO_TIMEOUT");
  EXPECT_CONTAINS(attempt({.timeout = 0ms}, Environment(all)).text<InvalidArgument>(), "timeout");
}

TEST(EnvironmentVariables, GroupNameIsRefused) {
  COVERS("T-08");
  EXPECT_CONTAINS(attempt({.group_name = "mine"}, Environment(job_variables(0, 2, 12345))).text<InvalidArgument>(), "group_name");
}

// A timeout is a length of time, whatever its unit, and never a bare number.
TEST(Timeouts, TimeoutsHaveAUnit) {
  COVERS("M-34", "I-40");
  static_assert(!std::is_assignable_v<decltype(JobRequest::timeout)&, int> && !std::is_assignable_v<decltype(JobRequest::timeout)&, double>);
  static_assert(!std::is_assignable_v<decltype(JobRequest::timeout)&, const char*>);
  static_assert(std::is_same_v<decltype(JobRequest::timeout), decltype(InitOptions::timeout)>);
  const int port = free_port();
  for (const std::chrono::milliseconds timeout : {1000ms, 250ms}) {
    const std::string text = attempt({.timeout = timeout}, Environment(job_variables(0, 2, port))).text<Timeout>(),
                      before = "1 of 2 ranks joined within ";
    const std::size_t at = text.find(before);
    ASSERT_NE(at, std::string::npos) << text;
    // The milliseconds are those that are left once the place is known.
    const int told = std::stoi(text.substr(at + before.size()));
    EXPECT_LE(told, timeout.count()) << text;
    EXPECT_GT(told, timeout.count() / 2) << text;
  }
}

TEST(EnvironmentVariables, VariablesBoundTheJoin) {  // the type says the unit
  COVERS("I-40");
  EXPECT_EQ(join_timeout(30min, Environment()), 120s);
  EXPECT_EQ(join_timeout(5s, Environment()), 5s);
  EXPECT_EQ(join_timeout(30min, Environment(Variables{{"UNISONO_TIMEOUT", "7"}})), 7s);
  EXPECT_EQ(join_timeout(30min, Environment(Variables{{"UNISONO_TIMEOUT", "600"}})), 600s);
  EXPECT_EQ(join_timeout(2s, Environment(Variables{{"UNISONO_TIMEOUT", "600"}})), 2s);
  // The program's own timeout is not cut.
  EXPECT_EQ(join_timeout(10min, Environment()), 10min);
  EXPECT_EQ(join_timeout(10min, Environment(Variables{{"UNISONO_TIMEOUT", "7"}})), 10min);
}

TEST(EnvironmentVariables, VariablesOfAnOuterLauncherDoNotCount) {  // an inner launcher inside one task of srun
  const int port = free_port();
  const auto outcomes = together(2, [&](int rank) {
    Variables all = with(job_variables(rank, 2, port), "LOCAL_RANK", fmt::format("{}", rank));
    return attempt({}, Environment(with(with(all, "SLURM_PROCID", "0"), "SLURM_NTASKS", "1")));
  });
  expect_a_job(outcomes, 2);
}

}  // namespace
}  // namespace unisono::rendezvous

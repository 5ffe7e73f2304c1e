// Objects between hosts, while somebody between them changes what is sent: the codes that objects carry show it before anything is decoded, whatever
// engine moves them.

#include <gtest/gtest.h>

#include "job.h"

namespace unisono::testing {
namespace {

constexpr const char* sent = "the object as it was sent";
constexpr const char* changed = "the object of an attacker";

std::string run_objects(const Hosts& hosts, const std::string& call, const Variables& variables) {
  std::vector<std::unique_ptr<RunningCommand>> job;
  for (int node = 0; node < 2; ++node) {
    const NodeFlags flags{.nodes = 2, .node = node, .ranks = 1, .master = hosts.address(0)};
    job.push_back(hosts.start(node, node_words(flags, {HOST_RANK, "objects", call}), with(with(secret, {{"UNISONO_TIMEOUT", "30"}}), variables)));
  }
  std::string said;
  for (const auto& launcher : job) {
    launcher->wait(std::chrono::seconds(120));
    said += launcher->out() + launcher->err();
  }
  return said;
}

Variables attacked(const Variables& more = {}) { return with({{"LD_PRELOAD", CHANGING}, {"CHANGE_FROM", sent}, {"CHANGE_TO", changed}}, more); }

void expect_refused(const std::string& said) {
  EXPECT_GE(count(said, "is not what that rank has sent: somebody changes the data between the hosts"), 1) << said;
  EXPECT_EQ(count(said, changed), 0) << said;
}

TEST(ObjectsOfHosts, ObjectsArriveAsTheyWereSent) {
  MAKE_HOSTS(hosts, 2);
  for (const char* const call : {"broadcast", "gather", "all_gather", "scatter", "message", "files", "call", "call_in_parts"}) {
    const std::string said = run_objects(hosts, call, {});
    EXPECT_GE(count(said, std::string("has ") + sent), 1) << call << said;
    EXPECT_EQ(count(said, "failed"), 0) << call << said;
  }
}

TEST(ObjectsOfHosts, ChangedObjectsAreRefused) {
  MAKE_HOSTS(hosts, 2);
  for (const char* const call : {"broadcast", "gather", "all_gather", "scatter", "message", "elastic", "call", "call_in_parts"}) {
    SCOPED_TRACE(call);
    expect_refused(run_objects(hosts, call, attacked()));
  }
}

TEST(ObjectsOfHosts, RepeatedObjectsAreRefused) {
  MAKE_HOSTS(hosts, 2);
  const std::string said =
      run_objects(hosts, "messages", attacked({{"CHANGE_FROM", "message 1"}, {"CHANGE_TO", "message 2"}, {"CHANGE_REPEATS", "1"}}));
  EXPECT_EQ(count(said, "[1] rank 1 has message"), 1) << said;
  EXPECT_GE(count(said, "was sent before, and is repeated: somebody changes the data between the hosts"), 1) << said;
}

TEST(ObjectsOfHosts, ObjectsGoUncheckedWithoutATokenAndWithAWarning) {
  MAKE_HOSTS(hosts, 2);
  const std::string said = run_objects(hosts, "broadcast", with(attacked(), {{"UNISONO_TOKEN", "none"}}));
  EXPECT_GE(count(said, std::string("rank 1 has ") + changed), 1) << said;  // which shows that the attack is one
  EXPECT_GE(count(said, "objects of group world travel between hosts without a code, because the job has no token"), 1) << said;
}

class ObjectsOfEngines : public ::testing::TestWithParam<const char*> {};

TEST_P(ObjectsOfEngines, ChangedOnesAreRefused) {
  const std::string name = GetParam();
  const std::string engine = name.substr(0, name.find('_'));
  if (std::string(UNISONO_ENGINES).find(name) == std::string::npos) GTEST_SKIP() << name << " was not found when this was built";
  Variables variables{{"UNISONO_BACKEND", engine}, {"UCX_TLS", "tcp"}};
  if (engine == "mpi") variables["UNISONO_MPI"] = name.substr(engine.size() + 1);
  MAKE_HOSTS(hosts, 2);
  EXPECT_EQ(count(run_objects(hosts, "broadcast", variables), std::string("rank 1 has ") + sent), 1);
  expect_refused(run_objects(hosts, "broadcast", attacked(variables)));
}

INSTANTIATE_TEST_SUITE_P(Hosts, ObjectsOfEngines, ::testing::Values("gloo", "ucx", "mpi_openmpi", "mpi_mpich"),
                         [](const auto& engine) { return std::string(engine.param); });

}  // namespace
}  // namespace unisono::testing

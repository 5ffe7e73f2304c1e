// `unisono run` binds its ranks to cores: what the system says of them, two jobs on one host, several hosts, and processes that come later. Each host
// has a /sys of its own, so that other tests do not hold its cores.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <csignal>
#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/processors.h"
#include "faults/faults.h"
#include "job.h"
#include "launch/process/cores.h"
#include "launch/process/host.h"

namespace unisono::testing {
namespace {

using Json = nlohmann::json;
using Mask = decltype(base::Processors::mask);

/// Returns why ranks of these hosts cannot be seen to be bound; empty: they can.
std::string no_cores_of(const Hosts& hosts) {
  if (base::allowed_processors() < 2) return "it takes two processors";
  const int mounts = std::stoi(hosts.run(0, {"sh", "-c", "grep -c '^sysfs /sys ' /proc/self/mounts || true"}));
  return mounts < 2 ? "this system lets hosts have no /sys of their own, and other jobs may hold the cores" : "";
}

#define MAKE_HOSTS_WITH_CORES(name, count) \
  MAKE_HOSTS(name, count);                 \
  if (const std::string why_not = no_cores_of(name); !why_not.empty()) GTEST_SKIP() << "skipped: " << why_not

std::unique_ptr<RunningCommand> start(const Hosts& hosts, int host, std::vector<std::string> flags, const std::vector<std::string>& program,
                                      const Variables& variables = {}) {
  flags.insert(flags.begin(), "run");
  flags.emplace_back("--");
  flags.insert(flags.end(), program.begin(), program.end());
  return hosts.start(host, unisono_command(flags), variables);
}

/// What `unisono info` says of this host as the only rank that writes, rank 0.
Json host_seen_by_rank(const Hosts& hosts, std::vector<std::string> flags, const std::string& before = "", const Variables& variables = {}) {
  const std::string script = "[ $LOCAL_RANK = 0 ] || exit 0\n" + before + "\nexec \"$@\"";
  const auto job = start(hosts, 0, std::move(flags), {"/bin/sh", "-c", script, "-", UNISONO_COMMAND, "info", "--json"}, variables);
  EXPECT_EQ(job->wait(), 0) << job->err();
  std::string text;
  for (const std::string& line : lines_of(job->out())) text += line.substr(std::min(line.size(), line.find("] ") + 2)) + "\n";
  const Json json = Json::parse(text, nullptr, false);
  EXPECT_FALSE(json.is_discarded()) << job->out();
  return json.is_discarded() ? Json{} : json.at("host");
}

Mask mask_of_rank(const RunningCommand& job, int rank) { return base::processors_of(std::stoi(word_after(job.out(), tag(rank) + "ready "))).mask; }

/// The ranks have said that they are ready. No processor is that of both, and together they have all.
void expect_bound(const RunningCommand& job, int first = 0) {
  const Mask all = base::processors_of(0).mask, own = mask_of_rank(job, first), other = mask_of_rank(job, first + 1);
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(own[i] & other[i], 0U);
    EXPECT_EQ(own[i] | other[i], all[i]);
  }
}

void expect_unbound(const RunningCommand& job) {
  for (const int rank : {0, 1}) EXPECT_EQ(mask_of_rank(job, rank), base::processors_of(0).mask);
}

TEST(BindingOfRanks, RanksAreToldWhereTheyRunAndWhy) {
  MAKE_HOSTS_WITH_CORES(hosts, 1);
  const int all = base::allowed_processors();
  const Json bound = host_seen_by_rank(hosts, {"-n", "2"});
  EXPECT_EQ(bound.at("binding").get<std::string>().find("each of 2 ranks is bound to "), 0U) << bound;
  EXPECT_LT(bound.at("cpus usable"), all);
  const std::string too_many = std::to_string(all + 1);
  const Json crowded = host_seen_by_rank(hosts, {"-n", too_many});
  EXPECT_EQ(crowded.at("binding"), fmt::format("no rank is bound: {} ranks share {} cores", too_many, all));
  EXPECT_EQ(crowded.at("cpus usable"), all);
  const Json threads = host_seen_by_rank(hosts, {"-n", "2"}, "", {{"OMP_NUM_THREADS", std::to_string(all)}});
  EXPECT_EQ(threads.at("binding"), fmt::format("no rank is bound: 2 ranks of {} threads (OMP_NUM_THREADS) share {} cores", all, all));
  for (const char* wrong : {"several", "-4", "0", ""}) {  // as if it were not set
    const Json unread = host_seen_by_rank(hosts, {"-n", "2"}, "", {{"OMP_NUM_THREADS", wrong}});
    EXPECT_EQ(unread.at("binding"), bound.at("binding")) << wrong;
  }
  const Json none = host_seen_by_rank(hosts, {"-n", "2", "--bind", "none"});
  EXPECT_EQ(none.at("binding"), "no rank is bound: --bind none");
  EXPECT_EQ(none.at("cpus usable"), all);
  const Json core = host_seen_by_rank(hosts, {"-n", too_many, "--bind", "core"});
  EXPECT_EQ(core.at("binding"), "each rank is bound to one processor (--bind core)");
  EXPECT_EQ(core.at("cpus usable"), 1);
  const Json by_script = host_seen_by_rank(hosts, {"-n", "2"}, ": taskset");
  EXPECT_EQ(by_script.at("binding"), "no rank is bound: taskset decides where they run");
  EXPECT_EQ(by_script.at("cpus usable"), all);
}

TEST(BindingOfRanks, AProcessThatIsNoRankIsToldSo) {
  RunningCommand alone(unisono_command({"info", "--json"}));
  ASSERT_EQ(alone.wait(), 0) << alone.err();
  EXPECT_EQ(Json::parse(alone.out()).at("host").at("binding"), "this process is not a rank of unisono run");
}

TEST(BindingOfRanks, TheLauncherSaysWhatItHasDoneWhereAsked) {
  MAKE_HOSTS_WITH_CORES(hosts, 1);
  const auto job = start(hosts, 0, {"-n", "2"}, {"/bin/true"}, {{"UNISONO_LOG", "info"}});
  EXPECT_EQ(job->wait(), 0) << job->err();
  EXPECT_EQ(count(job->err(), "each of 2 ranks is bound to "), 1) << job->err();
}

TEST(BindingOfRanks, ALauncherThatMayUseOneProcessorBindsNoRank) {
  MAKE_HOSTS_WITH_CORES(hosts, 1);
  const std::string first = std::to_string(std::countr_zero(base::processors_of(0).mask[0]));
  std::vector<std::string> words{"taskset", "-c", first};
  for (const std::string& word : unisono_command({"run", "-n", "2", "--", UNISONO_COMMAND, "info"})) words.push_back(word);
  const auto job = hosts.start(0, words);
  EXPECT_EQ(job->wait(), 0) << job->err();
  EXPECT_EQ(count(job->out(), "no rank is bound: 2 ranks share 1 core\n"), 2) << job->out();
}

TEST(BindingOfRanks, ASecondJobIsNotBoundToCoresThatTheFirstOneHolds) {
  MAKE_HOSTS_WITH_CORES(hosts, 2);
  const std::vector<std::string> rests{RANK_HELPER, "rest"};
  const auto first = start(hosts, 0, {"-n", "2"}, rests);
  ASSERT_TRUE(first->until_out_has("ready", 2)) << first->err();
  expect_bound(*first);
  const auto second = start(hosts, 0, {"-n", "2"}, rests, {{"UNISONO_LOG", "info"}});
  ASSERT_TRUE(second->until_out_has("ready", 2)) << second->err();
  expect_unbound(*second);
  EXPECT_EQ(count(second->err(), "no rank is bound: other jobs hold "), 1) << second->err();
  const auto elsewhere = start(hosts, 1, {"-n", "2"}, rests);
  ASSERT_TRUE(elsewhere->until_out_has("ready", 2)) << elsewhere->err();
  expect_bound(*elsewhere);
  first->send(SIGKILL);  // the kernel drops what the launcher held
  EXPECT_EQ(first->wait(), 128 + SIGKILL);
  const auto third = start(hosts, 0, {"-n", "2"}, rests);
  ASSERT_TRUE(third->until_out_has("ready", 2)) << third->err();
  expect_bound(*third);
}

#ifdef UNISONO_WITHOUT_HWLOC
constexpr bool has_hwloc = false;
#else
constexpr bool has_hwloc = true;
#endif

Mask mask_of(const std::vector<int>& processors) {
  Mask mask{};
  for (const int processor : processors) mask.at(static_cast<std::size_t>(processor) / 64) |= std::uint64_t{1} << (processor % 64);
  return mask;
}

TEST(BindingOfRanks, ACacheOrANodeIsThatOfTheRanksWhoseSharesBeginInIt) {
  MAKE_HOSTS_WITH_CORES(hosts, 1);
  if (!has_hwloc) GTEST_SKIP() << "skipped: this build has no hwloc (package libhwloc-dev)";
  const auto cores = launcher::cores_of(launcher::allowed_cpus());
  if (cores.size() < 2) GTEST_SKIP() << "skipped: it takes two cores";
  const int first = cores[0].processors.front(), second = cores[1].processors.front();
  const std::string two = fmt::format("{},{}", first, second);
  // The launcher may use two processors, and hwloc is told how the host is made.
  const auto start_on_two = [&](const std::string& bind, const std::string& host) {
    std::vector<std::string> words{"taskset", "-c", two};
    for (const std::string& word : unisono_command({"run", "-n", "2", "--bind", bind, "--", RANK_HELPER, "rest"})) words.push_back(word);
    auto job = hosts.start(0, words, {{"HWLOC_SYNTHETIC", fmt::format("{} pu:1(indexes={})", host, two)}, {"UNISONO_LOG", "info"}});
    EXPECT_TRUE(job->until_out_has("ready", 2)) << job->err();
    return job;
  };
  for (const auto& [bind, name] : {std::pair("l3", "L3 cache"), {"numa", "NUMA node"}}) {
    const auto apart = start_on_two(bind, fmt::format("{}:2 core:1", bind));
    EXPECT_EQ(mask_of_rank(*apart, 0), mask_of({first})) << bind;
    EXPECT_EQ(mask_of_rank(*apart, 1), mask_of({second})) << bind;
    EXPECT_EQ(count(apart->err(), fmt::format("each of 2 ranks is bound to all cores of one of 2 {}s", name)), 1) << apart->err();
  }
  const auto together = start_on_two("l3", "l3:1 core:2");
  for (const int rank : {0, 1}) EXPECT_EQ(mask_of_rank(*together, rank), mask_of({first, second}));
}

TEST(BindingOfRanks, CachesAndNodesAreRefusedWithoutHwloc) {
  const TemporaryFolder folder;
  const std::string file = folder.path() + "/libunisono-hwloc.so";
  std::ofstream(file) << "not a library";
  const std::string why =
      has_hwloc ? "hwloc cannot be asked: " + file + " cannot be loaded: " : "this build of unisono has no hwloc (Debian: libhwloc-dev";
  for (const char* bind : {"l3", "numa", "core", "none"}) {
    RunningCommand command(unisono_command({"run", "--bind", bind, "--", "true"}), {.environment = {{"UNISONO_PLUGIN_PATH", folder.path()}}});
    const bool is_refused = std::string(bind) == "l3" || std::string(bind) == "numa";
    EXPECT_EQ(command.wait(), is_refused ? 1 : 0) << bind;
    EXPECT_EQ(count(command.err(), fmt::format("unisono run: --bind {}: {}", bind, why)), is_refused ? 1 : 0) << command.err();
  }
}

TEST(BindingOfRanks, TheLauncherOfEachHostBindsItsOwnRanks) {
  MAKE_HOSTS_WITH_CORES(hosts, 2);
  const auto unbound = start_job(hosts, 2, {UNISONO_COMMAND, "info"}, {"--bind", "none"});
  for (const auto& launcher : unbound) {
    EXPECT_EQ(launcher->wait(), 0) << launcher->err();
    EXPECT_EQ(count(launcher->out(), "no rank is bound: --bind none\n"), 2) << launcher->out();
  }
  const auto job = start_job(hosts, 2, {RANK_HELPER, "rest"});
  for (int host = 0; host < 2; ++host) {
    RunningCommand& launcher = *job[static_cast<std::size_t>(host)];
    ASSERT_TRUE(launcher.until_out_has("ready", 2)) << launcher.err();
    expect_bound(launcher, 2 * host);
  }
}

TEST(BindingOfRanks, AProcessInThePlaceOfALostOneGetsItsCores) {
  MAKE_HOSTS_WITH_CORES(hosts, 1);
  const std::string script = "echo \"place $LOCAL_RANK: $(sed -n 's/^Cpus_allowed_list:.//p' /proc/self/status)\"; exec \"$@\"";
  const auto job = start(hosts, 0, {"-n", "1:2", "--max-restarts", "2", "--grace", "3"},
                         {"/bin/sh", "-c", script, "-", FAULT_RANK, "elastic", "60", "2", "small", "1", "20"},
                         with(end_of_training(), {{"UNISONO_LOG", "error"}}));
  EXPECT_EQ(job->wait(), 0) << job->out() << job->err();
  const std::string of_the_lost = word_after(job->out(), "place 1: "), of_the_other = word_after(job->out(), "place 0: ");
  EXPECT_NE(of_the_lost, of_the_other);
  EXPECT_EQ(count(job->out(), "place 1: " + of_the_lost + "\n"), 2) << job->out();
}

}  // namespace
}  // namespace unisono::testing

// `unisono bench`: the results it writes, with every peer that this build has, and what it refuses.

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "running_command.h"
#include "unisono/operation.h"

namespace unisono::testing {
namespace {

using nlohmann::json;
const auto collectives = static_cast<std::size_t>(std::ranges::count_if(operation_table, [](const auto& row) { return !is_message(row.operation); }));

std::vector<std::string> peers_of_this_build() {
  std::vector<std::string> peers;
  std::istringstream list(UNISONO_BENCH_PEERS);
  for (std::string peer; std::getline(list, peer, ',');) peers.push_back(peer);
  return peers;
}

/// Runs a quick measurement; the list it wrote.
json measure(std::vector<std::string> arguments) {
  const TemporaryFolder folder;
  const std::string file = folder.path() + "/results.json";
  arguments.insert(arguments.begin(), "bench");
  arguments.insert(arguments.end(), {"--quick", "--json", file});
  RunningCommand command(unisono_command(arguments));
  EXPECT_EQ(command.wait(std::chrono::seconds(200)), 0) << command.out() << command.err();
  EXPECT_EQ(command.err().find("round "), std::string::npos) << "progress is for terminals: " << command.err();
  return json::parse(contents(file), nullptr, false);
}

void expect_row(const json& row) {
  for (const char* name : {"op", "impl", "backend", "dtype", "buffers", "data"}) EXPECT_TRUE(row.at(name).is_string()) << name << row;
  for (const char* name : {"ranks", "bytes"}) EXPECT_TRUE(row.at(name).is_number_integer()) << name << row;
  for (const char* name : {"median_us", "p99_us", "min_us"}) EXPECT_GT(row.at(name).get<double>(), 0) << name << row;
  EXPECT_EQ(row.at("verified"), true);
  EXPECT_LE(row.at("min_us").get<double>(), row.at("median_us").get<double>());
  EXPECT_LE(row.at("min_us").get<double>(), row.at("p99_us").get<double>());
  EXPECT_LE(row.at("median_low_us").get<double>(), row.at("median_us").get<double>());
  EXPECT_LE(row.at("median_us").get<double>(), row.at("median_high_us").get<double>());
  const double algbw = row.at("bytes").get<double>() / row.at("median_us").get<double>() / 1000;
  EXPECT_NEAR(row.at("algbw_gbs").get<double>(), algbw, algbw * 1e-6);
}

TEST(Bench, TheBenchWritesOneVerifiedRowForEachImplementationAndSize) {
  const json rows = measure({"all_reduce", "--ranks", "2", "--sizes", "8,64KiB"});
  ASSERT_TRUE(rows.is_array());
  std::set<std::pair<std::string, int>> seen;
  for (const json& row : rows) {
    expect_row(row);
    seen.emplace(row.at("impl"), row.at("bytes"));
    EXPECT_EQ(row.at("op"), "all_reduce");
    EXPECT_EQ(row.at("ranks"), 2);
    EXPECT_EQ(row.at("dtype"), "f32");
    EXPECT_EQ(row.at("buffers"), "private");
    EXPECT_EQ(row.at("data"), "static");
    if (row.at("impl") == "unisono") {
      EXPECT_EQ(row.at("backend"), "native");
      EXPECT_EQ(row.at("busbw_gbs"), row.at("algbw_gbs"));  // 2 (n-1) / n is 1 for two ranks
    }
  }
  EXPECT_EQ(seen, (std::set<std::pair<std::string, int>>{{"unisono", 8}, {"unisono", 65536}, {"roofline", 8}, {"roofline", 65536}}));
}

TEST(Bench, TheBenchMeasuresEveryOperationWithMoreRanksThanMostMachinesGiveUs) {
  const json rows = measure({"all", "--ranks", "3", "--sizes", "1000,20000", "--dtype", "i64", "--data", "touch", "--rounds", "1"});
  std::set<std::string> operations, counting_messages;
  for (const json& row : rows) {
    if (row.at("impl") != "unisono") continue;
    operations.insert(row.at("op"));
    if (row.at("op") != "barrier") expect_row(row);  // which moves no bytes
    EXPECT_EQ(row.at("data"), "touch");
    EXPECT_EQ(row.at("dtype"), "i64");
    if (row.at("op") == "all_gather") {
      EXPECT_EQ(row.at("bytes").get<int>() % (3 * 8), 0);
    }
    if (row.contains("messages_per_s")) {
      counting_messages.insert(row.at("op"));
      const double of_a_time = row.at("op") == "bidirectional" ? 2e6 : 1e6;
      EXPECT_NEAR(row.at("messages_per_s").get<double>() * row.at("median_us").get<double>() / of_a_time, 1, 1e-6);
      EXPECT_TRUE(row.at("op") != "message_rate" || row.at("bytes") == 1000) << "which is of small messages";
    }
  }
  EXPECT_EQ(operations.size(), collectives + 5);
  EXPECT_EQ(counting_messages, (std::set<std::string>{"ping_pong", "bandwidth", "bidirectional", "message_rate"}));
}

TEST(Bench, AllIsWhatTheRanksAndSizesAllow) {
  std::set<std::string> operations;
  for (const json& row : measure({"all", "--ranks", "1", "--sizes", "8KiB"})) operations.insert(row.at("op"));
  EXPECT_EQ(operations.size(), collectives);
  for (const char* left_out : {"send_recv", "ping_pong", "bandwidth", "bidirectional", "message_rate"})
    EXPECT_FALSE(operations.contains(left_out)) << left_out;
}

TEST(Bench, TheBenchTellsWhatTheComparisonOfCallsCosts) {
  const json rows = measure({"all_reduce", "--ranks", "2", "--sizes", "8", "--compare", "both"});
  std::set<std::string> impls;
  for (const json& row : rows) {
    expect_row(row);
    impls.insert(row.at("impl"));
    if (row.at("impl") == "unisono-unchecked") {
      EXPECT_GT(row.at("ratio").at("median").get<double>(), 0);
      EXPECT_LE(row.at("ratio").at("low"), row.at("ratio").at("high"));
    }
  }
  EXPECT_EQ(impls, (std::set<std::string>{"unisono", "unisono-unchecked", "roofline"}));
}

TEST(Bench, TheBenchTellsWhatTheRecordOfCallsCosts) {
  std::set<std::string> impls;
  for (const json& row : measure({"all_reduce", "--ranks", "2", "--sizes", "8", "--record", "both"})) impls.insert(row.at("impl"));
  EXPECT_EQ(impls, (std::set<std::string>{"unisono", "unisono-unrecorded", "roofline"}));
}

/// The results of a run on an engine, or nothing where this build has no such engine.
json measure_on(const std::string& backend, std::vector<std::string> arguments) {
  const TemporaryFolder folder;
  const std::string file = folder.path() + "/results.json";
  arguments.insert(arguments.begin(), {"bench", "--backend", backend, "--quick", "--json", file});
  RunningCommand command(unisono_command(arguments));
  const int code = command.wait(std::chrono::seconds(100));
  if (code == 1 && command.err().find("cannot be used") != std::string::npos) return nullptr;
  EXPECT_EQ(code, 0) << command.out() << command.err();
  return json::parse(contents(file), nullptr, false);
}

TEST(Bench, TheBenchMeasuresUnisonoOnTheEngineAskedForBesideTheLibraryItself) {
  const std::vector<std::string> peers = peers_of_this_build();
  for (const auto& [backend, peer] : {std::pair("gloo", "gloo"), std::pair("mpi", "openmpi"), std::pair("mpi", "mpich")}) {
    if (std::ranges::find(peers, peer) == peers.end()) continue;
    const json rows = measure_on(backend, {"all_reduce", "all_gather", "--ranks", "2", "--sizes", "1000,64KiB", "--peers", peer});
    ASSERT_TRUE(rows.is_array()) << backend << " beside " << peer;
    std::set<std::pair<std::string, std::string>> seen;
    for (const json& row : rows) {
      expect_row(row);
      seen.emplace(row.at("impl"), row.at("backend"));
    }
    EXPECT_TRUE(seen.contains({"unisono", backend})) << peer;
    EXPECT_TRUE(seen.contains({peer, peer}));
  }
}

TEST(Bench, TheBenchTakesRanksForProcessesOfSeveralHosts) {
  for (const std::string backend : {"tcp", "gloo"}) {
    const json rows = measure_on(backend, {"all_reduce", "broadcast", "--ranks", "4", "--hosts", "2", "--sizes", "1000,64KiB", "--rounds", "1"});
    if (rows.is_null()) continue;
    ASSERT_TRUE(rows.is_array());
    for (const json& row : rows) {
      expect_row(row);
      EXPECT_EQ(row.at("hosts"), 2);
      EXPECT_EQ(row.at("backend"), row.at("impl") == "unisono" ? backend : row.at("impl").get<std::string>());
    }
  }
}

class BenchPeer : public ::testing::TestWithParam<std::string> {};

TEST_P(BenchPeer, APeerIsMeasuredInTheSameProcesses) {
  const TemporaryFolder folder;
  const std::string file = folder.path() + "/results.json";
  RunningCommand command(
      unisono_command({"bench", "all_reduce", "--ranks", "2", "--sizes", "8,64KiB", "--peers", GetParam(), "--quick", "--json", file}));
  const int code = command.wait(std::chrono::seconds(100));
  if (code == 1 && command.err().find("was not found along PATH") != std::string::npos) GTEST_SKIP() << command.err();
  ASSERT_EQ(code, 0) << command.err();
  const json rows = json::parse(contents(file), nullptr, false);
  std::set<std::pair<std::string, int>> seen;
  for (const json& row : rows) {
    expect_row(row);
    seen.emplace(row.at("impl"), row.at("bytes"));
    EXPECT_EQ(row.contains("ratio"), row.at("impl") != "unisono");
    EXPECT_EQ(row.at("set"), GetParam() == "gloo" || GetParam() == "ucx" ? "plain" : GetParam());
  }
  for (const std::string& impl : {std::string("unisono"), std::string("roofline"), GetParam()})
    for (int bytes : {8, 65536}) EXPECT_TRUE(seen.contains({impl, bytes})) << impl << " " << bytes;
}

TEST_P(BenchPeer, APeerHasEveryOperationThatItsLibraryHas) {
  const TemporaryFolder folder;
  const std::string file = folder.path() + "/results.json";
  // Windows whose messages have places of their own, and such as share them; with 3 ranks one has no partner.
  RunningCommand command(
      unisono_command({"bench", "all", "--ranks", "3", "--sizes", "8,2MiB", "--peers", GetParam(), "--quick", "--rounds", "1", "--json", file}));
  const int code = command.wait(std::chrono::seconds(200));
  if (code == 1 && command.err().find("was not found along PATH") != std::string::npos) GTEST_SKIP() << command.err();
  ASSERT_EQ(code, 0) << command.err();
  for (const std::string& line : lines_of(command.out())) EXPECT_LE(width_of(line), 80U) << line;
  std::set<std::string> without;
  for (const auto rows = json::parse(contents(file), nullptr, false); const json& row : rows) {
    if (row.at("impl") == "unisono") without.insert(row.at("op"));
  }
  EXPECT_EQ(without.size(), collectives + 5);
  for (const auto rows = json::parse(contents(file), nullptr, false); const json& row : rows) {
    if (row.at("impl") == GetParam()) without.erase(row.at("op"));
  }
  if (GetParam() == "gloo")
    EXPECT_EQ(without, (std::set<std::string>{"reduce_scatter", "reduce_scatter_v", "gather_v", "scatter_v", "scan", "exscan"}));
  else if (GetParam() == "ucx") EXPECT_EQ(without.size(), collectives + 5 - 3);
  else EXPECT_EQ(without, std::set<std::string>());
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(BenchPeer);
INSTANTIATE_TEST_SUITE_P(Found, BenchPeer, ::testing::ValuesIn(peers_of_this_build()), [](const auto& about) { return about.param; });

TEST(Bench, ListsMayBeWrittenWithSpaces) {
  // A missing library is told first, so the words were understood: on this PATH it is Open MPI in every build.
  for (const std::vector<std::string>& peers : {std::vector<std::string>{"openmpi", "gloo"}, {"openmpi,", "gloo"}, {"openmpi,gloo"}}) {
    std::vector<std::string> words{"bench", "--quick", "--sizes", "8", "64", "--peers"};
    words.insert(words.end(), peers.begin(), peers.end());
    RunningCommand command(unisono_command(words), {.environment = {{"PATH", "/nowhere"}}});
    EXPECT_EQ(command.wait(), 1) << command.err();
    EXPECT_NE(command.err().find("the peer openmpi is not available"), std::string::npos) << command.err();
  }
  const json rows = measure({"--ranks", "2", "--sizes", "8", "64k", "all_reduce", "--compare", "on"});
  std::set<std::pair<std::string, int>> seen;
  for (const json& row : rows) seen.emplace(row.at("op"), row.at("bytes"));
  EXPECT_EQ(seen, (std::set<std::pair<std::string, int>>{{"all_reduce", 8}, {"all_reduce", 65536}}));

  const auto said = [](std::vector<std::string> words) {
    words.insert(words.begin(), "bench");
    RunningCommand command(unisono_command(words));
    EXPECT_EQ(command.wait(), 2);
    return command.err();
  };
  EXPECT_TRUE(said({"all_redcue"}).starts_with("unisono bench: unknown operation 'all_redcue'; did you mean 'all_reduce'?\n"));
  EXPECT_TRUE(said({"gloo"}).starts_with("unisono bench: 'gloo' is not an operation; did you mean '--peers gloo'?\n"));
  EXPECT_TRUE(said({"--peers", "glo"}).starts_with("unisono bench: unknown peer 'glo'; did you mean 'gloo'?\n"));
}

TEST(Bench, AMissingPeerEndsTheRunWithWhatToInstall) {
  for (const std::string peer : {"openmpi", "mpich"}) {
    // Without its launcher, or in a build without its driver: missing either way.
    RunningCommand command(unisono_command({"bench", "all_reduce", "--ranks", "2", "--sizes", "8", "--quick", "--peers", peer}),
                           {.environment = {{"PATH", "/nowhere"}}});
    EXPECT_EQ(command.wait(), 1) << command.out();
    EXPECT_EQ(command.out(), "");
    EXPECT_NE(command.err().find("the peer " + peer + " is not available"), std::string::npos) << command.err();
    EXPECT_NE(command.err().find("install lib" + peer + "-dev"), std::string::npos) << command.err();
  }
}

TEST(Bench, WrongUseIsRefusedAtOnceWithAUsageLine) {
  const std::vector<std::vector<std::string>> wrong = {{"frobnicate"},
                                                       {"--bogus"},
                                                       {"--peers", "horovod"},
                                                       {"--sizes", "0"},
                                                       {"--sizes", "8x"},
                                                       {"--sizes", ""},
                                                       {"--dtype", "f8"},
                                                       {"--ranks", "0"},
                                                       {"--ranks", "two"},
                                                       {"--data", "stale"},
                                                       {"--buffers", "round"},
                                                       {"--backend", "warp"},
                                                       {"--hosts", "0"},
                                                       {"--hosts", "3", "--ranks", "2"},
                                                       {"--hosts", "2", "--ranks", "2", "--backend", "native"},
                                                       {"--rounds", "0"},
                                                       {"--compare", "maybe"},
                                                       {"send_recv", "--ranks", "1"},
                                                       {"ping_pong", "--ranks", "1"},
                                                       {"message_rate", "--ranks", "2", "--sizes", "64KiB,1MiB"},
                                                       {"all", "--in-place"},
                                                       {"broadcast", "--in-place"},
                                                       {"broadcast", "--device", "cuda", "--explain"},
                                                       {"--json", "/nowhere/at/all.json"},
                                                       {"--plot", "/nowhere/at/all.svg"},
                                                       {"--fail-below", "1.0"},
                                                       {"--fail-below", "0", "--peers", "gloo"},
                                                       {"--fail-below", "quick", "--peers", "gloo"},
                                                       {"--baseline", "/nowhere/at/all.json"},
                                                       {"--from", "/nowhere/at/all.json"}};
  for (std::vector<std::string> arguments : wrong) {
    const std::string shown = ::testing::PrintToString(arguments);
    arguments.insert(arguments.begin(), "bench");
    RunningCommand command(unisono_command(arguments));
    EXPECT_EQ(command.wait(), 2) << shown << command.err();
    EXPECT_EQ(command.out(), "") << shown;
    EXPECT_NE(command.err().find("unisono bench"), std::string::npos) << shown << command.err();
  }
}

TEST(Bench, AnInterruptEndsEverythingAndShowsWhatThereIs) {
  const TemporaryFolder folder;
  const std::string file = folder.path() + "/results.json";
  RunningCommand command(unisono_command({"bench", "all_reduce", "--ranks", "2", "--sizes", "4MiB", "--rounds", "10000", "--json", file}),
                         {.stdio = RunningCommand::Stdio::terminal});
  ASSERT_TRUE(command.until_out_has("round 2")) << command.out();
  ASSERT_TRUE(command.until_out_has(" left")) << command.out();
  command.type("\x03");  // Ctrl-C
  EXPECT_EQ(command.wait(), 128 + SIGINT) << command.out();
  EXPECT_NE(command.out().find("ended by SIGINT"), std::string::npos) << command.out();
  EXPECT_TRUE(std::regex_search(command.out(), std::regex("\r\033\\[Kround [0-9]+ of 10000, plain, about [0-9]+ (s|min|h [0-9]+ min) left")))
      << command.out();
  const std::string after = command.out().substr(command.out().rfind("\r\033[K"));
  EXPECT_FALSE(std::regex_search(after, std::regex("round [0-9]+ of"))) << "the progress is not erased: " << after;
  // The measurements made until then are not lost.
  for (const char* part : {" of 10000 rounds", "× unisono", "summary: 1 result verified"})
    EXPECT_NE(command.out().find(part), std::string::npos) << part << "\n" << command.out();
  const json rows = json::parse(contents(file), nullptr, false);
  ASSERT_EQ(rows.size(), 2U) << rows;  // unisono and the roofline
  for (const json& row : rows) expect_row(row);
}

TEST(Info, InfoSaysWhatItFoundForPeopleAndForPrograms) {
  RunningCommand people(unisono_command({"info"}));
  ASSERT_EQ(people.wait(), 0) << people.err();
  for (const char* word : {"version", "backends", "native", "host", "shared memory", "limits", "timeouts"})
    EXPECT_NE(people.out().find(word), std::string::npos) << word << people.out();

  const TemporaryFolder folder;
  std::ofstream(folder.path() + "/libunisono_torch.so") << "a part of the library, no plug-in";
  std::ofstream(folder.path() + "/libunisono_warp.so") << "a plug-in that cannot be loaded";
  RunningCommand programs(unisono_command({"info", "--json"}),
                          {.environment = {{"UNISONO_TOKEN", "swordfish"}, {"UNISONO_TIMEOUT", "77"}, {"UNISONO_PLUGIN_PATH", folder.path()}}});
  ASSERT_EQ(programs.wait(), 0) << programs.err();
  const json facts = json::parse(programs.out(), nullptr, false);
  ASSERT_TRUE(facts.is_object()) << programs.out();
  EXPECT_EQ(facts.at("backends").at("native"), "available");
  EXPECT_EQ(facts.at("backends").at("serial"), "available");
  EXPECT_EQ(facts.at("launcher"), "none");
  EXPECT_GE(facts.at("host").at("cpus usable").get<int>(), 1);
  EXPECT_EQ(facts.at("timeouts").at("every call"), "77 s (UNISONO_TIMEOUT)");
  EXPECT_EQ(facts.at("environment").at("UNISONO_TIMEOUT"), "77");
  EXPECT_EQ(programs.out().find("swordfish"), std::string::npos) << "the token is a secret";
  EXPECT_EQ(facts.at("encryption").get<std::string>().substr(0, 31), "available (TLS 1.3 by OpenSSL 3");
  EXPECT_EQ(facts.at("remarks"), json::array());
  EXPECT_TRUE(facts.at("backends").contains("warp"));
  EXPECT_FALSE(facts.at("backends").contains("torch"));

  RunningCommand odd(unisono_command({"info", "--json"}), {.environment = {{"UNISONO_BACKND", "tcp"}, {"UNISONO_BACKEND", "natve"}}});
  ASSERT_EQ(odd.wait(), 0) << odd.err();
  EXPECT_EQ(json::parse(odd.out(), nullptr, false).at("remarks"), (json{"UNISONO_BACKND is unknown; did you mean UNISONO_BACKEND?",
                                                                        "UNISONO_BACKEND: unknown backend \"natve\"; did you mean \"native\"?"}));

  RunningCommand wrong(unisono_command({"info", "--bogus"}));
  EXPECT_EQ(wrong.wait(), 2);
}

}  // namespace
}  // namespace unisono::testing

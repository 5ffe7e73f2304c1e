// The command that simulates: its answers, its files, and what it refuses at once.
#include <gtest/gtest.h>

#include <sys/resource.h>

#include <chrono>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "running_command.h"

namespace unisono::testing {
namespace {

using Words = std::vector<std::string>;

struct Answer {
  int code = 0;
  std::string out, err;
};

Answer simulate(Words words) {
  words.insert(words.begin(), "simulate");
  RunningCommand command(unisono_command(std::move(words)), {});
  Answer answer;
  answer.code = command.wait(std::chrono::seconds(200));  // it computes, maybe beside many others
  answer.out = command.out();
  answer.err = command.err();
  return answer;
}

nlohmann::json json_of(Words words) {
  words.emplace_back("--json");
  const Answer answer = simulate(std::move(words));
  EXPECT_EQ(answer.code, 0) << answer.err;
  return nlohmann::json::parse(answer.out);
}

void expect_refused(const Words& words, const std::string& text) {
  const Answer answer = simulate(words);
  EXPECT_EQ(answer.code, 2) << ::testing::PrintToString(words);
  EXPECT_EQ(answer.out, "");
  std::string sentence = answer.err;
  for (auto at = sentence.find("\n  "); at != std::string::npos; at = sentence.find("\n  ", at)) sentence.replace(at, 3, " ");
  EXPECT_NE(sentence.find(text), std::string::npos) << answer.err;
  EXPECT_NE(answer.err.find("usage: unisono simulate"), std::string::npos) << answer.err;
}

TEST(SimulateCommand, TheCommandSaysWhatACallTakes) {
  const Answer answer = simulate({"--ranks", "64", "--ranks-per-host", "4", "--bytes", "1MiB", "--topology", "fat_tree", "--oversubscription", "2"});
  EXPECT_EQ(answer.code, 0) << answer.err;
  for (const char* word :
       {"all_reduce of 1 MiB", "64 on 16 hosts", "oversubscribed 2:1", "algorithm", "time", "rounds", "messages", "connections of a rank",
        "memory of a rank", "host up", "start", "join", "host exchange", "first barrier", "all at once", "by rank"})
    EXPECT_NE(answer.out.find(word), std::string::npos) << word << "\n" << answer.out;
}

TEST(SimulateCommand, TheCommandAnswersInJson) {
  const nlohmann::json json = json_of(
      {"--operation", "all_gather", "--bytes", "64KiB", "--ranks", "32", "--topology", "dragonfly_plus", "--ports", "8", "--algorithm", "ring"});
  EXPECT_EQ(json.at("algorithm"), "ring");
  EXPECT_EQ(json.at("links").size(), 5U);
  EXPECT_EQ(json.at("links")[0].at("all_bytes"), json.at("message_bytes"));
  EXPECT_GT(json.at("us"), 31 * 20.0);
  EXPECT_EQ(json.at("start").size(), 3U);
  EXPECT_EQ(json.at("start").at("as it is").at("connections_per_rank"), 31);
  const nlohmann::json of_hosts = json_of({"--operation", "barrier", "--ranks", "256", "--ranks-per-host", "64"}).at("start");
  EXPECT_LT(of_hosts.at("as it is").at("requests"), of_hosts.at("by rank").at("requests"));
}

TEST(SimulateCommand, TheCommandTakesParametersOfTheNetwork) {
  const auto us = [](Words words) {
    words.insert(words.end(), {"--bytes", "4MiB", "--algorithm", "ring", "--without-start"});
    return json_of(std::move(words)).at("us").get<double>();
  };
  const double usual = us({});
  EXPECT_LT(us({"--link-gbit", "100", "--ns-per-byte", "0.08"}), usual);
  EXPECT_GT(us({"--latency-us", "100"}), usual + 30 * 80);
  EXPECT_GT(us({"--late", "3:5000"}), usual + 4000);
  EXPECT_GT(us({"--slow", "3:20"}), usual);
  EXPECT_GT(us({"--cores", "2", "--hosts-per-machine", "16", "--work-ns-per-byte", "1"}), usual);
  EXPECT_EQ(json_of({"--dead-link", "host:3"}).at("unfinished_ranks"), 16);
}

TEST(SimulateCommand, TheCommandComparesTheAlgorithms) {
  TemporaryFolder folder;
  const std::string path = folder.path() + "/times.svg";
  const nlohmann::json json = json_of({"--ranks", "16", "--without-start", "--svg", path});
  ASSERT_TRUE(json.contains("crossing"));
  EXPECT_EQ(json.at("crossing").at("sizes").size(), 14U);
  EXPECT_GE(json.at("crossing").at("points").size(), 1U);
  const std::string svg = contents(path);
  EXPECT_TRUE(svg.starts_with("<svg xmlns"));
  EXPECT_EQ(count(svg, "<circle"), 14);  // the fastest algorithm of each size
  const Answer text = simulate({"--ranks", "16", "--without-start", "--crossing"});
  EXPECT_NE(text.out.find("is faster than"), std::string::npos) << text.out;
}

TEST(SimulateCommand, TheCommandDrawsAPictureThatIsXml) {
  if (std::system("command -v python3 >/dev/null") != 0) GTEST_SKIP() << "python3, which reads the picture, is missing on this machine";
  TemporaryFolder folder;
  const std::string path = folder.path() + "/times.svg";
  ASSERT_EQ(simulate({"--ranks", "8", "--operation", "broadcast", "--without-start", "--svg", path}).code, 0);
  const std::string reads = "python3 -c 'import sys, xml.etree.ElementTree as tree; tree.parse(sys.argv[1])' ";
  EXPECT_EQ(std::system((reads + path).c_str()), 0);
}

TEST(SimulateCommand, TheCommandFollowsAHundredThousandRanks) {
  const nlohmann::json ring = json_of({"--ranks", "100000", "--algorithm", "ring", "--bytes", "1GiB"});
  EXPECT_EQ(ring.at("computed_ranks"), 1);
  EXPECT_EQ(ring.at("rounds"), 2 * 99999 + 9);
  EXPECT_GT(ring.at("us"), 2 * 99999 * 20.0);
  EXPECT_GT(ring.at("start").at("all at once").at("seconds"), 1000);
  EXPECT_LT(ring.at("start").at("as it is").at("connections_per_rank"), 100);
  const nlohmann::json levels = json_of({"--ranks", "100000", "--ranks-per-host", "100", "--bytes", "1MiB", "--without-start"});
  EXPECT_EQ(levels.at("algorithm"), "two_levels");
  rusage use{};
  ASSERT_EQ(::getrusage(RUSAGE_CHILDREN, &use), 0);
  EXPECT_LT(use.ru_maxrss, 2L << 20);  // kibibytes, of the largest one
}

TEST(SimulateCommand, TheCommandRefusesWhatItDoesNotKnow) {
  expect_refused({"--operation", "all_reduec"}, "--operation must be barrier, all_reduce");
  expect_refused({"--topology", "torus"}, "--topology must be flat, fat_tree, dragonfly_plus or rail_optimised");
  expect_refused({"--algorithm", "bubble"}, "all_reduce has no schedule 'bubble'; it has two_levels, everything");
  expect_refused({"--algorithm", "two_levels"}, "cannot be done by 'two_levels'");
  expect_refused({"--ranks", "100001"}, "--ranks must be a whole number from 2 to 100000");
  expect_refused({"--ranks", "1"}, "--ranks must be");
  expect_refused({"--ranks", "4", "--ranks-per-host", "8"}, "--ranks-per-host must be at most the number of ranks, 4");
  expect_refused({"--ranks", "4", "--ranks-per-host", "4", "--algorithm", "ring"}, "in shared memory");
  expect_refused({"--bytes", "many"}, "'many' is no size");
  expect_refused({"--operation", "broadcast", "--root", "16"}, "--root must be a rank from 0 to 15");
}

TEST(SimulateCommand, TheCommandRefusesMoreRanksThanATopologyHas) {
  expect_refused({"--ranks", "100000", "--topology", "fat_tree"}, "a fat_tree of switches with 64 ports connects at most 65536 hosts");
  expect_refused({"--ranks", "17", "--topology", "fat_tree", "--ports", "4"}, "connects at most 16 hosts, and the ranks are on 17");
  expect_refused({"--ranks", "100000", "--ranks-per-host", "8", "--topology", "rail_optimised"}, "connects at most 8192 hosts");
  EXPECT_EQ(simulate({"--ranks", "16", "--topology", "fat_tree", "--ports", "4"}).code, 0);
}

TEST(SimulateCommand, TheCommandRefusesWhatDoesNotFitTogether) {
  expect_refused({"--late", "16:5"}, "--late must be of a rank from 0 to 15, not '16'");
  expect_refused({"--late", "3"}, "--late must be two values with a colon between them");
  expect_refused({"--slow", "x:2"}, "--slow must be of a rank");
  expect_refused({"--dead-link", "leaf:0"}, "16 hosts that are connected as flat have no links 'leaf'");
  expect_refused({"--dead-link", "host:16"}, "--dead-link must be host:0 to host:15, not 'host:16'");
  expect_refused({"--dead-link", "global:0", "--topology", "dragonfly_plus"}, "connected as dragonfly_plus have no links 'global'");
  expect_refused({"--svg", "/nowhere/times.svg"}, "cannot write /nowhere/times.svg");
  expect_refused({"--ranks", "100000", "--operation", "broadcast", "--algorithm", "chain", "--bytes", "64MiB"}, "'chain' on 100000 ranks has");
}

TEST(SimulateCommand, ATerminalShowsWhatIsSimulatedUntilThatIsDone) {
  const std::vector<std::string> words = unisono_command({"simulate", "--ranks", "16", "--crossing"});
  RunningCommand shown(words, on_terminal()), piped(words);
  EXPECT_EQ(shown.wait(), 0) << shown.out();
  for (const char* what : {"simulating all_reduce of 16 ranks", "simulating the start of the job", "comparing the algorithms from 8 B to 1 GiB"})
    EXPECT_GE(count(shown.out(), std::string("\r\x1b[K") + what), 1) << what << shown.out();
  const std::string report = shown.out().substr(shown.out().rfind("\r\x1b[K"));
  EXPECT_EQ(count(report, "comparing"), 0) << report;
  EXPECT_EQ(piped.wait(), 0);
  EXPECT_EQ(piped.err(), "");
  EXPECT_EQ(count(piped.out(), "\r"), 0) << piped.out();
}

}  // namespace
}  // namespace unisono::testing

// `unisono status` on one of several hosts: the ranks of the others are shown as their launchers tell them.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "job.h"

namespace unisono::testing {
namespace {

using Json = nlohmann::json;

/// Words that run a launcher where no process of the other hosts can be seen, and beside it `unisono status` once for each line of input.
std::vector<std::string> beside_status(const std::vector<std::string>& launcher) {
  std::vector<std::string> words{"/usr/bin/unshare",
                                 "--pid",
                                 "--fork",
                                 "--mount-proc",
                                 "--kill-child",
                                 "/bin/sh",
                                 "-c",
                                 R"sh("$@" > /dev/null 2>&1 & while read line; do ")sh" UNISONO_COMMAND R"sh(" $line; echo "status $?"; done)sh",
                                 "sh"};
  words.insert(words.end(), launcher.begin(), launcher.end());
  return words;
}

/// Returns the output of `unisono status` there.
std::string status_on(RunningCommand& host, const std::string& words) {
  const std::size_t before = host.out().size();
  host.type(words + "\n");
  if (!host.until([&] { return host.out().find("status ", before) != std::string::npos && host.out().ends_with('\n'); })) return "no answer";
  const std::string all = host.out().substr(before);
  return all.substr(0, all.rfind("status "));
}

TEST(StatusOfHosts, TheStatusShowsTheRanksOfAllHosts) {
  MAKE_HOSTS(hosts, 2);
  const auto words = [&](int node) {
    return node_words({.nodes = 2, .node = node, .master = hosts.address(0)}, {RANK_HELPER, "late", "1", "rests"});
  };
  const auto first = hosts.start(0, words(0), secret);
  const auto second = hosts.start(1, beside_status(words(1)), secret);
  ASSERT_TRUE(first->until_out_has("ready", 2)) << first->out() << first->err();
  Json job;
  ASSERT_TRUE(eventually([&] {
    const Json jobs = Json::parse(status_on(*second, "status --json"), nullptr, false);
    job = jobs.is_array() && jobs.size() == 1 ? jobs.at(0) : Json();
    return job.is_object() && job.at("ranks").size() == 4 && !job.at("late").empty();
  })) << second->out().substr(second->out().size() - std::min<std::size_t>(second->out().size(), 4000))
      << second->err();
  EXPECT_EQ(job.at("size"), 4);
  for (int rank = 0; rank < 4; ++rank) {
    const Json& each = job.at("ranks").at(static_cast<std::size_t>(rank));
    EXPECT_EQ(each.at("rank"), rank);
    EXPECT_EQ(each.at("host"), rank < 2 ? "host0" : "host1");
    EXPECT_EQ(each.at("state"), rank == 1 ? "program" : "waiting");
    EXPECT_GT(each.at("memory_bytes").get<double>(), 1 << 20);
    EXPECT_EQ(each.at("bytes"), rank == 1 ? 12'000 : 16'000);
  }
  EXPECT_EQ(job.at("late").at(0).at("rank"), 1);
  const std::string late = job.at("late").at(0).at("text");
  EXPECT_NE(late.find("it is in the program for "), std::string::npos) << late;
  EXPECT_NE(late.find("last seen in all_reduce #3 of world (rank_helper.cpp:"), std::string::npos) << late;
  const std::string table = status_on(*second, "status --stacks");
  EXPECT_NE(table.find("4 of 4 ranks are on 2 hosts"), std::string::npos) << table;
  EXPECT_NE(table.find("\n  on host0\n     0  waiting"), std::string::npos) << table;
  EXPECT_NE(table.find("\n  on host1\n     2  waiting"), std::string::npos) << table;
  EXPECT_EQ(table.find("what rank 1 does"), std::string::npos) << "a process of another host has no stack here: " << table;
}

}  // namespace
}  // namespace unisono::testing

// The programs of examples/hangs stand still, and `unisono status` and `unisono trace` say which rank is to blame, in which call, and at which line.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "launched_jobs.h"
#include "running_command.h"

namespace unisono::testing {
namespace {

using Json = nlohmann::json;

/// Returns "regression.cpp:57", the line of the source of a hang that has this text.
std::string line_with(const std::string& hang, const std::string& text) {
  std::ifstream source(std::string(HANGS_SOURCE) + "/" + hang + ".cpp");
  int number = 0;
  for (std::string line; std::getline(source, line);) {
    ++number;
    if (line.find(text) != std::string::npos) return hang + ".cpp:" + std::to_string(number);
  }
  ADD_FAILURE() << "no line of " << hang << ".cpp has " << text;
  return {};
}

/// A hang that runs, with what `unisono status` says of it when somebody has waited for a second.
class Hang {
 public:
  explicit Hang(const std::string& name, int ranks = 4, std::vector<std::string> arguments = {}) : program_(folder_.path() + "/" + name) {
    std::filesystem::create_symlink(std::string(HANGS) + "/" + name, program_);  // its jobs are told from those of other tests by its path
    job_.emplace(run_plain({"-n", std::to_string(ranks), "--trace", traces()}, std::move(arguments), program_));
    EXPECT_TRUE(eventually([&] { return look(); })) << status_.dump(1) << job_->out() << job_->err();
  }

  const TemporaryFolder& folder() const { return folder_; }
  /// The first delay, to which a reader looks.
  Json first() const { return status_.is_null() || status_.at("late").empty() ? Json::object() : status_.at("late").at(0); }
  std::string text() const { return first().value("text", "") + " → " + first().value("advice", ""); }
  std::size_t delays() const { return status_.is_null() ? 0 : status_.at("late").size(); }
  const Json& rank(int number) const { return status_.at("ranks").at(static_cast<std::size_t>(number)); }
  std::string trace_of_it() const {
    RunningCommand trace(unisono_command({"trace", traces()}));
    EXPECT_EQ(trace.wait(), 0) << trace.err();
    return unwrapped(trace.out());
  }
  void kill() { job_.reset(); }

  /// Expects that all of these stand in the sentences of status, of trace beside the running job, and of trace when the job is over.
  void expect_told(const std::vector<std::string>& words) {
    const std::string beside = trace_of_it();
    job_->send(SIGINT);
    EXPECT_NE(job_->wait(), 0);
    const std::string after = trace_of_it();
    for (const std::string& word : words) {
      EXPECT_NE(text().find(word), std::string::npos) << "status: " << text() << "\nlacks: " << word;
      EXPECT_NE(beside.find(word), std::string::npos) << "trace: " << beside << "\nlacks: " << word;
      EXPECT_NE(after.find(word), std::string::npos) << "trace afterwards: " << after << "\nlacks: " << word;
    }
    EXPECT_EQ(beside.find("is the slowest"), std::string::npos) << beside;
  }

 private:
  std::string traces() const { return folder_.path() + "/traces"; }
  bool look() {
    RunningCommand command(unisono_command({"status", "--once", "--json"}));
    EXPECT_EQ(command.wait(), 0) << command.err();
    for (const Json& job : Json::parse(command.out())) {
      if (job.at("program").get<std::string>().find(program_) == std::string::npos) continue;
      status_ = job;
      return !job.at("late").empty() && is_settled(job);
    }
    return false;
  }
  // Each rank has stood where it is for a second.
  static bool is_settled(const Json& job) {
    for (const Json& rank : job.at("ranks")) {
      if (rank.at("state") == "waiting" && rank.at("now_ns").get<double>() - rank.at("call").at("begun_ns").get<double>() < 1e9) return false;
    }
    return true;
  }

  TemporaryFolder folder_;
  std::string program_;
  std::optional<RunningCommand> job_;
  Json status_;
};

TEST(Hangs, ARankLeavesOutACall) {
  Hang hang("regression");
  EXPECT_EQ(hang.first().at("rank"), 2) << hang.text();
  EXPECT_EQ(hang.first().at("call").at("operation"), "all_reduce");
  const std::string left_out = line_with("regression", "all_reduce(gradient"), taken = line_with("regression", "send_recv(own");
  EXPECT_EQ(hang.first().at("call").at("place"), left_out);
  EXPECT_EQ(hang.rank(2).at("call").at("place"), taken);
  EXPECT_EQ(hang.delays(), 1U) << "what follows from it is not told";
  hang.expect_told({"rank 2 has not come to all_reduce #", left_out, "ranks 0, 1 and 3 wait", taken, "see what leads rank 2 past"});
}

TEST(Hangs, ARankCallsTwoGroupsInTheOtherOrder) {
  Hang hang("evaluation");
  EXPECT_EQ(hang.first().at("rank"), 3) << hang.text();
  const std::string first = line_with("evaluation", "all_reduce(weights_"), other = line_with("evaluation", "all_reduce(fresh");
  EXPECT_EQ(hang.first().at("call").at("place"), first);
  EXPECT_EQ(hang.first().at("call").at("group"), "world");
  EXPECT_EQ(hang.rank(3).at("call").at("place"), other);
  EXPECT_EQ(hang.rank(3).at("call").at("group"), "{0, 1, 2, 3}");
  hang.expect_told({"rank 3 has not come to all_reduce #", "of world", first, "ranks 0, 1 and 2 wait", "of {0, 1, 2, 3}", other, "in one order"});
}

TEST(Hangs, ARankWaitsForItself) {
  Hang hang("histogram", 3);
  EXPECT_EQ(hang.first().at("rank"), 1) << hang.text();
  EXPECT_EQ(hang.first().at("call").at("operation"), "barrier");
  EXPECT_EQ(hang.first().at("call").at("place"), line_with("histogram", "barrier()"));
  EXPECT_EQ(hang.rank(1).at("state"), "program");
  EXPECT_NE(hang.text().find("waits for a mutex that it has locked itself"), std::string::npos) << hang.text();
  hang.expect_told({"rank 1 has not come to barrier #", "it is in the program", "last seen in barrier #"});
}

TEST(Hangs, AMessageHasAnotherTag) {
  Hang hang("diffusion");
  EXPECT_EQ(hang.first().at("rank"), 2) << hang.text();
  EXPECT_EQ(hang.first().at("call").at("operation"), "recv");
  const std::string sent = line_with("diffusion", "send(own"), wanted = line_with("diffusion", "recv(got");
  EXPECT_EQ(hang.first().at("call").at("place"), wanted);
  EXPECT_EQ(hang.first().at("call").at("peer"), 2);
  const int tag = hang.first().at("call").at("tag");
  hang.expect_told({"rank 3 waits in recv #", "for a message of rank 2 with tag " + std::to_string(tag),
                    "rank 2 has sent it one with tag " + std::to_string(tag + 1), sent, wanted, "sender, receiver, group and tag must fit"});
}

TEST(Hangs, ARankReadsWhatNobodyWrites) {
  const TemporaryFolder data;
  const std::string pipe = data.path() + "/part1.txt";
  std::ofstream(data.path() + "/part0.txt") << "1 2 3\n";
  std::ofstream(data.path() + "/part2.txt") << "4 5 6\n";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  Hang hang("shards", 3, {data.path()});
  EXPECT_EQ(hang.first().at("rank"), 1) << hang.text();
  EXPECT_EQ(hang.first().at("call").at("place"), line_with("shards", "all_reduce(own"));
  EXPECT_EQ(hang.rank(1).at("state"), "program");
  EXPECT_NE(hang.text().find("waits to open the named pipe " + pipe), std::string::npos) << hang.text();
  hang.expect_told({"rank 1 has not come to all_reduce #", "it is in the program", "last seen in barrier #", line_with("shards", "barrier()")});
}

TEST(Hangs, OneRankAloneCallsACollective) {
  Hang hang("simulation");
  EXPECT_EQ(hang.first().at("rank"), 0) << hang.text();
  const std::string missed = line_with("simulation", "all_reduce(places_"), alone = line_with("simulation", "gather(places_");
  EXPECT_EQ(hang.first().at("call").at("place"), missed);
  EXPECT_EQ(hang.rank(0).at("call").at("operation"), "gather");
  EXPECT_EQ(hang.rank(0).at("call").at("place"), alone);
  hang.expect_told({"rank 0 has not come to", missed, "ranks 1, 2 and 3 wait", "it is in gather #", alone});
}

}  // namespace
}  // namespace unisono::testing

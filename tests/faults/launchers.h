#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "faults.h"

namespace unisono::testing {

/// A job of several launchers whose ranks train with fault_rank's mode "elastic".
struct Plan {
  std::string nodes = "2", ranks = "1:2";
  int restarts = 6;
  int steps = 60, size = 4;
  std::string moment, victims = "-";
  int step = 20;
  std::string grace = "30";
  std::string backend = "native";
  std::string program = FAULT_RANK;
};

/// The launchers of a job, each of which stands for a host.
class Launchers {
 public:
  /// They meet at a free port of loopback.
  explicit Launchers(Plan plan) : Launchers(std::move(plan), {"--master-addr", "127.0.0.1", "--master-port", std::to_string(free_port())}) {}
  /// `place`: the flags that say where they meet.
  Launchers(Plan plan, std::vector<std::string> place) : plan_(std::move(plan)), place_(std::move(place)) {}

  /// Starts a launcher.
  RunningCommand& start(const std::vector<std::string>& flags = {}, const Variables& variables = {}) {
    std::vector<std::string> words{
        "run",     "-n",       plan_.ranks, "--nnodes", plan_.nodes, "--last-call", "0.5", "--max-restarts", std::to_string(plan_.restarts),
        "--grace", plan_.grace};
    words.insert(words.end(), place_.begin(), place_.end());
    words.insert(words.end(), flags.begin(), flags.end());
    words.insert(words.end(), {"--", plan_.program, "elastic", std::to_string(plan_.steps), std::to_string(plan_.size), plan_.moment, plan_.victims,
                               std::to_string(plan_.step)});
    Variables all{{"TEST_INIT_BACKEND", plan_.backend}, {"UNISONO_LOG", "warning"}, {"UNISONO_TIMEOUT", "60"}};
    all.merge(Variables(end_of_training_));
    for (const auto& [name, value] : variables) all[name] = value;
    launchers_.push_back(std::make_unique<RunningCommand>(unisono_command(words), RunningCommand::Options{.environment = all}));
    return *launchers_.back();
  }
  void start_two() {
    start({"--node-rank", "0"});
    start({"--node-rank", "1"});
  }
  RunningCommand& operator[](std::size_t launcher) { return *launchers_[launcher]; }
  const std::vector<std::unique_ptr<RunningCommand>>& all() const { return launchers_; }

  std::string out() const { return joined(&RunningCommand::out); }
  std::string err() const { return joined(&RunningCommand::err); }

  /// All members have ended well, in one group, with the same account of the job.
  void expect_done(int size, const std::string& places = {}, const std::string& sizes = {}) const {
    const std::string all = out();
    EXPECT_EQ(count(all, "WRONG"), 0) << all;
    EXPECT_EQ(count(all, "done as rank"), size) << all << err();
    for (int r = 0; r < size; ++r) EXPECT_EQ(count(all, fmt::format("done as rank {} of {},", r, size)), 1) << all;
    const std::string account = all.substr(std::min(all.find("places"), all.size()));
    ASSERT_FALSE(account.empty()) << err();
    EXPECT_EQ(count(all, account.substr(0, account.find('\n'))), size) << all;
    if (!places.empty()) {
      EXPECT_EQ(count(all, fmt::format("places {}, ", places)), size) << all;
    }
    if (!sizes.empty()) {
      EXPECT_EQ(sizes_in(account), sizes) << all;
    }
    EXPECT_EQ(count(err(), "first cause"), 0) << err();
  }

  void expect_nothing_left_of_all() const {
    for (const auto& launcher : launchers_) {
      if (const auto at = launcher->out().find("ready "); at != std::string::npos) {
        const std::string line = launcher->out().substr(at, launcher->out().find('\n', at) - at);
        expect_nothing_left(line.substr(line.rfind(' ') + 1));
      }
    }
  }

 private:
  std::string joined(const std::string& (RunningCommand::*text)() const) const {
    std::string all;
    for (const auto& launcher : launchers_) all += (*launcher.*text)();
    return all;
  }

  const Plan plan_;
  const std::vector<std::string> place_;
  const Variables end_of_training_ = end_of_training();
  std::vector<std::unique_ptr<RunningCommand>> launchers_;
};

}  // namespace unisono::testing

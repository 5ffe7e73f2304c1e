#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "running_command.h"

namespace unisono::testing {

/// The identity of a job whose rank 0 has said that it is ready.
inline std::string job_of(const RunningCommand& job) {
  const std::string pid = word_after(job.out(), "[0] ready ");
  return word_after(job.out(), "[0] ready " + pid + " ");
}

inline pid_t pid_of(const RunningCommand& job, int rank) { return std::stoi(word_after(job.out(), tag(rank) + "ready ")); }

/// Ranks 1 and 2 answer SIGTERM and go on; rank 0 exits with 3 as soon as they are ready to.
inline std::vector<std::string> stubborn_but_for_rank_zero() {
  return {"play", "wait 1;wait 2;exit 3", "answer;say ready;tell 1;rest", "answer;say ready;tell 2;rest"};
}

inline void expect_nothing_left(const std::string& id) {
  ASSERT_EQ(id.size(), 32u);
  EXPECT_TRUE(eventually([&] { return processes_of_job(id).empty(); })) << processes_of_job(id).size() << " processes are left";
}

}  // namespace unisono::testing

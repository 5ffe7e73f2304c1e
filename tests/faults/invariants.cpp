#include "invariants.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

namespace unisono::testing {
namespace {

constexpr int most_descriptors = 200;

/// The word behind "here PID " or "ready PID ", of any rank.
std::string id_of(const RunningCommand& job) {
  for (const char* key : {"ready ", "here "}) {
    const std::string pid = word_after(job.out(), std::string("] ") + key);
    if (!pid.empty()) return word_after(job.out(), fmt::format("] {}{} ", key, pid));
  }
  return "";
}

void expect_named(const std::string& error, int rank, const Ending& ending) {
  EXPECT_TRUE(error.starts_with(ending.error + " ")) << "rank " << rank << ": " << error;
  const std::string culprit = word_after(error, "culprit=");
  const auto is_one_of = [&](int each) { return culprit == std::to_string(each); };
  EXPECT_TRUE(std::ranges::any_of(ending.culprits, is_one_of)) << "rank " << rank << ": " << error;
  if (ending.error == "PeerFailed") {
    EXPECT_TRUE(ending.causes.contains(word_after(error, "cause="))) << "rank " << rank << ": " << error;
  }
  EXPECT_NE(word_after(error, "op="), "") << error;
  if (!ending.has_joined) return;
  EXPECT_NE(word_after(error, "host="), "") << error;
  EXPECT_EQ(word_after(error, "rank="), std::to_string(rank)) << error;
  EXPECT_NE(word_after(error, "group="), "") << error;
  EXPECT_NE(word_after(error, "seq="), "0") << error;
}

/// Returns whether the socket of this name, without its @, is held by another job of this machine: by a launcher that lives, or for the ranks of
/// another launcher.
bool is_of_another_job(std::string_view name, const std::string& job_id) {
  const std::string launchers = fmt::format("unisono-launcher-{}-", ::geteuid());
  if (name.starts_with(launchers)) return ::kill(std::stoi(std::string(name.substr(launchers.size()))), 0) == 0;
  return name.starts_with("unisono-ranks-") && (job_id.empty() || name.find(job_id) == std::string_view::npos);
}

/// Returns the name of a socket that is left of the job; empty if there is none.
std::string socket_left(const std::string& job_id) {
  const std::string sockets = contents("/proc/net/unix"), mark = "@unisono-";
  for (std::size_t at = 0; (at = sockets.find(mark, at)) != std::string::npos; ++at) {
    const std::string name = sockets.substr(at + 1, sockets.find('\n', at) - at - 1);
    if (!is_of_another_job(name, job_id)) return name;
  }
  return "";
}

}  // namespace

void expect_clean_host(const std::string& job_id) {
  expect_nothing_left(job_id);
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    if (!entry.is_regular_file()) continue;  // folders are those of other tests
    EXPECT_EQ(entry.path().filename().string().find("unisono"), std::string::npos) << entry.path();
  }
  // Other jobs of this machine may just be handing over their memory.
  EXPECT_TRUE(eventually([&] { return socket_left(job_id).empty(); })) << socket_left(job_id);
  RunningCommand next(faulty_job(2, {"rounds", "2", "10"}));
  EXPECT_EQ(next.wait(std::chrono::seconds(60)), 0) << next.out() << next.err();
}

void expect_ending(RunningCommand& job, const Ending& ending, std::chrono::seconds limit) {
  EXPECT_EQ(job.wait(limit), ending.code) << job.out() << job.err();
  for (int r = 0; r < ending.ranks; ++r) {
    if (std::ranges::find(ending.culprits, r) != ending.culprits.end()) continue;
    const auto lines = lines_of_rank(job, r);
    expect_named(line_of(lines, "error "), r, ending);
    if (!ending.has_joined) continue;
    expect_later_calls_threw_the_same(lines);
    EXPECT_LT(std::stoi("0" + line_of(lines, "descriptors ")), most_descriptors) << job.out();
  }
  EXPECT_EQ(count(job.out(), "SUCCEEDED") + count(job.out(), "wrong result") + count(job.out(), "FINALIZED"), 0) << job.out();
  expect_no_crash(job);
  EXPECT_EQ(count(job.err(), "first cause: rank"), 1) << job.err();
  const std::string blamed = word_after(job.err(), "first cause: rank ");
  EXPECT_TRUE(std::ranges::any_of(ending.culprits, [&](int each) { return blamed == std::to_string(each); })) << job.err();
  expect_clean_host(id_of(job));
}

}  // namespace unisono::testing

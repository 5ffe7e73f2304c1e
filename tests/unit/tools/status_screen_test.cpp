// `unisono status` on a terminal of any size.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "launch/output/output.h"
#include "launch/output/sink.h"
#include "status/report.h"

namespace unisono::tools {
namespace {

constexpr std::uint64_t second = 1'000'000'000, now = 1000 * second;

/// A job whose ranks wait for the last one, with sentences and lines that are longer than a narrow terminal.
JobFacts stalled_job(int ranks) {
  JobFacts job;
  job.name = "0123";
  job.program = "python train.py --model large --data /somewhere/far/away/in/a/folder";
  job.size = ranks;
  job.age_ns = 990 * second;
  for (int number = 0; number < ranks; ++number) {
    const bool is_late = number == ranks - 1;
    RankFacts rank;
    rank.record.rank = number;
    rank.record.size = ranks;
    rank.record.now = now;
    rank.record.bytes = 1U << 30;
    rank.process.lives = true;
    rank.process.memory_bytes = 123U << 20;
    rank.record.recent.push_back({.operation = "reduce_scatter",
                                  .kind = Operation::reduce_scatter,
                                  .group = "world",
                                  .place = "train.cpp:57",
                                  .state = is_late ? recorder::CallState::done : recorder::CallState::waiting,
                                  .sequence = is_late ? 840U : 841U,
                                  .begun = now - 754 * second,
                                  .done = is_late ? now - 753 * second : 0,
                                  .waited_for = is_late ? -1 : ranks - 1,
                                  .waited_count = 1});
    job.ranks.push_back(rank);
  }
  return job;
}

/// Returns the lines of a screen without the codes that put them there.
std::vector<std::string> lines_on(int columns, int rows, const std::vector<JobFacts>& jobs) {
  const auto terminal = launcher::open_pseudo_terminal(winsize{static_cast<unsigned short>(rows), static_cast<unsigned short>(columns), 0, 0});
  if (!terminal) throw std::runtime_error("there is no terminal");
  std::string text = screen_text(jobs, terminal->writing.get());
  EXPECT_TRUE(text.starts_with("\033[H") && text.ends_with("\033[J")) << text;
  text = text.substr(3, text.size() - 6);
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    EXPECT_TRUE(line.ends_with("\033[K")) << line;
    lines.push_back(line.substr(0, line.find("\033[K")));
  }
  return lines;
}

std::size_t widest(const std::vector<std::string>& lines) {
  std::size_t most = 0;
  for (const std::string& line : lines) most = std::max(most, launcher::columns_of(line));
  return most;
}

TEST(StatusScreen, TheScreenFitsIntoATerminalOfAnySize) {
  for (const int columns : {2, 20, 40, 60, 79, 80, 81, 200}) {
    for (const int rows : {2, 10, 24, 60}) {
      const auto lines = lines_on(columns, rows, {stalled_job(12)});
      EXPECT_LT(widest(lines), static_cast<std::size_t>(columns)) << rows;
      EXPECT_LT(lines.size(), static_cast<std::size_t>(rows)) << columns;
    }
  }
}

TEST(StatusScreen, TheScreenSaysInANarrowTerminalWhoIsLate) {
  const auto lines = lines_on(60, 24, {stalled_job(8)});
  std::string text;
  for (const std::string& line : lines) text += " " + line.substr(std::min(line.find_first_not_of(' '), line.size()));
  EXPECT_TRUE(lines.at(0).starts_with("job 0123: python train.py")) << lines.at(0);
  EXPECT_NE(text.find("rank 7 has not come to reduce_scatter #841 of world (train.cpp:57)"), std::string::npos) << text;
  for (int rank = 0; rank < 8; ++rank) {
    const std::string line = fmt::format("  {:>4}  {}", rank, rank == 7 ? "program" : "waiting");
    EXPECT_TRUE(std::ranges::any_of(lines, [&](const std::string& each) { return each.starts_with(line); })) << line;
  }
}

TEST(StatusScreen, TheScreenSaysThatThereIsMore) {
  const auto lines = lines_on(80, 10, {stalled_job(12), stalled_job(3)});
  ASSERT_EQ(lines.size(), 9U);
  EXPECT_TRUE(lines.back().starts_with("  … ")) << lines.back();
  EXPECT_NE(lines.back().find("more lines: unisono status --once"), std::string::npos) << lines.back();
}

// A failure before shrink_group matters no more.
TEST(StatusText, TheTextTellsTheFailureOfARankThatDoesNotGoOn) {
  JobFacts job = stalled_job(2);
  job.ranks[0].record.failure = "rank 5 was killed";
  job.ranks[0].record.state = recorder::RankState::failed;
  EXPECT_NE(status_text(job).find("rank 0 failed: rank 5 was killed"), std::string::npos) << status_text(job);
  job.ranks[0].record.state = recorder::RankState::running;
  EXPECT_EQ(status_text(job).find("failed"), std::string::npos) << status_text(job);
}

}  // namespace
}  // namespace unisono::tools

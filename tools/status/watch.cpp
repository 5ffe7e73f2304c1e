#include "status/watch.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <sstream>
#include <string>
#include <utility>

#include "launch/output/sink.h"
#include "status/report.h"
#include "common/text.h"

namespace unisono::tools {
namespace {

constexpr int milliseconds_between = 1000;

struct ScreenSize {
  std::size_t rows = 24, columns = screen_columns;
};

ScreenSize size_of(int terminal) {
  winsize size{};
  ScreenSize found;
  if (::ioctl(terminal, TIOCGWINSZ, &size) != 0) return found;
  if (size.ws_row > 1) found.rows = size.ws_row;
  if (size.ws_col > 1) found.columns = size.ws_col;
  return found;
}

}  // namespace

// Each line replaces the former one, so that nothing flickers. The last column stays free: behind a letter in it, terminals erase that letter.
std::string screen_text(const std::vector<JobFacts>& jobs, int terminal) {
  const ScreenSize size = size_of(terminal);
  const std::size_t columns = size.columns - 1;
  std::string all;
  for (const JobFacts& job : jobs) all += status_text(job, std::min(columns, screen_columns));
  std::vector<std::string> lines;
  std::istringstream stream(all);
  for (std::string line; std::getline(stream, line);) lines.push_back(std::move(line));
  while (!lines.empty() && lines.back().empty()) lines.pop_back();
  if (const std::size_t most = size.rows - 1; lines.size() > most) {
    const std::size_t hidden = lines.size() - (most - 1);
    lines.resize(most - 1);
    lines.push_back(fmt::format("  … {} more lines: unisono status --once shows all", hidden));
  }
  std::string text = "\033[H";
  for (const std::string& line : lines) text += launcher::cut_to_width(line, columns) + "\033[K\n";
  return text + "\033[J";
}

void watch(std::vector<JobFacts> jobs, const std::function<std::vector<JobFacts>()>& look) {
  std::cout << "\033[2J";
  while (!jobs.empty()) {
    std::cout << screen_text(jobs, STDOUT_FILENO) << std::flush;
    ::poll(nullptr, 0, milliseconds_between);
    auto next = look();
    count_cpu_since(jobs, next);
    jobs = std::move(next);
  }
}

}  // namespace unisono::tools

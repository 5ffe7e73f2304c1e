#include "status/watch.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <fmt/format.h>

#include <iostream>
#include <sstream>
#include <string>
#include <utility>

#include "status/report.h"

namespace unisono::tools {
namespace {

constexpr int milliseconds_between = 1000;

std::size_t rows_of_terminal() {
  constexpr std::size_t usual = 24;
  winsize size{};
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 1 ? size.ws_row : usual;
}

/// Returns the screen's new text. Each line replaces the former one, so that nothing flickers.
std::string screen_text(const std::vector<JobFacts>& jobs) {
  std::string all;
  for (const JobFacts& job : jobs) all += status_text(job);
  std::vector<std::string> lines;
  std::istringstream stream(all);
  for (std::string line; std::getline(stream, line);) lines.push_back(std::move(line));
  while (!lines.empty() && lines.back().empty()) lines.pop_back();
  if (const std::size_t most = rows_of_terminal() - 1; lines.size() > most) {
    const std::size_t hidden = lines.size() - (most - 1);
    lines.resize(most - 1);
    lines.push_back(fmt::format("  … {} more lines: unisono status --once shows all", hidden));
  }
  std::string text = "\033[H";
  for (const std::string& line : lines) text += line + "\033[K\n";
  return text + "\033[J";
}

}  // namespace

void watch(std::vector<JobFacts> jobs, const std::function<std::vector<JobFacts>()>& look) {
  std::cout << "\033[2J";
  while (!jobs.empty()) {
    std::cout << screen_text(jobs) << std::flush;
    ::poll(nullptr, 0, milliseconds_between);
    auto next = look();
    count_cpu_since(jobs, next);
    jobs = std::move(next);
  }
}

}  // namespace unisono::tools

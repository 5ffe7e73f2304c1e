#include "status/jobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>
#include <system_error>

#include "base/environment.h"
#include "base/printable.h"
#include "common/child.h"
#include "launch/view/standstill.h"

namespace unisono::tools {
namespace {

constexpr std::size_t most_frames = 24;
constexpr std::chrono::seconds patience{20};  // gdb reads the symbols of every library

std::vector<std::string> lines_in(std::string_view text) {
  std::vector<std::string> lines;
  std::istringstream stream{std::string(text)};
  for (std::string line; std::getline(stream, line);) lines.push_back(base::printable(line));
  return lines;
}

bool runs_python(int pid) {
  const std::string folder = "/proc/" + std::to_string(pid);
  std::error_code error;
  if (std::filesystem::read_symlink(folder + "/exe", error).filename().native().starts_with("python")) return true;
  std::ifstream maps(folder + "/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("/libpython") != std::string::npos) return true;
  }
  return false;
}

/// Returns the last line with a text, which is where such tools say why they have failed.
std::string reason_in(std::string_view printed) {
  auto lines = lines_in(printed);
  std::erase_if(lines, [](const std::string& line) { return line.find_first_not_of(" \t\r") == std::string::npos; });
  return lines.empty() ? "it printed nothing" : lines.back();
}

/// Returns the frames in what eu-stack or gdb has printed of one thread, without addresses.
std::vector<std::string> native_frames(std::string_view printed) {
  std::vector<std::string> frames;
  for (const std::string& line : lines_in(printed)) {
    if (line.size() < 2 || line[0] != '#' || line[1] < '0' || line[1] > '9') continue;
    const auto number_end = line.find(' ');
    auto text_begin = line.find_first_not_of(' ', number_end);
    if (number_end == std::string::npos || text_begin == std::string::npos) continue;
    std::string text = line.substr(text_begin);
    if (text.starts_with("0x")) {
      const auto address_end = text.find(' ');
      text = address_end == std::string::npos ? "?" : text.substr(text.find_first_not_of(' ', address_end));
      if (text.starts_with("in ")) text.erase(0, 3);
    }
    frames.push_back(fmt::format("{:<3} {}", line.substr(0, number_end), text));
    if (frames.size() == most_frames) break;
  }
  return frames;
}

/// Returns the frames of the main thread in what `py-spy dump` has printed.
std::vector<std::string> python_frames(std::string_view printed) {
  std::vector<std::string> frames;
  bool is_main = false;
  for (const std::string& line : lines_in(printed)) {
    if (line.starts_with("Thread ")) {
      if (is_main) break;
      is_main = line.find("\"MainThread\"") != std::string::npos;
    } else if (is_main && line.starts_with("    ") && frames.size() < most_frames) {
      frames.push_back(line.substr(line.find_first_not_of(' ')));
    }
  }
  return frames;
}

void look_with(Stack& stack, const std::string& tool, const std::vector<std::string>& words) {
  const Captured captured = capture(words, patience, ChildManner::Errors::with_output);
  stack.frames = native_frames(captured.printed);
  stack.tool = tool;
  if (!stack.frames.empty()) stack.problem.clear();
  else
    stack.problem = captured.in_time ? fmt::format("{}: {}", tool, reason_in(captured.printed))
                                     : fmt::format("{} did not answer in {} s", tool, patience.count());
}

Stack stack_of(const RankFacts& rank) {
  Stack stack{
      .rank = rank.record.rank, .tool = {}, .frames = {}, .python = {}, .problem = "neither eu-stack nor gdb is installed (Debian: elfutils, gdb)"};
  const std::string pid = std::to_string(rank.record.pid);
  if (const auto eu_stack = find_tool("eu-stack")) look_with(stack, "eu-stack", {*eu_stack, "-1", "-p", pid});
  if (const auto gdb = find_tool("gdb"); gdb && stack.frames.empty())
    look_with(stack, "gdb",
              {*gdb, "-nx", "-batch", "-iex", "set debuginfod enabled off", "-p", pid, "-ex", fmt::format("thread apply 1 bt {}", most_frames)});
  if (const auto py_spy = find_tool("py-spy"); py_spy && runs_python(rank.record.pid))
    stack.python = python_frames(capture({*py_spy, "dump", "--pid", pid}, patience, ChildManner::Errors::with_output).printed);
  return stack;
}

}  // namespace

std::vector<Stack> stacks_of_late_ranks(const JobFacts& job) {
  std::vector<Stack> stacks;
  for (const launcher::Delay& delay : launcher::delays_of(job.ranks, launcher::told_delay_ns)) {
    const auto rank = std::ranges::find(job.ranks, delay.late, [](const RankFacts& each) { return each.record.rank; });
    if (rank != job.ranks.end() && rank->process.lives && rank->is_here && !rank->record.is_copy) stacks.push_back(stack_of(*rank));
  }
  return stacks;
}

}  // namespace unisono::tools

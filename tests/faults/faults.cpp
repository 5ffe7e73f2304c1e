#include "faults.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <sstream>
#include <stdexcept>

namespace unisono::testing {

std::vector<std::string> faulty_job(int ranks, std::vector<std::string> arguments, std::vector<std::string> flags) {
  std::vector<std::string> all{UNISONO_COMMAND, "run", "-n", std::to_string(ranks)};
  all.insert(all.end(), flags.begin(), flags.end());
  all.insert(all.end(), {"--", FAULT_RANK});
  all.insert(all.end(), arguments.begin(), arguments.end());
  return all;
}

std::vector<std::string> faulty_rank(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), FAULT_RANK);
  return arguments;
}

std::string one_host_each(int ranks) {
  std::string hosts;
  for (int r = 0; r < ranks; ++r) hosts += fmt::format("{}{}", r == 0 ? "" : ",", static_cast<char>('a' + r));
  return hosts;
}

DirectJob::DirectJob(Method method, int ranks, std::vector<std::string> arguments, Variables more) : file_(folder_.path() + "/job") {
  const int port = free_port();
  for (int r = 0; r < ranks; ++r) {
    Variables variables = more;
    if (method == Method::env) {
      variables.insert(
          {{"RANK", std::to_string(r)}, {"WORLD_SIZE", std::to_string(ranks)}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", std::to_string(port)}});
    } else {
      variables.insert({"TEST_INIT_WORLD_SIZE", std::to_string(ranks)});
      if (method == Method::tcp) variables.insert({"TEST_INIT_RANK", std::to_string(r)});
      variables.insert({"TEST_INIT_METHOD", method == Method::tcp ? fmt::format("tcp://127.0.0.1:{}", port) : "file://" + file_});
    }
    ranks_.push_back(std::make_unique<RunningCommand>(faulty_rank(arguments), RunningCommand::Options{.environment = variables}));
  }
}

std::vector<std::string> lines_of_rank(const RunningCommand& job, int rank) {
  std::vector<std::string> lines;
  const std::string aligned = fmt::format("[{:2}] ", rank);  // of ten ranks or more
  for (const auto& line : lines_of(job.out())) {
    for (const std::string& before : {tag(rank), aligned}) {
      if (!line.starts_with(before)) continue;
      lines.push_back(line.substr(before.size()));
      break;
    }
  }
  return lines;
}

std::string line_of(const std::vector<std::string>& lines, const std::string& beginning) {
  std::string found;
  int times = 0;
  for (const auto& line : lines) {
    if (!line.starts_with(beginning)) continue;
    found = line.substr(beginning.size());
    ++times;
  }
  EXPECT_EQ(times, 1) << "lines that begin with \"" << beginning << "\" among:\n" << fmt::format("{}", fmt::join(lines, "\n"));
  return found;
}

std::string sizes_in(const std::string& account) {
  std::istringstream text(account.substr(std::min(account.find("sizes ") + 6, account.size())));
  std::vector<int> sizes;
  for (int size = 0; text >> size; text.ignore(text.peek() == ',' ? 1 : 0)) {
    const std::size_t n = sizes.size();
    if (n >= 2 && sizes[n - 2] < sizes[n - 1] && sizes[n - 1] < size) sizes.pop_back();
    sizes.push_back(size);
  }
  return fmt::format("{}", fmt::join(sizes, ","));
}

pid_t pid_of(const RunningCommand& job, int rank) {
  const std::string ready = line_of(lines_of_rank(job, rank), "ready ");
  return std::stoi(ready.substr(0, ready.find(' ')));
}

Variables end_of_training() {
  const auto until = std::chrono::steady_clock::now().time_since_epoch() + std::chrono::seconds(120);
  return {{"TEST_TRAIN_UNTIL", std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(until).count())}};
}

void kill_after_the_others(RunningCommand& job, int stopped, const std::vector<int>& others) {
  std::vector<pid_t> pids;
  for (const int rank : others) pids.push_back(pid_of(job, rank));
  const auto have_ended = [&] { return std::ranges::none_of(pids, is_alive); };
  EXPECT_TRUE(job.until(have_ended, std::chrono::seconds(50))) << job.out() << job.err();
  ::kill(pid_of(job, stopped), SIGKILL);
}

std::string job_id(const RunningCommand& job) {
  const std::string ready = line_of(lines_of_rank(job, 0), "ready ");
  return ready.substr(ready.find(' ') + 1);
}

void expect_nothing_left(const std::string& id) {
  ASSERT_EQ(id.size(), 32u);
  EXPECT_TRUE(eventually([&] { return processes_of_job(id).empty(); })) << processes_of_job(id).size() << " processes are left";
}

void expect_no_crash(const RunningCommand& job) {
  for (const char* signal : {"SIGABRT", "SIGSEGV", "SIGBUS", "terminate called"}) EXPECT_EQ(count(job.err(), signal), 0) << job.err();
}

void expect_later_calls_threw_the_same(const std::vector<std::string>& lines) {
  for (const char* call : {"barrier", "all_reduce", "async", "send", "recv"}) EXPECT_EQ(line_of(lines, fmt::format("later {} ", call)), "same");
}

}  // namespace unisono::testing

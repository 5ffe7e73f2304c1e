// The program that the tests of StartMethod::exec start; its first argument says how it behaves.

#include <cstdlib>
#include <mutex>
#include <stdexcept>
#include <string>

#include "spawn_modes.h"
#include "unisono/unisono.h"

namespace {

using namespace unisono;
using namespace unisono::testing;

SpawnOptions by_exec(int ranks) {
  SpawnOptions options;
  options.nproc_per_node = ranks;
  options.start_method = StartMethod::exec;
  return options;
}

/// Runs once in each process that begins with main.
bool is_launched() { return std::getenv("RANK") != nullptr; }

/// exec WORD
int spawn_by_exec(const Words& words) {
  say("begun " + words.at(1));
  std::mutex held;
  if (!is_launched()) held.lock();  // a forked child would find it locked
  const auto work = [&](int local_rank, const std::string& word) {
    const std::scoped_lock lock(held);
    return word + ": " + account(local_rank);
  };
  const auto lines = spawn(by_exec(3), work, words.at(1));
  for (const std::string& line : lines) say(line);
  held.unlock();
  return 0;
}

/// launch: by the options of launch; parallel: by those of Parallel.
int launch_by_exec(const Words&) {
  say("begun");
  const auto job = [](int offset) { return account(local_rank() + offset); };
  for (const std::string& line : launch(job, {.num_gpus_per_machine = 2, .start_method = StartMethod::exec}, 10)) say(line);
  return 0;
}

int run_parallel_by_exec(const Words&) {
  say("begun");
  Parallel parallel({.backend = "native", .nproc_per_node = 2, .start_method = StartMethod::exec});
  for (const std::string& line : parallel.run(account)) say(line);
  return 0;
}

/// fails RANK
int fail_by_exec(const Words& words) {
  return refused([&] {
    spawn(by_exec(2), [&] {
      if (rank() == std::stoi(words.at(1))) throw std::logic_error("I give up");
      barrier();
    });
  });
}

/// late: not the first call that starts processes.
int spawn_by_exec_late(const Words&) {
  say("begun");
  spawn({.nproc_per_node = 1}, [] {});
  return refused([] { spawn(by_exec(2), [] {}); });
}

/// elsewhere: a new process comes to another call first.
int spawn_elsewhere_by_exec(const Words&) {
  return refused([] {
    if (is_launched()) spawn(by_exec(2), [] { say("the other one"); });
    else spawn(by_exec(2), [] { say("this one"); });
  });
}

int add(int n) { return rank() + n; }
int subtract(int n) { return rank() - n; }

/// another: a new process comes to a call with another function of the same type. another-job: the same by launch; same: with the same one.
int spawn_another_by_exec(const Words& words) {
  const auto function = is_launched() && words.at(0) != "same" ? subtract : add;
  if (words.at(0) == "same") {
    for (const int sum : spawn(by_exec(2), function, 3)) say(std::to_string(sum));
    return 0;
  }
  return refused([&] {
    if (words.at(0) == "another") spawn(by_exec(2), function, 3);
    else launch(function, {.num_gpus_per_machine = 2, .start_method = StartMethod::exec}, 3);
  });
}

/// nowhere: a new process comes to no call.
int spawn_nowhere_by_exec(const Words&) {
  if (is_launched()) return 0;
  return refused([] { spawn(by_exec(2), [] {}); });
}

/// nested: a rank is part of a job, and starts none.
int nest_by_exec(const Words&) {
  for (const int code : spawn(by_exec(2), [] { return refused([] { launch([] {}); }); })) {
    if (code != 0) return code;
  }
  return 0;
}

const Modes modes{
    {"exec", spawn_by_exec},
    {"launch", launch_by_exec},
    {"parallel", run_parallel_by_exec},
    {"fails", fail_by_exec},
    {"late", spawn_by_exec_late},
    {"elsewhere", spawn_elsewhere_by_exec},
    {"another", spawn_another_by_exec},
    {"another-job", spawn_another_by_exec},
    {"same", spawn_another_by_exec},
    {"nowhere", spawn_nowhere_by_exec},
    {"nested", nest_by_exec},
};

}  // namespace

int main(int argc, char** argv) { return unisono::testing::run_mode(modes, argc, argv); }

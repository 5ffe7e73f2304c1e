// The program that the tests of spawn, launch and Parallel start; its first argument says how it behaves.

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "spawn_modes.h"
#include "unisono/unisono.h"

namespace {

using namespace unisono;
using namespace unisono::testing;

[[noreturn]] void rest() {
  while (true) ::pause();
}

std::vector<int> children_of(int parent) {
  std::vector<int> children;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::ifstream file(entry.path() / "stat");
    std::string text;
    if (!std::getline(file, text)) continue;  // it is none, or has ended
    int parent_of_it = 0;
    char state = 0;
    std::istringstream rest(text.substr(text.rfind(')') + 1));
    if (rest >> state >> parent_of_it && parent_of_it == parent) children.push_back(std::stoi(name));
  }
  return children;
}

SpawnOptions one_node(int ranks) {
  SpawnOptions options;
  options.nproc_per_node = ranks;
  return options;
}

/// Rests until somebody ends the parent, or its children.
int rest_in_ranks(const Words&) {
  spawn(one_node(3), [] {
    say("resting " + std::to_string(::getpid()) + ";");
    rest();
  });
  return 0;
}

/// A rank kills the watchdog, and the job goes on to its end.
int kill_the_watchdog(const Words&) {
  spawn(one_node(3), [] {
    const std::vector<int> ranks = all_gather(::getpid());
    if (rank() == 0) {
      for (const int pid : children_of(::getppid())) {
        if (std::find(ranks.begin(), ranks.end(), pid) != ranks.end()) continue;
        ::kill(pid, SIGKILL);
        say("killed " + std::to_string(pid));
      }
    }
    barrier();
  });
  say("went on");
  return 0;
}

/// MODE RANK NODES RANKS METHOD [ADDRESS PORT]
template <class Options>
void read_node(Options& options, const Words& words) {
  options.node_rank = std::stoi(words.at(1));
  options.nnodes = std::stoi(words.at(2));
  options.nproc_per_node = std::stoi(words.at(3));
  if (words.at(4) != "env") options.init_method = words.at(4);
  if (words.size() > 5) options.master_addr = words.at(5);
  if (words.size() > 6) options.master_port = std::stoi(words.at(6));
}

/// This node's part of a job.
int spawn_on_a_node(const Words& words) {
  SpawnOptions options;
  read_node(options, words);
  for (const std::string& line : spawn(options, account)) say(line);
  return 0;
}

/// machine RANK MACHINES PROCESSES URL
int launch_on_a_machine(const Words& words) {
  for (const std::string& line :
       launch([] { return account(local_rank()); }, std::stoi(words.at(2)), std::stoi(words.at(3)), std::stoi(words.at(1)), words.at(4)))
    say(line);
  return 0;
}

/// Output that is buffered here and there is written once.
int print(const Words&) {
  std::cout << "before\n";
  std::printf("also before\n");
  std::atexit([] { say("at exit"); });
  spawn(one_node(2), [] {
    std::cout << "inside\n";
    std::printf("also inside\n");
  });
  std::cout << "after\n";
  return 0;
}

int print_unsynchronized(const Words& words) {
  std::ios::sync_with_stdio(false);
  return print(words);
}

/// exit CODE: a rank that ends itself, with the parent's affairs at exit.
int exit_in_a_rank(const Words& words) {
  std::atexit([] { say("at exit"); });
  const int code = std::stoi(words.at(1));
  return refused([code] {
    spawn(one_node(2), [code] {
      if (rank() == 1) std::exit(code);
      barrier();
    });
  });
}

/// Under a launcher.
int nest(const Words&) {
  return refused([] { spawn(one_node(2), [] {}); }) + refused([] { launch([] {}, 1, 2); }) + refused([] { launch([] {}); });
}

int nest_in_a_context(const Words&) {
  const Context context;
  return refused([] { spawn(one_node(2), [] {}); });
}

/// A rank of a job that a launcher has started.
int be_a_rank(const Words&) {
  const Context context;
  say(account(unisono::local_rank()));
  return 0;
}

/// rank-dies RANK
int be_a_rank_that_may_die(const Words& words) {
  const Context context;
  barrier();
  if (rank() == std::stoi(words.at(1))) ::raise(SIGKILL);
  barrier();
  return 0;
}

/// parallel [BACKEND]: in the job that a launcher has started.
int run_parallel(const Words& words) {
  ParallelOptions options;
  if (words.size() > 1) options.backend = words.at(1);
  try {
    Parallel parallel(options);
    for (const std::string& line : parallel.run(account)) say(line);
    say("initialized " + std::to_string(is_initialized()));
  } catch (const NotInitialized& error) {
    say("NotInitialized " + std::string(error.what()));
  }
  return 0;
}

int run_parallel_in_a_context(const Words&) {
  const Context context;
  {
    Parallel parallel;
    for (const std::string& line : parallel.run(account)) say(line);
  }
  say("still initialized " + std::to_string(is_initialized()));
  barrier();
  return 0;
}

/// parallel-throw RANK: that rank gives up, the others are in a call.
int throw_in_parallel(const Words& words) {
  try {
    Parallel parallel({.backend = "native"});
    try {
      parallel.run([&](int local_rank) {
        if (local_rank == std::stoi(words.at(1))) throw std::logic_error("I give up");
        barrier();
      });
    } catch (const PeerFailed& error) {
      say("PeerFailed " + std::to_string(error.culprit().value_or(-1)) + " " + error.what());
    }
  } catch (const std::logic_error& error) {
    say("logic_error " + std::string(error.what()));
  }
  return 0;
}

int run_parallel_on_a_node(const Words& words) {
  ParallelOptions options;
  options.backend = "native";
  read_node(options, words);
  Parallel parallel(options);
  for (const std::string& line : parallel.run(account)) say(line);
  return 0;
}

/// Runs a job after another, in a process that a launcher has started alone.
int run_after_a_job(const Words&) {
  initialize();
  say("alone " + std::to_string(world_size()));
  finalize();
  for (const std::string& line : spawn(one_node(2), account)) say(line);
  return 0;
}

const Modes modes{
    {"rest", rest_in_ranks},
    {"watchdog-killed", kill_the_watchdog},
    {"node", spawn_on_a_node},
    {"machine", launch_on_a_machine},
    {"output", print},
    {"output-unsynchronized", print_unsynchronized},
    {"exit", exit_in_a_rank},
    {"nested", nest},
    {"nested-initialized", nest_in_a_context},
    {"rank", be_a_rank},
    {"rank-dies", be_a_rank_that_may_die},
    {"parallel", run_parallel},
    {"parallel-in-context", run_parallel_in_a_context},
    {"parallel-throw", throw_in_parallel},
    {"parallel-node", run_parallel_on_a_node},
    {"after-job", run_after_a_job},
};

}  // namespace

int main(int argc, char** argv) { return unisono::testing::run_mode(modes, argc, argv); }

// What the tests of spawn, launch and Parallel start as programs: the first argument says how it behaves.

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

#include "unisono/unisono.h"

namespace {

using namespace unisono;

/// One write a line: lines of several processes stay whole.
void say(const std::string& text) {
  const std::string line = text + "\n";
  if (::write(STDOUT_FILENO, line.data(), line.size()) < 0) ::_exit(90);
}

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

/// "rank 2 of 4, local 0, sum 6": what a rank says when everybody is there.
std::string account(int local_rank) {
  return "rank " + std::to_string(rank()) + " of " + std::to_string(world_size()) + ", local " + std::to_string(local_rank) + " " +
         std::to_string(unisono::local_rank()) + ", sum " + std::to_string(all_reduce(rank()));
}

int refused(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    const char* type = dynamic_cast<const AlreadyInitialized*>(&error) != nullptr ? "AlreadyInitialized"
                       : dynamic_cast<const InvalidArgument*>(&error) != nullptr  ? "InvalidArgument"
                       : dynamic_cast<const NotInitialized*>(&error) != nullptr   ? "NotInitialized"
                       : dynamic_cast<const LaunchFailed*>(&error) != nullptr     ? "LaunchFailed"
                                                                                  : "another Error";
    say(std::string(type) + " " + error.what());
    return 0;
  }
  say("not refused");
  return 1;
}

SpawnOptions one_node(int ranks) {
  SpawnOptions options;
  options.nproc_per_node = ranks;
  return options;
}

int run(const std::vector<std::string>& words) {
  const std::string& mode = words.at(0);
  if (mode == "rest") {  // until somebody ends the parent, or its children
    spawn(one_node(3), [] {
      say("resting " + std::to_string(::getpid()) + ";");
      rest();
    });
  } else if (mode == "watchdog-killed") {  // by a rank, and the job goes on to its end
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
  } else if (mode == "node") {  // node RANK NODES RANKS METHOD [ADDRESS PORT]: this node's part of a job
    SpawnOptions options = one_node(std::stoi(words.at(3)));
    options.node_rank = std::stoi(words.at(1));
    options.nnodes = std::stoi(words.at(2));
    if (words.at(4) != "env") options.init_method = words.at(4);
    if (words.size() > 5) options.master_addr = words.at(5);
    if (words.size() > 6) options.master_port = std::stoi(words.at(6));
    for (const std::string& line : spawn(options, account)) say(line);
  } else if (mode == "machine") {  // machine RANK MACHINES PROCESSES URL
    for (const std::string& line : launch(account, std::stoi(words.at(2)), std::stoi(words.at(3)), std::stoi(words.at(1)), words.at(4))) say(line);
  } else if (mode == "output") {  // what is buffered here and there is written once
    std::cout << "before\n";
    std::printf("also before\n");
    std::atexit([] { say("at exit"); });
    spawn(one_node(2), [] {
      std::cout << "inside\n";
      std::printf("also inside\n");
    });
    std::cout << "after\n";
  } else if (mode == "output-unsynchronized") {
    std::ios::sync_with_stdio(false);
    return run({"output"});
  } else if (mode == "exit") {  // exit CODE: a rank that ends itself, with the parent's affairs at exit
    std::atexit([] { say("at exit"); });
    const int code = std::stoi(words.at(1));
    return refused([code] {
      spawn(one_node(2), [code] {
        if (rank() == 1) std::exit(code);
        barrier();
      });
    });
  } else if (mode == "nested") {  // under a launcher
    return refused([] { spawn(one_node(2), [] {}); }) + refused([] { launch([] {}, 1, 2); }) + refused([] { launch([] {}); });
  } else if (mode == "nested-initialized") {
    const Context context;
    return refused([] { spawn(one_node(2), [] {}); });
  } else if (mode == "rank") {  // of a job that a launcher has started
    const Context context;
    say(account(unisono::local_rank()));
  } else if (mode == "rank-dies") {  // rank-dies RANK
    const Context context;
    barrier();
    if (rank() == std::stoi(words.at(1))) ::raise(SIGKILL);
    barrier();
  } else if (mode == "parallel") {  // parallel [BACKEND]: in the job that a launcher has started
    ParallelOptions options;
    if (words.size() > 1) options.backend = words.at(1);
    try {
      Parallel parallel(options);
      for (const std::string& line : parallel.run(account)) say(line);
      say("initialized " + std::to_string(is_initialized()));
    } catch (const NotInitialized& error) {
      say("NotInitialized " + std::string(error.what()));
    }
  } else if (mode == "parallel-in-context") {
    const Context context;
    {
      Parallel parallel;
      for (const std::string& line : parallel.run(account)) say(line);
    }
    say("still initialized " + std::to_string(is_initialized()));
    barrier();
  } else if (mode == "parallel-throw") {  // parallel-throw RANK: that one gives up, the others are in a call
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
  } else if (mode == "parallel-node") {  // parallel-node RANK NODES RANKS METHOD [ADDRESS PORT]
    ParallelOptions options;
    options.backend = "native";
    options.node_rank = std::stoi(words.at(1));
    options.nnodes = std::stoi(words.at(2));
    options.nproc_per_node = std::stoi(words.at(3));
    if (words.at(4) != "env") options.init_method = words.at(4);
    if (words.size() > 5) options.master_addr = words.at(5);
    if (words.size() > 6) options.master_port = std::stoi(words.at(6));
    Parallel parallel(options);
    for (const std::string& line : parallel.run(account)) say(line);
  } else if (mode == "after-job") {  // one job after another, in a process that a launcher has started alone
    initialize();
    say("alone " + std::to_string(world_size()));
    finalize();
    for (const std::string& line : spawn(one_node(2), account)) say(line);
  } else {
    return 91;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::cerr << error.what() << std::endl;
    return 92;
  }
}

// The program that the tests of meetings among processes start as ranks. Its arguments say what it does, one after the other.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <typeinfo>
#include <vector>

#include "unisono/detail/switches.h"
#include "unisono/unisono.h"

namespace {

using namespace unisono;

void say(const std::string& text) {
  const std::string line = fmt::format("{}\n", text);
  if (::write(STDOUT_FILENO, line.data(), line.size()) < 0) ::_exit(90);
}

/// The environment of the program before anything in it ran, the library's own initialization included.
std::vector<std::string> given_environment() {
  std::vector<std::string> variables;
  std::ifstream file("/proc/self/environ");
  for (std::string entry; std::getline(file, entry, '\0');) variables.push_back(entry);
  return variables;
}

std::vector<std::string> whole_environment() {
  std::vector<std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) variables.emplace_back(*entry);
  return variables;
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, ',');) parts.push_back(part);
  return parts;
}

void who() {
  say(fmt::format("who: rank {} of {}, local {} of {}, node {} of {}, on {}, by {}", rank(), world_size(), local_rank(), nproc_per_node(),
                  node_rank(), nnodes(), backend().value_or("nothing"), to_string(infer_launcher())));
  if (const int sum = all_reduce(rank() + 1); sum != world_size() * (world_size() + 1) / 2) say(fmt::format("the sum is {}", sum));
}

void act(const std::string& what, const std::string& value, InitOptions& options) {
  static std::vector<std::string> before;
  if (what == "method") options.init_method = value;
  else if (what == "rank") options.rank = std::stoi(value);
  else if (what == "size") options.world_size = std::stoi(value);
  else if (what == "local") options.local_rank = std::stoi(value);
  else if (what == "group") options.group_name = value;
  else if (what == "backend") options.backend = value;
  else if (what == "timeout") options.timeout = std::chrono::milliseconds(std::stoi(value));
  else if (what == "hosts") detail::set_presented_hosts(split(value));
  else if (what == "hint") set_local_rank(std::stoi(value));
  else if (what == "init") initialize(options);
  else if (what == "finalize") finalize();
  else if (what == "who") who();
  else if (what == "neighbours") say(fmt::format("neighbours: {}", fmt::join(local_group().global_ranks(), ",")));
  else if (what == "launcher")
    say(fmt::format("launcher: local rank {}, {}", launcher_local_rank().value_or(-1),
                    is_torchelastic_launched() ? "by torchrun" : "not by torchrun"));
  else if (what == "config") show_config(std::cout);
  else if (what == "remember") before = given_environment();
  else if (what == "compare") say(before == whole_environment() ? "environment: as it was" : "environment: changed");
  else say(fmt::format("no such thing: {}", what));
}

}  // namespace

int main(int argc, char** argv) {
  InitOptions options;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const auto equals = argument.find('=');
    try {
      act(argument.substr(0, equals), equals == std::string::npos ? "" : argument.substr(equals + 1), options);
    } catch (const InvalidArgument& error) {
      say(fmt::format("failed: InvalidArgument {}", error.what()));
      return 1;
    } catch (const Timeout& error) {
      say(fmt::format("failed: Timeout {}", error.what()));
      return 1;
    } catch (const std::exception& error) {
      say(fmt::format("failed: {} {}", typeid(error).name(), error.what()));
      return 1;
    }
  }
  return 0;
}

// The program that the tests of controllers start; its first argument says what it does.

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>

#include "called_functions.h"
#include "unisono/unisono.h"

namespace unisono::testing {
namespace {

using namespace std::chrono_literals;

int own_pid() { return ::getpid(); }
void die(int signal) {
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}
int leave(int code) { std::exit(code); }
int together(int n) { return all_reduce(n); }
int rest() {
  for (;;) ::pause();
}
std::string place() { return std::to_string(rank()) + "/" + std::to_string(world_size()) + "/" + std::to_string(detail::worker_number()); }
int new_group_of_two() {
  const auto group = new_group({0, 1});
  return group ? all_reduce(1, ReduceOp::sum, *group) : 0;
}
UNISONO_REMOTE(own_pid);
UNISONO_REMOTE(die);
UNISONO_REMOTE(leave);
UNISONO_REMOTE(together);
UNISONO_REMOTE(rest);
UNISONO_REMOTE(place);
/// A group of workers 1 and 0, in this order, which is kept.
std::optional<ProcessGroup> kept;
void keep_group() { kept = new_group({1, 0}); }
int together_in_group() { return all_reduce(1, ReduceOp::sum, *kept); }
UNISONO_REMOTE(new_group_of_two);
UNISONO_REMOTE(keep_group);
UNISONO_REMOTE(together_in_group);

int only_there(int n) { return n; }
long other_signature(int n) { return n; }

void say(const std::string& line) { std::cout << line + "\n" << std::flush; }
template <class F>
void say_error(const std::string& what, F&& f) {
  try {
    f();
    say(what + ": nothing");
  } catch (const PeerFailed& error) {
    say(what + ": PeerFailed " + std::to_string(error.culprit().value_or(-1)) + " " + std::string(to_string(error.cause())) + ": " + error.what());
  } catch (const Error& error) {
    say(what + ": Error " + std::to_string(error.culprit().value_or(-1)) + ": " + error.what());
  }
}

void work(const ControllerOptions& options) {
  const Controller workers(options);
  for (const std::string& text : workers.call(place).get()) say("place " + text);
  say("sum " + std::to_string(workers.sum(workers.call(together, 1))));
  if (workers.size() > 1) say("pairs " + std::to_string(workers.sum(workers.call(new_group_of_two))));
  const auto mine = workers.call(sum_with_controller, 10);
  say("everyone " + std::to_string(all_reduce(1, ReduceOp::sum, workers.everyone())));
  mine.wait();
  std::vector<float> values(4 << 20, 1);
  say("large " + std::to_string(workers[0].call(scaled, std::move(values), 3).get().back()));
  say("done");
}

/// A worker dies; the others go on.
void lose(const ControllerOptions& options, int signal) {
  const Controller workers(options);
  const int last = workers.size() - 1;
  const auto counter = workers.make<Counter>(1);
  counter.call(&Counter::value).get();
  const auto collective = workers[0].call(together, 1);
  workers[last].call(die, signal).wait();
  const auto after = workers[0].call(add, 1, 2);
  say_error("dependent", [&] { collective.get(); });
  say_error("lost", [&] { static_cast<void>(workers[last].call(add, 1, 2).get()); });
  say_error("object", [&] { static_cast<void>(counter[static_cast<std::size_t>(last)].call(&Counter::value).get()); });
  const auto all = workers.call(add, 3, 4);
  say_error("all", [&] { all.get(); });
  say("one of all " + std::to_string(all[0].get()));
  say("other " + std::to_string(after.get()) + " " + std::to_string(counter[0].call(&Counter::value).get()));
  say("done");
}

/// A worker dies, and another process takes its place.
void replace(int which) {
  Controller workers;
  const auto counter = workers.make<Counter>(1);
  const auto pids = workers.call(own_pid).get();
  workers[which].call(die, SIGKILL).wait();
  say_error("lost", [&] { static_cast<void>(workers[which].call(add, 1, 2).get()); });
  workers.replace(which);
  const auto now = workers.call(own_pid).get();
  for (int i = 0; i < workers.size(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    say("worker " + std::to_string(i) + (now[at] == pids[at] ? " stayed" : " is new"));
  }
  for (const std::string& text : workers.call(place).get()) say("place " + text);
  say("sum " + std::to_string(workers.sum(workers.call(together, 1))));
  say_error("object", [&] { static_cast<void>(counter[static_cast<std::size_t>(which)].call(&Counter::value).get()); });
  say("kept " + std::to_string(counter[which == 0 ? 1 : 0].call(&Counter::value).get()));
  say("new " + std::to_string(workers[which].make<Counter>(5).call(&Counter::value).get()));
  say("done");
}

/// Two workers die, one of them without a call that tells the controller.
void replace_one_of_two() {
  Controller workers;
  const auto pids = workers.call(own_pid).get();
  const auto counter = workers.make<Counter>(1);
  ::kill(pids[0], SIGKILL);
  workers[1].call(die, SIGKILL).wait();
  say_error("replacing", [&] { workers.replace(1); });
  for (int i = 0; i < 2; ++i) say_error("worker " + std::to_string(i), [&] { static_cast<void>(workers[i].call(add, 1, 2).get()); });
  say("kept " + std::to_string(counter[2].call(&Counter::value).get()));
  say("done");
}

/// Worker 1 of 3 dies twice; the others name it, whose rank differs from its number in most groups.
void blame() {
  Controller workers;
  for (const std::string when : {"first", "second"}) {
    if (when == "first") workers.call(keep_group).get();
    workers[1].call(die, SIGKILL).wait();
    for (const int i : {0, 2}) {
      const std::string who = when + " " + std::to_string(i);
      say_error(who + " workers", [&] { workers[i].call(together, 1).get(); });
      say_error(who + " everyone", [&] { workers[i].call(sum_with_controller, 1).get(); });
    }
    if (when == "first") say_error("group", [&] { workers[0].call(together_in_group).get(); });
    try {
      workers[1].call(do_nothing).get();
    } catch (const PeerFailed& lost) {
      say(when + " rank " + std::to_string(lost.world_culprit().value_or(-1)));
    }
    if (when == "first") workers.replace(1);
  }
  say("done");
}

void hold(const ControllerOptions& options, bool busy) {
  const Controller workers(options);
  std::string line = "ready " + std::to_string(::getpid());
  for (const int pid : workers.call(own_pid).get()) line += " " + std::to_string(pid);
  const auto resting = workers.call(busy ? rest : own_pid);
  say(line);
  for (;;) ::pause();
}

void throw_in_scope(const ControllerOptions& options, bool caught) {
  const auto fail = [&] {
    const Controller workers(options);
    workers.call(own_pid).get();
    throw std::runtime_error("the program has failed");
  };
  if (!caught) fail();
  try {
    fail();
  } catch (const std::runtime_error& error) {
    say(std::string("caught ") + error.what());
  }
}

void twice() {
  UNISONO_REMOTE(add);
  const Controller workers({.workers = 1});
}

void differ(bool in_signature) {
  const bool is_controller = std::getenv("RANK") == std::string("0");
  if (in_signature && !is_controller) detail::declare_pointer("differs", other_signature);
  if (is_controller) detail::declare_pointer(in_signature ? "differs" : "only_there", only_there);
  say_error("meeting", [] { const Controller workers; });
}

void call_unknown() {
  const bool is_controller = std::getenv("RANK") == std::string("0");
  if (is_controller) detail::register_remote({.name = "only_here", .signature = "() -> nothing", .is_compared = false});
  const Controller workers;
  const auto call = workers.workers()->begin(0, {.function = detail::find_remote("only_here", "() -> nothing")});
  say_error("unknown", [&] { call->take(); });
  say("known " + std::to_string(workers[0].call(add, 1, 2).get()));
}

int run(const std::string& what, const std::vector<std::string>& rest) {
  ControllerOptions options;
  if (!rest.empty()) options.workers = std::stoi(rest[0]);
  if (what == "work") work(options);
  else if (what == "lose") lose(options, SIGKILL);
  else if (what == "exit") {
    const Controller workers(options);
    say_error("left", [&] { workers[0].call(leave, 3).get(); });
  } else if (what == "replace") replace(options.workers);
  else if (what == "replace_one_of_two") replace_one_of_two();
  else if (what == "blame") blame();
  else if (what == "hold") hold(options, false);
  else if (what == "busy") hold(options, true);
  else if (what == "throw") throw_in_scope(options, false);
  else if (what == "caught") throw_in_scope(options, true);
  else if (what == "twice") say_error("meeting", twice);
  else if (what == "unknown") call_unknown();
  else if (what == "differ") differ(false);
  else if (what == "differ_in_signature") differ(true);
  else if (what == "alone") say_error("meeting", [] { const Controller workers; });
  else return 2;
  return 0;
}

}  // namespace
}  // namespace unisono::testing

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.empty()) return 2;
  return unisono::testing::run(arguments[0], {arguments.begin() + 1, arguments.end()});
}

// The program that the launcher's tests start as ranks; its first argument says how it behaves.

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <iostream>
#include <memory>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/environment.h"
#include "base/file_descriptor.h"
#include "store/client.h"
#include "unisono/detail/switches.h"
#include "unisono/unisono.h"

#include "rank_helper.h"

using unisono::testing::rank;
using unisono::testing::say;
using unisono::testing::variable;

namespace {

int attempt() { return unisono::base::Environment::process().get_int("UNISONO_ATTEMPT").value_or(-1); }

[[noreturn]] void rest() {
  while (true) ::pause();
}

void answer_signal(int signal) {
  char text[] = "caught ??\n";
  text[7] = static_cast<char>('0' + signal / 10);
  text[8] = static_cast<char>('0' + signal % 10);
  if (::write(STDOUT_FILENO, text, sizeof text - 1) < 0) ::_exit(90);
}

void answer(std::initializer_list<int> signals) {
  for (const int signal : signals) ::signal(signal, answer_signal);
}

void end_by(int signal) {
  const rlimit none{0, 0};
  ::setrlimit(RLIMIT_CORE, &none);
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

int spew(long bytes) {
  const int own_rank = rank();
  std::string line;
  for (long written = 0, i = 0; written < bytes; ++i) {
    line = fmt::format("line {} of rank {}\n", i, own_rank);
    if (std::fwrite(line.data(), 1, line.size(), stdout) != line.size()) return 90;
    written += static_cast<long>(line.size());
  }
  return std::fflush(stdout) == 0 ? 0 : 90;
}

/// A job in which one rank does not come to the fourth call: it rests in the program, waits in a group of two, or is killed ("dies"; after "ends" the
/// others stay). With "handles" the program has a handler of its own for SIGUSR2; with "works" the rank comes after a second; with
/// "spins" it uses 0.3 s of a processor, and rests.
int late(int who, const std::string& how) {
  if (how == "handles") answer({SIGUSR2});
  const unisono::Context context;
  std::vector<float> x(1000);
  const auto pair = unisono::new_group({0, who});
  for (int i = 0; i < 3; ++i) unisono::all_reduce(x);
  if (rank() == who && how == "spins") {
    while (std::clock() < 3 * CLOCKS_PER_SEC / 10) {
    }
  }
  say("ready " + std::to_string(::getpid()) + " " + variable("UNISONO_JOB_ID"));
  if (rank() == who && (how == "rests" || how == "handles" || how == "spins")) rest();
  if (rank() == who && (how == "ends" || how == "dies")) end_by(SIGKILL);
  if (rank() == who && how == "waits") unisono::barrier(*pair);
  if (rank() == who && how == "works") std::this_thread::sleep_for(std::chrono::seconds(1));
  try {
    unisono::all_reduce(x);
  } catch (const unisono::PeerFailed&) {
    if (how != "ends") throw;
    say("noticed");
    rest();
  }
  return 0;
}

/// A child that goes on when this process ends; in a session of its own where asked.
void leave_child(const std::string& how) {
  int said[2];
  if (::pipe(said) != 0) ::_exit(90);
  if (::fork() != 0) {  // goes on when the child has spoken
    ::close(said[1]);
    char byte = 0;
    while (::read(said[0], &byte, 1) < 0 && errno == EINTR) {
    }
    ::close(said[0]);
    return;
  }
  ::close(said[0]);
  if (how == "session") ::setsid();
  say("grandchild " + std::to_string(::getpid()));
  ::close(said[1]);
  rest();
}

std::unique_ptr<unisono::store::Client> connect_to_launcher() {
  unisono::base::FileDescriptor connection(std::stoi(variable("UNISONO_LAUNCHER_FD")));
  auto store = std::make_unique<unisono::store::Client>(std::move(connection), "the launcher");
  store->send_greeting();
  return store;
}

/// Plays a rank that uses the library, as far as the launcher can tell: "set TEXT; exit 3; …", one script a rank. What it sets is its status;
/// `tell` and `wait` are for the order among ranks.
int play(const std::string& script) {
  const auto store = connect_to_launcher();
  std::istringstream steps(script);
  for (std::string step; std::getline(steps >> std::ws, step, ';');) {
    const auto blank = step.find(' ');
    const std::string verb = step.substr(0, blank), text = blank == std::string::npos ? "" : step.substr(blank + 1);
    if (verb == "set") {
      store->set(fmt::format("unisono/status/{}", rank()), text);
    } else if (verb == "say") {
      say(text);
    } else if (verb == "tell") {
      store->set(text, "told");
    } else if (verb == "wait") {
      store->get(text);
    } else if (verb == "read") {
      std::string line;
      std::getline(std::cin, line);
    } else if (verb == "answer") {
      answer({SIGTERM});
    } else if (verb == "kill") {
      end_by(std::stoi(text));
    } else if (verb == "exit") {
      return std::stoi(text);
    } else if (verb == "rest") {
      rest();
    }
  }
  return 93;
}

/// Rank `odd` calls all_reduce with more elements than the others. What comes of the Mismatch, as `how` says: nobody catches it ("uncaught"); it
/// leaves the scope of the Context ("unwound"); it is caught, and the rank finalizes ("caught", "in-a-group" where the call is one of ranks 3, 2, 0,
/// "in-a-pair" of ranks 2, 0); or the job goes on, and rank 2 fails later ("goes-on").
int mismatch(int odd, const std::string& how) {
  const rlimit none{0, 0};
  ::setrlimit(RLIMIT_CORE, &none);
  unisono::detail::set_ballot_time(std::chrono::minutes(2));
  const auto call = [odd, how] {
    std::vector<float> x(unisono::rank() == odd ? 3 : 2);
    const auto group = how == "in-a-group" ? unisono::new_group({3, 2, 0}) : how == "in-a-pair" ? unisono::new_group({2, 0}) : unisono::world();
    if (group) unisono::all_reduce(x, unisono::ReduceOp::sum, *group);
  };
  const auto fail = [](const unisono::Mismatch& error) {
    std::cerr << error.what() << std::endl;
    return 10 + rank();
  };
  if (how == "uncaught") {
    unisono::initialize();
    std::thread(call).join();
  }
  try {
    const unisono::Context context;
    try {
      call();
    } catch (const unisono::Mismatch& error) {
      if (how == "unwound") throw;
      if (how != "goes-on") return fail(error);
    }
    if (how.starts_with("in-a-")) return 0;
    unisono::barrier();
  } catch (const unisono::Mismatch& error) {
    return fail(error);
  }
  return rank() == 2 ? 9 : 0;
}

void say_ready() { say("ready " + std::to_string(::getpid()) + " " + variable("UNISONO_JOB_ID")); }

/// Writes and reads; false where it is no such mode.
bool write_or_read(const std::string& mode, const std::vector<std::string>& words) {
  if (mode == "variables") {
    for (const std::string& word : words) say(word + "=" + variable(word.c_str()));
  } else if (mode == "arguments") {
    for (const std::string& word : words) say("<" + word + ">");
  } else if (mode == "long-line") {
    say(std::string(std::stoul(words.at(0)), static_cast<char>('a' + rank())));
  } else if (mode == "partial") {
    std::cout << "whole\nwithout end of rank " << rank() << std::flush;
  } else if (mode == "bar") {
    std::cout << "\r10 %\r50 %\r100 %\n" << std::flush;
  } else if (mode == "both") {
    std::cout << "to output" << std::endl;
    std::cerr << "to error" << std::endl;
  } else if (mode == "cat") {
    std::string text;
    while (std::getline(std::cin, text)) say("read " + text);
    say("end of input");
  } else if (mode == "terminal") {
    say(::isatty(STDOUT_FILENO) == 1 ? "a terminal" : "no terminal");
    if (rank() == 0) std::cout << "name? " << std::flush;
    std::string name;
    if (std::getline(std::cin, name)) say("hello " + name);
  } else {
    return false;
  }
  return true;
}

/// Ends in some way, or rests; false where it is no such mode.
bool end_or_rest(const std::string& mode, const std::vector<std::string>& words) {
  if (mode == "signal") {  // signal RANK NUMBER: the others rest
    if (rank() == std::stoi(words.at(0))) {
      std::cerr << "about to end" << std::endl;
      end_by(std::stoi(words.at(1)));
    }
    rest();
  } else if (mode == "rest") {
    say_ready();
    rest();
  } else if (mode == "stubborn") {  // answers every polite signal and goes on
    answer({SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH});
    say_ready();
    rest();
  } else if (mode == "helped") {  // the same, with a child in its process group that answers none
    leave_child("group");
    answer({SIGTERM, SIGUSR1, SIGUSR2});
    say_ready();
    rest();
  } else if (mode == "leave-child") {  // leave-child [session] [exit|rest]
    leave_child(words.at(0));
    say_ready();
    if (words.size() > 1 && words[1] == "rest") rest();
  } else if (mode == "throw") {  // throw RANK: the others end with 0
    const rlimit none{0, 0};
    ::setrlimit(RLIMIT_CORE, &none);
    if (rank() == std::stoi(words.at(0))) std::thread([] { throw std::runtime_error("nobody catches this"); }).join();
  } else {
    return false;
  }
  return true;
}

/// Rank 1 fails while the attempt is smaller than that one, when rank 0 has spoken.
int fail_until_attempt(int succeeding) {
  const auto store = connect_to_launcher();
  say("attempt " + std::to_string(attempt()));
  if (rank() == 0) store->set("spoken", "yes");
  if (rank() == 1) store->get("spoken");
  return rank() == 1 && attempt() < succeeding ? 5 : 0;
}

int run(const std::string& mode, const std::vector<std::string>& words) {
  if (write_or_read(mode, words) || end_or_rest(mode, words)) return 0;
  if (mode == "exit") return rank() == std::stoi(words.at(0)) ? std::stoi(words.at(1)) : 0;  // exit RANK CODE: the others end with 0
  if (mode == "spew") return spew(std::stol(words.at(0)));
  if (mode == "fail-until-attempt") return fail_until_attempt(std::stoi(words.at(0)));
  if (mode == "play") return play(words.at(static_cast<std::size_t>(rank())));   // play SCRIPT_OF_RANK_0 SCRIPT_OF_RANK_1 …
  if (mode == "mismatch") return mismatch(std::stoi(words.at(0)), words.at(1));  // mismatch ODD HOW
  if (mode == "late") return late(std::stoi(words.at(0)), words.at(1));          // late RANK HOW
  if (const auto code = unisono::testing::run_job_of_library(mode, words)) return *code;
  return 91;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return argc > 1 ? run(argv[1], {argv + 2, argv + argc}) : 91;
  } catch (const std::exception& error) {
    std::cerr << error.what() << std::endl;
    return 92;
  }
}

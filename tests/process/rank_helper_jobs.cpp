// The jobs of rank_helper in which ranks join by the library.
#include "rank_helper.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <cstdlib>
#include <iostream>

#include "context/state.h"
#include "unisono/detail/switches.h"
#include "unisono/unisono.h"

namespace unisono::testing {
namespace {

/// Rank 1 gives up a group of ranks 1, 2, 0, and ends after them. Nobody leaves the world in an orderly way.
int give_up_a_group() {
  initialize();
  const auto store = context::current().launcher.store();
  auto group = *new_group({1, 2, 0});
  barrier(group);
  if (rank() == 1) {
    group.abort("out of data");
    store->wait(std::vector<std::string>{"over/0", "over/2"});
  } else {
    try {
      for (;;) barrier(group);
    } catch (const PeerFailed&) {
      store->set("over/" + std::to_string(rank()), "1");
    }
  }
  std::_Exit(10 + rank());
}

/// A job that somebody else has formed, and who ends it is not the library's business: no rank finalizes.
int adopted_by_sync() {
  register_context_probe([] {
    InitOptions options;
    options.rank = rank();
    options.world_size = 2;
    return std::optional(options);
  });
  sync();
  if (all_reduce(1) != 2) return 90;
  const auto store = context::current().launcher.store();
  store->set("done/" + std::to_string(rank()), "1");
  store->wait(std::vector<std::string>{"done/0", "done/1"});
  std::_Exit(0);
}

int join() {
  const Context context;
  const auto half = new_group({0, 1});
  return half.has_value() == (unisono::rank() < 2) ? 0 : 90;
}

/// Joins, and says for how long another rank may be silent.
int say_silence() {
  const Context context;
  say(fmt::format("silence {}", detail::silence_limit().count()));
  return 0;
}

/// Joins, and says how many have met. Then it ends; or stays until its input ends ("stay"); or ends with code 3 and without finalize ("die").
int meet(const std::string& how) {
  const Context context;
  say(fmt::format("met {} of {}, sum {}", unisono::rank(), world_size(), all_reduce(unisono::rank() + 1)));
  if (how == "stay") {
    std::string line;
    while (std::getline(std::cin, line)) say("read " + line);
  }
  if (how == "die") ::_exit(3);
  return 0;
}

/// Uses every kind of connection, then stays.
[[noreturn]] void exchange_and_rest() {
  const Context context;
  const auto all = all_gather_object(fmt::format("object {}", all_reduce(unisono::rank())));
  say(fmt::format("rests {} with {} objects", ::getpid(), all.size()));
  for (;;) ::pause();
}

/// Another socket has got the number of the launcher's.
int meet_by_foreign_socket() {
  int ends[2];
  const int number = std::stoi(variable("UNISONO_LAUNCHER_FD"));
  if (::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0 || ::dup2(ends[0], number) < 0) return 90;
  return meet({});
}

}  // namespace

std::optional<int> run_job_of_library(const std::string& mode, const std::vector<std::string>& words) {
  if (mode == "give-up-a-group") give_up_a_group();
  if (mode == "adopted") return adopted_by_sync();
  if (mode == "meet") return meet(words.empty() ? "" : words.at(0));  // meet [stay|die]
  if (mode == "exchange-and-rest") exchange_and_rest();
  if (mode == "foreign-socket") return meet_by_foreign_socket();
  if (mode == "silence") return say_silence();
  if (mode == "join") return join();  // a job that does nothing
  return std::nullopt;
}

}  // namespace unisono::testing

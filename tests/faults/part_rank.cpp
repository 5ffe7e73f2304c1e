// The rank that smaller_group_test starts: a group of some of the ranks fails, and the exception leaves the scope of the rank's Context.
//   part_rank killed     ranks 0 and 1 form a group, and rank 1 is killed while rank 0 waits for it
//   part_rank mismatch   ranks 0, 1 and 2 form a group, and rank 1 calls something else
// The last rank is in no group but the world. It waits for SIGUSR1 before it calls, as rank 1 does before it leaves after a mismatch.

#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <vector>

#include "unisono/unisono.h"

namespace {

using namespace unisono;

void say(const std::string& text) {
  const std::string line = text + "\n";
  if (::write(STDOUT_FILENO, line.data(), line.size()) < 0) ::_exit(90);
}

void block_go() {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGUSR1);
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

void wait_for_go() {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGUSR1);
  int signal = 0;
  ::sigwait(&set, &signal);
}

void call_in(const ProcessGroup& part, bool is_killed) {
  if (is_killed && part.rank() == 1) ::raise(SIGKILL);
  if (is_killed || part.rank() == 1) return barrier(part);
  static_cast<void>(all_reduce(part.rank(), ReduceOp::sum, part));
}

void be_a_rank(bool is_killed) {
  const Context context;
  const int last = world_size() - 1;
  const bool is_last = rank() == last, is_late = !is_killed && rank() == 1;
  std::vector<int> members;
  for (int r = 0; r < last; ++r) members.push_back(r);
  const auto part = new_group(members);
  barrier();
  say("ready " + std::to_string(::getpid()));
  if (is_last) {
    wait_for_go();
    return barrier();
  }
  try {
    call_in(*part, is_killed);
  } catch (const Error&) {
    if (is_late) wait_for_go();
    throw;
  }
}

}  // namespace

int main(int argc, char** argv) {
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  block_go();
  try {
    be_a_rank(argc > 1 && std::string(argv[1]) == "killed");
  } catch (const Error& error) {
    say(std::string("left ") + error.what());
    return 3;
  }
  return 0;
}

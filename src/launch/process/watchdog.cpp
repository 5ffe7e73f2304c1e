#include "launch/process/watchdog.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <set>
#include <string>

#include "launch/process/leftovers.h"
#include "launch/process/pidfd.h"
#include "launch/process/program.h"

namespace unisono::launcher {
namespace {

enum class Order : int { guard, forget, goodbye };

constexpr char apart = 'a';  ///< what the watchdog itself says, once

struct Message {
  Order order;
  pid_t group;
};

/// Sends to the watchdog. If it was killed, nothing happens; without MSG_NOSIGNAL the program would die of SIGPIPE.
void tell(int life_line, Message message) noexcept {
  while (::send(life_line, &message, sizeof message, MSG_NOSIGNAL) < 0 && errno == EINTR) {
  }
}

/// Gives up what is the launcher's: its pipes (a reader of our standard output would wait for us), its process group (Ctrl-C, killpg), and its
/// environment (the cleanup of an outer job would end us as one of its processes before our work is done).
void detach(int life_line) {
  ::setsid();
  for (int signal = 1; signal < NSIG; ++signal) ::signal(signal, SIG_IGN);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  const int null = ::open("/dev/null", O_RDWR);
  for (int fd = 0; fd <= 2 && null >= 0; ++fd) ::dup2(null, fd);
  ::dup2(life_line, 3);
  ::close_range(4, ~0U, 0);
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) std::memset(*entry, 0, std::strlen(*entry));
  [[maybe_unused]] const int moved = ::chdir("/");  // the current folder would keep its file system mounted
  while (::send(3, &apart, sizeof apart, MSG_NOSIGNAL) < 0 && errno == EINTR) {
  }
}

[[noreturn]] void watch(const std::string& job_id) {
  std::set<pid_t> groups;
  Message message{};
  while (true) {
    const auto got = ::read(3, &message, sizeof message);
    if (got < 0 && errno == EINTR) continue;
    if (got != static_cast<ssize_t>(sizeof message)) break;
    if (message.order == Order::goodbye) ::_exit(0);
    if (message.order == Order::guard) groups.insert(message.group);
    if (message.order == Order::forget) groups.erase(message.group);
  }
  for (const pid_t group : groups) ::kill(-group, SIGKILL);
  for (const auto& leftover : find_leftovers(job_id, {})) leftover.send(SIGKILL);
  ::_exit(0);
}

}  // namespace

Watchdog::Watchdog(std::string_view job_id) {
  int ends[2];
  // SOCK_SEQPACKET delivers each message whole.
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) throw StartFailed("cannot make a socket: " + error_text(errno), 1);
  base::FileDescriptor reading(ends[0]);
  life_line_.reset(ends[1]);
  const std::string id(job_id);
  pid_ = ::fork();
  if (pid_ < 0) throw StartFailed("cannot fork: " + error_text(errno), 1);
  if (pid_ == 0) {
    try {
      detach(reading.get());
      watch(id);
    } catch (...) {  // NOLINT(bugprone-empty-catch): out of memory: PDEATHSIG still guards the ranks themselves
    }
    ::_exit(1);
  }
}

Watchdog::~Watchdog() {
  tell(life_line_.get(), {Order::goodbye, 0});
  life_line_.reset();
  reap(pid_);
}

void Watchdog::await_apart() const noexcept {
  char word = 0;  // none comes from a watchdog that was killed
  while (!is_apart_ && ::recv(life_line_.get(), &word, sizeof word, 0) < 0 && errno == EINTR) {
  }
  is_apart_ = true;
}

void Watchdog::guard_self_group() const noexcept { tell(life_line_.get(), {Order::guard, ::getpid()}); }

void Watchdog::forget(pid_t group) const noexcept { tell(life_line_.get(), {Order::forget, group}); }

}  // namespace unisono::launcher

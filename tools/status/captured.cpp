#include "status/captured.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>

#include "base/deadline.h"
#include "base/host.h"
#include "base/socket.h"
#include "hosts/pipe.h"
#include "launch/process/program.h"

namespace unisono::tools {
namespace {

constexpr std::size_t most_bytes = 1 << 20;

/// The attributes and actions of posix_spawn, which must be freed explicitly.
struct SpawnPlan {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  explicit SpawnPlan(int out) {
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions, out, STDERR_FILENO);
    ::posix_spawnattr_init(&attributes);
    ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    ::posix_spawnattr_setpgroup(&attributes, 0);
  }
  ~SpawnPlan() {
    ::posix_spawn_file_actions_destroy(&actions);
    ::posix_spawnattr_destroy(&attributes);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;
};

/// Reads to the end. Returns false where the deadline passes first.
bool read_all(int fd, const base::Deadline& deadline, std::string& text) {
  std::array<char, 4096> buffer{};
  for (;;) {
    pollfd waiting{.fd = fd, .events = POLLIN, .revents = 0};
    const int ready = ::poll(&waiting, 1, deadline.poll_timeout());
    if (ready == 0) return false;
    const ssize_t got = ready < 0 ? -1 : ::read(fd, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return true;
    if (text.size() < most_bytes) text.append(buffer.data(), static_cast<std::size_t>(got));
  }
}

}  // namespace

Captured capture(const std::vector<std::string>& words, std::chrono::milliseconds at_most) {
  Pipe output;
  const SpawnPlan plan(output.writing.get());
  std::vector<std::string> copies(words);
  std::vector<char*> arguments;
  for (std::string& word : copies) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_t pid = -1;
  if (const int failed = ::posix_spawn(&pid, words.front().c_str(), &plan.actions, &plan.attributes, arguments.data(), environ); failed != 0)
    return {.printed = "cannot run " + words.front() + ": " + launcher::error_text(failed), .in_time = true};
  output.writing.reset();
  Captured captured;
  const base::Deadline deadline(at_most);
  const auto handle = base::handle_on_process(pid);
  captured.in_time = read_all(output.reading.get(), deadline, captured.printed) && (!handle || base::wait_for(handle->get(), POLLIN, deadline));
  if (!captured.in_time) ::kill(-pid, SIGKILL);
  while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  return captured;
}

}  // namespace unisono::tools

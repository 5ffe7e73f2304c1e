#include "hosts/host_child.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <fstream>

#include <fmt/format.h>

#include "base/socket.h"
#include "hosts/pipe.h"
#include "common/own_programs.h"
#include "launch/process/pidfd.h"
#include "launch/process/program.h"

namespace unisono::tools {
namespace {

using launcher::error_text;
using launcher::StartFailed;

/// Runs in the child. The descriptors of `kept` are the only ones, beside the standard streams, that it has.
void become_launcher(int in, int out, int err, const std::array<int, 3>& kept, pid_t parent) noexcept {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // its watchdog then ends the ranks
  if (::getppid() != parent) ::_exit(1);
  ::signal(SIGPIPE, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::dup2(in, STDIN_FILENO);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(err, STDERR_FILENO);
  for (const int fd : kept)
    if (fd >= 0) ::fcntl(fd, F_SETFD, 0);
}

}  // namespace

base::FileDescriptor secret_file(const base::Secret& secret) {
  base::FileDescriptor file(static_cast<int>(::syscall(SYS_memfd_create, "unisono-secret", MFD_CLOEXEC)));
  const bool done =
      file && ::fchmod(file.get(), 0600) == 0 && ::write(file.get(), secret.view().data(), secret.size()) == static_cast<ssize_t>(secret.size());
  if (!done) throw StartFailed("cannot keep the job's secret in memory: " + error_text(errno), 1);
  return file;
}

bool is_pending(pid_t pid, int signal) {
  std::ifstream file(fmt::format("/proc/{}/status", pid));
  for (std::string name; file >> name;) {
    unsigned long long pending = 0;
    if (name == "ShdPnd:" && file >> std::hex >> pending) return (pending >> (signal - 1) & 1) != 0;
    std::getline(file, name);
  }
  return false;
}

HostChild start_host_child(const std::vector<std::string>& words, const base::FileDescriptor& secret, launcher::EnvironmentBlock& environment) {
  Pipe input, output, errors, messages;
  const std::string path = path_of_command();
  std::vector<std::string> all{path, "__launch", std::to_string(messages.writing.get()), std::to_string(secret.get())};
  all.insert(all.end(), words.begin(), words.end());
  std::vector<char*> arguments;
  for (std::string& word : all) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  char* const* const variables = environment.data();
  const pid_t parent = ::getpid();
  HostChild child;
  child.pid = ::fork();
  if (child.pid < 0) throw StartFailed("cannot fork: " + error_text(errno), 1);
  if (child.pid == 0) {
    become_launcher(input.reading.get(), output.writing.get(), errors.writing.get(), {messages.writing.get(), secret.get()}, parent);
    ::execve(path.c_str(), arguments.data(), variables);
    ::_exit(launcher::exit_not_executable);
  }
  child.pidfd = launcher::open_pidfd(child.pid);
  if (!child.pidfd) throw StartFailed("cannot watch a process: " + error_text(errno), 1);
  child.input = std::move(input.writing);
  child.output = std::move(output.reading);
  child.errors = std::move(errors.reading);
  child.messages = std::move(messages.reading);
  for (const auto* fd : {&child.input, &child.output, &child.errors, &child.messages}) base::set_non_blocking(fd->get());
  return child;
}

}  // namespace unisono::tools

#include "launch/process/child.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>

#include "launch/process/host.h"
#include "launch/process/pidfd.h"
#include "launch/process/program.h"

namespace unisono::launcher {
namespace {

/// Runs in the child of a process that may have threads, so it is async-signal-safe.
void become_rank(const ChildPlan& plan, const Watchdog& watchdog, pid_t launcher) noexcept {
  ::setpgid(0, 0);
  watchdog.guard_self_group();
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != launcher) ::_exit(1);  // the launcher died before the line above
  if (plan.stdin_fd) ::dup2(*plan.stdin_fd, STDIN_FILENO);
  if (plan.stdout_fd) ::dup2(*plan.stdout_fd, STDOUT_FILENO);
  if (plan.stderr_fd) ::dup2(*plan.stderr_fd, STDERR_FILENO);
  if (plan.launcher_fd >= 0) ::fcntl(plan.launcher_fd, F_SETFD, 0);
  if (plan.record_fd >= 0) ::fcntl(plan.record_fd, F_SETFD, 0);
  if (plan.pmi_fd >= 0) ::fcntl(plan.pmi_fd, F_SETFD, 0);
  if (!plan.processors.empty()) {
    // The set covers processors beyond the 1024 of cpu_set_t. For setting, the kernel accepts a set shorter than its own.
    constexpr int bits = 8 * sizeof(unsigned long), most_processors = 1 << 16;
    unsigned long words[most_processors / bits] = {};
    for (const int processor : plan.processors) {
      if (processor < most_processors) words[processor / bits] |= 1UL << (processor % bits);
    }
    ::sched_setaffinity(0, sizeof words, reinterpret_cast<const cpu_set_t*>(words));
  }
  if (plan.descriptor_limit != 0) {
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = plan.descriptor_limit;
    ::setrlimit(RLIMIT_NOFILE, &limit);
  }
  if (plan.signals != nullptr) {
    if (!plan.signals->sigpipe_was_ignored()) ::signal(SIGPIPE, SIG_DFL);
    // A shell without job control starts background commands with these signals ignored. The launcher forwards them, so they must not stay ignored.
    if (is_ignored(SIGINT)) ::signal(SIGINT, SIG_DFL);
    if (is_ignored(SIGQUIT)) ::signal(SIGQUIT, SIG_DFL);
    ::sigprocmask(SIG_SETMASK, &plan.signals->original_mask(), nullptr);
  }
}

void flush_streams() {
  std::cout.flush();
  std::clog.flush();
  std::fflush(nullptr);
}

/// Ends the child of a function that calls exit, so that the handlers its parent registered with atexit do not run a second time.
void leave_at_exit(int code, void*) {
  flush_streams();
  ::_exit(code);
}

/// Closes what is the launcher's, or another rank's.
void close_others(const Task& task, const ChildPlan& plan) {
  if (task.program_descriptors.empty()) return;  // /proc does not tell which these are
  for (const int fd : open_descriptors()) {
    const bool is_own = fd <= STDERR_FILENO || fd == plan.launcher_fd || fd == plan.record_fd || fd == plan.pmi_fd;
    if (!is_own && std::ranges::find(task.program_descriptors, fd) == task.program_descriptors.end()) ::close(fd);
  }
}

[[noreturn]] void run_function(const Task& task, const ChildPlan& plan) {
  close_others(task, plan);
  ::on_exit(leave_at_exit, nullptr);
  int code = 1;
  try {
    code = task.function(plan.environment.as_environment());
  } catch (const std::exception& error) {
    std::cerr << "exception leaves the rank's function: " << error.what() << std::endl;
  } catch (...) {
    std::cerr << "an exception of unknown type leaves the rank's function" << std::endl;
  }
  flush_streams();
  ::_exit(code);
}

}  // namespace

Child start_child(const Task& task, ChildPlan& plan, const Watchdog& watchdog) {
  watchdog.await_apart();
  Pipe report;  // exec closes it; it carries the errno of a failed exec
  char* const* environment = plan.environment.data();
  std::vector<char*> arguments;
  for (const auto& argument : task.arguments) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  // A script without "#!" is run by the shell, as execvp does.
  std::vector<char*> shell_arguments{const_cast<char*>("sh"), const_cast<char*>(task.path.c_str())};
  if (!task.arguments.empty()) shell_arguments.insert(shell_arguments.end(), arguments.begin() + 1, arguments.end());

  if (task.function) flush_streams();  // otherwise every child would write what is buffered
  const pid_t launcher = ::getpid();
  Child child;
  // The child of a command may work in the launcher's own memory until it calls execve, since it changes none of it: a copy of that memory would be
  // thrown away at once. Where the program's own handlers of signals are in force, one could run in the child, so that gets a copy.
  const bool needs_copy = task.function || plan.signals == nullptr;
  child.pid = needs_copy ? ::fork() : ::vfork();  // NOLINT(bugprone-unsafe-functions)
  if (child.pid < 0) throw StartFailed("cannot fork: " + error_text(errno), 1);
  if (child.pid == 0) {
    become_rank(plan, watchdog, launcher);
    if (task.function) run_function(task, plan);
    ::execve(task.path.c_str(), arguments.data(), environment);
    if (errno == ENOEXEC) ::execve("/bin/sh", shell_arguments.data(), environment);
    const int error = errno;
    [[maybe_unused]] const auto told = ::write(report.writing.get(), &error, sizeof error);
    ::_exit(error == ENOENT ? exit_not_found : exit_not_executable);
  }
  ::setpgid(child.pid, child.pid);  // in both processes, so that neither signals the group before it exists
  child.pidfd = open_pidfd(child.pid);
  const int pidfd_error = errno;
  report.writing.reset();
  int error = 0;
  ssize_t got = 0;
  while (!task.function && (got = ::read(report.reading.get(), &error, sizeof error)) < 0 && errno == EINTR) {
  }
  if (got == static_cast<ssize_t>(sizeof error) || !child.pidfd) {
    ::kill(-child.pid, SIGKILL);
    reap(child.pid);
    watchdog.forget(child.pid);
    if (got != static_cast<ssize_t>(sizeof error)) throw StartFailed("cannot watch a process: " + error_text(pidfd_error), 1);
    const bool is_there = ::access(task.path.c_str(), F_OK) == 0;
    const std::string hint = error == ENOENT && is_there ? " (the interpreter it names is missing)" : "";
    throw StartFailed("cannot run \"" + task.path + "\": " + error_text(error) + hint, error == ENOENT ? exit_not_found : exit_not_executable);
  }
  return child;
}

}  // namespace unisono::launcher

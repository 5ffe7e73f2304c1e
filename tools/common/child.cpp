#include "common/child.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <system_error>

#include "base/code_file.h"
#include "base/deadline.h"
#include "base/environment.h"
#include "base/secret.h"
#include "base/socket.h"
#include "launch/process/pidfd.h"

namespace unisono::tools {
namespace {

using launcher::error_text;
using launcher::StartFailed;

constexpr std::size_t most_captured = 1 << 20;

/// Runs in the child.
void become_child(const std::array<int, 3>& streams, const ChildManner& manner, pid_t parent) noexcept {
  if (manner.has_session) ::setsid();
  else ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, manner.signal_after_us);
  if (::getppid() != parent) ::_exit(1);
  for (const int signal : manner.default_signals) ::signal(signal, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  for (int i = 0; i < 3; ++i) ::dup2(streams[static_cast<std::size_t>(i)], i);
  for (const int fd : manner.kept)
    if (fd >= 0) ::fcntl(fd, F_SETFD, 0);
}

/// Reads to the end. Returns false where the deadline passes first.
bool read_all(int fd, const base::Deadline& deadline, std::string& text) {
  std::array<char, 4096> buffer{};
  for (;;) {
    if (!base::wait_for(fd, POLLIN, deadline)) return false;
    const auto bytes = read_some(fd, buffer);
    if (bytes && bytes->empty()) return true;
    if (bytes && text.size() < most_captured) text += *bytes;
  }
}

namespace fs = std::filesystem;

/// Returns an empty path if the system does not tell.
fs::path own_program() {
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error);
}

bool is_helper(const fs::path& program) {
  const fs::path folder = program.parent_path();
  return folder.filename() == "unisono" && folder.parent_path().filename() == "libexec";
}

}  // namespace

PipedChild start_piped(const std::string& path, const std::vector<std::string>& words, launcher::EnvironmentBlock& environment,
                       const ChildManner& manner) {
  using Errors = ChildManner::Errors;
  Pipe input, output, errors;
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  char* const* const variables = environment.data();
  const int error_stream = manner.errors == Errors::piped         ? errors.writing.get()
                           : manner.errors == Errors::with_output ? output.writing.get()
                                                                  : STDERR_FILENO;
  const pid_t parent = ::getpid();
  PipedChild child;
  child.pid = ::fork();
  if (child.pid < 0) throw StartFailed("cannot fork: " + error_text(errno), 1);
  if (child.pid == 0) {
    become_child({input.reading.get(), output.writing.get(), error_stream}, manner, parent);
    ::execve(path.c_str(), arguments.data(), variables);
    ::_exit(launcher::exit_not_executable);
  }
  child.pidfd = launcher::open_pidfd(child.pid);
  if (!child.pidfd) throw StartFailed("cannot watch a process: " + error_text(errno), 1);
  child.input = std::move(input.writing);
  child.output = std::move(output.reading);
  child.errors = std::move(errors.reading);
  for (const auto* fd : {&child.input, &child.output, &child.errors}) base::set_non_blocking(fd->get());
  return child;
}

std::optional<std::string_view> read_some(int fd, std::span<char> buffer) {
  const auto got = ::read(fd, buffer.data(), buffer.size());
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return std::nullopt;
  return std::string_view(buffer.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
}

bool write_front(int fd, std::string& text) {
  while (!text.empty()) {
    const auto done = ::write(fd, text.data(), text.size());
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return done < 0 && errno == EAGAIN;
    base::wipe_front(text, static_cast<std::size_t>(done));
  }
  return true;
}

std::optional<std::string> find_tool(const std::string& name) {
  try {
    return launcher::find_program(name, base::Environment::process());
  } catch (const StartFailed&) {
    return std::nullopt;
  }
}

Captured capture(const std::vector<std::string>& words, std::chrono::milliseconds at_most, ChildManner::Errors errors) {
  launcher::EnvironmentBlock environment(base::Environment::process());
  environment.remove("UNISONO_TOKEN");
  PipedChild child = start_piped(words.front(), words, environment, {.errors = errors});
  child.input.reset();
  Captured captured;
  const base::Deadline deadline(at_most);
  captured.in_time = read_all(child.output.get(), deadline, captured.printed) && base::wait_for(child.pidfd.get(), POLLIN, deadline);
  if (!captured.in_time) ::kill(-child.pid, SIGKILL);
  while (::waitpid(child.pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  return captured;
}

std::string path_of_command() {
  const fs::path own = own_program();
  return is_helper(own) ? own.parent_path().parent_path().parent_path() / "bin" / "unisono" : own;
}

Helper helper(const std::string& name) {
  const fs::path path = fs::path(path_of_command()).parent_path().parent_path() / "libexec" / "unisono" / name;
  std::error_code error;
  if (!fs::exists(path, error)) return {};
  std::string objection = base::why_not_to_run(path);
  if (!objection.empty()) return {.objection = fmt::format("{} is not used: {}", path.string(), objection)};
  return {.path = path.string()};
}

}  // namespace unisono::tools

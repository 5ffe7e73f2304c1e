#include "hosts/remote_host.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <utility>

#include <fmt/format.h>

#include "base/environment.h"
#include "base/printable.h"
#include "base/socket.h"
#include "base/version.h"
#include "common/own_programs.h"
#include "hosts/pipe.h"
#include "hosts/start_words.h"
#include "launch/process/environment_block.h"
#include "launch/process/pidfd.h"
#include "launch/process/program.h"
#include "unisono/error.h"

namespace unisono::tools {
namespace {

using launcher::error_text;
using launcher::StartFailed;

constexpr std::string_view greeting_word = "unisono-host ";
constexpr std::size_t bytes_per_frame_read = 64u << 10;
constexpr std::size_t most_errors = 4u << 10;

std::string last_line(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

/// Runs in the child. A session of its own keeps Ctrl-C, which is passed on as a message, from ending ssh.
void become_ssh(int in, int out, int err, pid_t parent) noexcept {
  ::setsid();
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(1);
  ::dup2(in, STDIN_FILENO);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(err, STDERR_FILENO);
  for (const int signal : {SIGINT, SIGQUIT, SIGPIPE, SIGHUP}) ::signal(signal, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

}  // namespace

std::string greeting_line() { return std::string(greeting_word) + base::to_string(base::library_version()); }

RemoteHost::RemoteHost(HostEntry entry, const std::vector<std::string>& words)
    : entry_(std::move(entry)), local_(words.empty()), reader_(greeting_line()) {
  start(local_ ? std::vector<std::string>{path_of_command(), "__host"} : words);
}

RemoteHost::~RemoteHost() {
  in_.reset();
  out_.reset();
  err_.reset();
  if (status_) return;
  // Without its input it ends by itself, after what it has started; ssh that reaches nobody is ended here.
  const base::Deadline patience(std::chrono::seconds(2));
  if (!reader_.greeted() || !base::wait_for(pidfd_.get(), POLLIN, patience)) kill();
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void RemoteHost::kill() const {
  if (!status_) launcher::signal_pidfd(pidfd_, SIGKILL);
}

void RemoteHost::start(const std::vector<std::string>& words) {
  program_ = words.front();
  const std::string path = launcher::find_program(program_, base::Environment::process());
  launcher::EnvironmentBlock environment(base::Environment::process());
  environment.remove("UNISONO_TOKEN");  // it goes through standard input alone
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  char* const* const variables = environment.data();
  Pipe in, out, err;
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ < 0) throw StartFailed("cannot fork: " + error_text(errno), 1);
  if (pid_ == 0) {
    become_ssh(in.reading.get(), out.writing.get(), err.writing.get(), parent);
    ::execve(path.c_str(), arguments.data(), variables);
    ::_exit(launcher::exit_not_executable);
  }
  pidfd_ = launcher::open_pidfd(pid_);
  if (!pidfd_) throw StartFailed("cannot watch a process: " + error_text(errno), 1);
  in_ = std::move(in.writing);
  out_ = std::move(out.reading);
  err_ = std::move(err.reading);
  for (const auto* fd : {&in_, &out_, &err_}) base::set_non_blocking(fd->get());
}

void RemoteHost::send(FrameKind kind, std::string_view payload) {
  if (!in_ || closing_) return;
  std::string frame = encode(kind, payload);
  base::append_wiping(to_send_, frame);
  base::wipe(frame);  // it may hold a secret
}

void RemoteHost::write_some() {
  while (in_ && !to_send_.empty()) {
    const auto done = ::write(in_.get(), to_send_.data(), to_send_.size());
    if (done > 0) {
      base::wipe_front(to_send_, static_cast<std::size_t>(done));
    } else if (done < 0 && errno == EAGAIN) {
      return;
    } else if (errno != EINTR) {
      in_.reset();  // it has ended, which its output and its process show
      to_send_.clear();
    }
  }
  if (closing_) in_.reset();
}

void RemoteHost::read_frames(const std::function<void(const Frame&)>& take) {
  std::array<char, bytes_per_frame_read> bytes;
  const auto got = ::read(out_.get(), bytes.data(), bytes.size());
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (got <= 0) return out_.reset();
  heard_ = base::Clock::now();
  reader_.feed({bytes.data(), static_cast<std::size_t>(got)});
  try {
    while (const auto frame = reader_.next()) take(*frame);
  } catch (const Error& error) {
    broken_ = error.message();
  } catch (const std::exception&) {  // a number that is none
    broken_ = "what came from the other host is no message of unisono";
  }
  if (!broken_.empty()) {
    out_.reset();
    kill();
  }
}

void RemoteHost::read_errors() {
  std::array<char, most_errors> bytes;
  const auto got = ::read(err_.get(), bytes.data(), bytes.size());
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (got <= 0) return err_.reset();
  errors_.append(bytes.data(), static_cast<std::size_t>(got));
  if (errors_.size() > most_errors) errors_.erase(0, errors_.size() - most_errors);
}

void RemoteHost::note_end() {
  int status = 0;
  if (!status_ && ::waitpid(pid_, &status, WNOHANG) == pid_) status_ = status;
}

void RemoteHost::wait_for(launcher::PollSet& set, const std::function<void(const Frame&)>& take, bool may_read) {
  if (over_) return;
  write_some();
  if (in_ && !to_send_.empty()) set.add(in_.get(), POLLOUT, [this](short) { write_some(); });
  if (out_ && may_read) set.add(out_.get(), POLLIN, [this, take](short) { read_frames(take); });
  if (err_) set.add(err_.get(), POLLIN, [this](short) { read_errors(); });
  if (!status_) set.add(pidfd_.get(), POLLIN, [this](short) { note_end(); });
  // A process that ssh leaves behind (a shared connection's master) may hold its standard error open.
  over_ = status_.has_value() && !out_;
  if (over_ && err_) read_errors();
  if (over_) set.wake_within(std::chrono::milliseconds(0));
}

std::string RemoteHost::why() const {
  if (!broken_.empty()) return broken_;
  std::string text = local_ ? std::string("its process") : program_.substr(program_.rfind('/') + 1);
  if (status_ && WIFSIGNALED(*status_)) text += " was ended by " + base::signal_name(WTERMSIG(*status_));
  else text += fmt::format(" ended with exit code {}", status_ ? WEXITSTATUS(*status_) : 0);
  const std::string& noise = reader_.noise();
  if (const auto at = noise.find(greeting_word); at == 0 || (at != std::string::npos && noise[at - 1] == '\n')) {
    const std::string theirs = noise.substr(at, noise.find('\n', at) - at).substr(greeting_word.size());
    return fmt::format("it has unisono {}, and this one is {}", theirs, base::to_string(base::library_version()));
  }
  const std::string said = last_line(errors_).empty() ? last_line(noise) : last_line(errors_);
  return said.empty() ? text : text + ": " + said;
}

bool RemoteHost::was_terminated() const {
  if (!status_) return false;
  return WIFSIGNALED(*status_) ? WTERMSIG(*status_) == SIGTERM : WEXITSTATUS(*status_) == launcher::exit_signaled + SIGTERM;
}

std::string RemoteHost::hint() const {
  if (!broken_.empty() || local_ || reader_.greeted()) return {};
  if (reader_.noise().find(greeting_word) != std::string::npos) return "install the same version on all hosts";
  return hint_for(status_ && WIFEXITED(*status_) ? WEXITSTATUS(*status_) : 0, errors_, entry_.name);
}

}  // namespace unisono::tools

#include "hosts/remote_host.h"

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
#include "common/child.h"
#include "hosts/start_words.h"
#include "launch/process/environment_block.h"
#include "launch/process/pidfd.h"
#include "launch/process/program.h"
#include "unisono/error.h"

namespace unisono::tools {
namespace {

constexpr std::string_view greeting_word = "unisono-host ";
constexpr std::size_t bytes_per_frame_read = 64u << 10;
constexpr std::size_t most_errors = 4u << 10;

std::string last_line(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

}  // namespace

std::string greeting_line() { return std::string(greeting_word) + base::to_string(base::library_version()); }

RemoteHost::RemoteHost(HostEntry entry, const std::string& command)
    : entry_(std::move(entry)), local_(is_this_host(entry_.name)), reader_(greeting_line()) {
  const std::vector<std::string> words = local_ ? std::vector<std::string>{path_of_command(), "__host"} : start_words(command, entry_);
  program_ = words.front();
  const std::string path = launcher::find_program(program_, base::Environment::process());
  launcher::EnvironmentBlock environment(base::Environment::process());
  environment.remove("UNISONO_TOKEN");  // it goes through standard input alone
  // A session of its own keeps Ctrl-C, which is passed on as a message, from ending ssh.
  constexpr std::array default_signals{SIGINT, SIGQUIT, SIGPIPE, SIGHUP};
  child_ = start_piped(path, words, environment, {.has_session = true, .signal_after_us = SIGTERM, .default_signals = default_signals});
}

RemoteHost::~RemoteHost() {
  child_.input.reset();
  child_.output.reset();
  child_.errors.reset();
  if (status_) return;
  // Without its input it ends by itself, after what it has started; ssh that reaches nobody is ended here.
  const base::Deadline patience(std::chrono::seconds(2));
  if (!reader_.greeted() || !base::wait_for(child_.pidfd.get(), POLLIN, patience)) kill();
  while (::waitpid(child_.pid, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void RemoteHost::kill() const {
  if (!status_) launcher::signal_pidfd(child_.pidfd, SIGKILL);
}

void RemoteHost::send(FrameKind kind, std::string_view payload) {
  if (!child_.input || closing_) return;
  std::string frame = encode(kind, payload);
  base::append_wiping(to_send_, frame);
  base::wipe(frame);  // it may hold a secret
}

void RemoteHost::write_some() {
  if (child_.input && !write_front(child_.input.get(), to_send_)) {
    child_.input.reset();  // it has ended, which its output and its process show
    to_send_.clear();
  }
  if (closing_ && to_send_.empty()) child_.input.reset();
}

void RemoteHost::read_frames(const std::function<void(const Frame&)>& take) {
  std::array<char, bytes_per_frame_read> buffer;
  const auto bytes = read_some(child_.output.get(), buffer);
  if (!bytes) return;
  if (bytes->empty()) return child_.output.reset();
  heard_ = base::Clock::now();
  reader_.feed(*bytes);
  try {
    while (const auto frame = reader_.next()) take(*frame);
  } catch (const Error& error) {
    broken_ = error.message();
  } catch (const std::exception&) {  // a number that is none
    broken_ = "the other host has sent something that is not a message of unisono";
  }
  if (!broken_.empty()) {
    child_.output.reset();
    kill();
  }
}

void RemoteHost::read_errors() {
  std::array<char, most_errors> buffer;
  const auto bytes = read_some(child_.errors.get(), buffer);
  if (!bytes) return;
  if (bytes->empty()) return child_.errors.reset();
  errors_ += *bytes;
  if (errors_.size() > most_errors) errors_.erase(0, errors_.size() - most_errors);
}

void RemoteHost::note_end() {
  int status = 0;
  if (!status_ && ::waitpid(child_.pid, &status, WNOHANG) == child_.pid) status_ = status;
}

void RemoteHost::wait_for(launcher::PollSet& set, const std::function<void(const Frame&)>& take, bool may_read) {
  if (over_) return;
  write_some();
  if (child_.input && !to_send_.empty()) set.add(child_.input.get(), POLLOUT, [this](short) { write_some(); });
  if (child_.output && may_read) set.add(child_.output.get(), POLLIN, [this, take](short) { read_frames(take); });
  if (child_.errors) set.add(child_.errors.get(), POLLIN, [this](short) { read_errors(); });
  if (!status_) set.add(child_.pidfd.get(), POLLIN, [this](short) { note_end(); });
  // A process that ssh leaves behind (a shared connection's master) may hold its standard error open.
  over_ = status_.has_value() && !child_.output;
  if (over_ && child_.errors) read_errors();
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

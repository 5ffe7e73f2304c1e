#include "launch/process/signals.h"

#include <sys/signalfd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <mutex>

#include "launch/process/program.h"

namespace unisono::launcher {
namespace {

/// A user who means it presses Ctrl-C once more after that time; the processes that signal a job twice do so at once.
constexpr std::chrono::seconds time_of_a_request{1};

/// The change that all KeptChildren of the process have made together.
struct {
  std::mutex mutex;
  int users = 0;
  std::optional<struct sigaction> original;
} kept;

}  // namespace

std::optional<int> parse_signal(std::string_view text) {
  int number = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && stop == text.data() + text.size()) return number > 0 && number < NSIG ? std::optional(number) : std::nullopt;
  std::string upper(text);
  std::transform(upper.begin(), upper.end(), upper.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  if (upper.starts_with("SIG")) upper.erase(0, 3);
  for (int signal = 1; signal < NSIG; ++signal) {
    const char* name = ::sigabbrev_np(signal);
    if (name != nullptr && upper == name) return signal;
  }
  return std::nullopt;
}

SignalScope::SignalScope(std::span<const int> signals, std::span<const int> forwarded) : forwarded_(forwarded.begin(), forwarded.end()) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : signals) sigaddset(&set, signal);
  ::pthread_sigmask(SIG_BLOCK, &set, &original_mask_);
  fd_.reset(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd_) {
    const int error = errno;
    ::pthread_sigmask(SIG_SETMASK, &original_mask_, nullptr);
    throw StartFailed("cannot watch signals: " + error_text(error), 1);
  }
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &ignore, &original_pipe_);
}

SignalScope::~SignalScope() {
  while (next()) {  // signals that arrived too late were meant for the job that is over
  }
  ::sigaction(SIGPIPE, &original_pipe_, nullptr);
  ::pthread_sigmask(SIG_SETMASK, &original_mask_, nullptr);
}

std::optional<int> SignalScope::next() {
  signalfd_siginfo info{};
  while (::read(fd_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    const auto signal = static_cast<int>(info.ssi_signo);
    if (!is_repeated(signal)) return signal;
  }
  return std::nullopt;
}

void SignalScope::note_request(int signal) {
  requested_ = signal;
  requested_at_ = base::Clock::now();
}

bool SignalScope::is_repeated(int signal) {
  if (std::ranges::find(ending_signals, signal) == ending_signals.end() || std::ranges::find(forwarded_, signal) != forwarded_.end()) return false;
  if (signal == requested_ && base::Clock::now() - requested_at_ < time_of_a_request) return true;
  note_request(signal);
  return false;
}

KeptChildren::KeptChildren() {
  const std::lock_guard lock(kept.mutex);
  ++kept.users;
  struct sigaction now {};
  if (::sigaction(SIGCHLD, nullptr, &now) != 0) return;
  const bool ignored = (now.sa_flags & SA_SIGINFO) == 0 && now.sa_handler == SIG_IGN;
  if (!ignored && (now.sa_flags & SA_NOCLDWAIT) == 0) return;
  if (!kept.original) kept.original = now;
  if (ignored) now.sa_handler = SIG_DFL;
  now.sa_flags &= ~SA_NOCLDWAIT;
  ::sigaction(SIGCHLD, &now, nullptr);
}

KeptChildren::~KeptChildren() {
  const std::lock_guard lock(kept.mutex);
  if (--kept.users > 0 || !kept.original) return;
  ::sigaction(SIGCHLD, &*kept.original, nullptr);
  kept.original.reset();
}

bool is_ignored(int signal) {
  struct sigaction now {};
  return ::sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

}  // namespace unisono::launcher

#include "launch/signals.h"

#include <sys/signalfd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "launch/program.h"

namespace unisono::launcher {

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

SignalScope::SignalScope(std::span<const int> signals) {
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
  const auto got = ::read(fd_.get(), &info, sizeof info);
  if (got != static_cast<ssize_t>(sizeof info)) return std::nullopt;
  return static_cast<int>(info.ssi_signo);
}

KeptChildren::KeptChildren() {
  struct sigaction now {};
  if (::sigaction(SIGCHLD, nullptr, &now) != 0) return;
  const bool ignored = (now.sa_flags & SA_SIGINFO) == 0 && now.sa_handler == SIG_IGN;
  if (!ignored && (now.sa_flags & SA_NOCLDWAIT) == 0) return;
  original_ = now;
  if (ignored) now.sa_handler = SIG_DFL;
  now.sa_flags &= ~SA_NOCLDWAIT;
  ::sigaction(SIGCHLD, &now, nullptr);
}

KeptChildren::~KeptChildren() {
  if (original_) ::sigaction(SIGCHLD, &*original_, nullptr);
}

bool is_ignored(int signal) {
  struct sigaction now {};
  return ::sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

}  // namespace unisono::launcher

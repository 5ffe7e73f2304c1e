#include "launch/stdin_pump.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "launch/program.h"

namespace unisono::launcher {

StdinPump::StdinPump() : terminal_(::isatty(STDIN_FILENO) == 1) {}

ground::FileDescriptor StdinPump::open() {
  if (!terminal_) return ground::FileDescriptor(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3));
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw StartFailed("cannot make a pipe: " + error_text(errno), 1);
  pipe_.reset(ends[1]);
  ::fcntl(pipe_.get(), F_SETFL, O_NONBLOCK);
  pending_.clear();
  return ground::FileDescriptor(ends[0]);
}

void StdinPump::wait_for(PollSet& set) {
  if (!pipe_) return;
  if (!pending_.empty()) {
    set.add(pipe_.get(), POLLOUT, [this](short) { write_pipe(); });
    return;
  }
  set.add(pipe_.get(), 0, [this](short) { pipe_.reset(); });  // POLLERR: rank 0 has closed its standard input
  if (in_background_ && !in_background_->passed()) {
    set.wake_at(*in_background_);
    return;
  }
  // In the background a read would stop the launcher (SIGTTIN): look again later.
  if (::tcgetpgrp(STDIN_FILENO) != ::getpgrp()) {
    in_background_.emplace(std::chrono::milliseconds(250));
    set.wake_at(*in_background_);
    return;
  }
  in_background_.reset();
  set.add(STDIN_FILENO, POLLIN, [this](short) { read_terminal(); });
}

void StdinPump::read_terminal() {
  std::array<char, 4096> bytes;
  const auto got = ::read(STDIN_FILENO, bytes.data(), bytes.size());
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (got <= 0) {
    pipe_.reset();  // Ctrl-D, or the terminal is gone
    return;
  }
  typed_ = true;
  pending_.assign(bytes.data(), static_cast<std::size_t>(got));
  write_pipe();
}

void StdinPump::write_pipe() {
  const auto done = ::write(pipe_.get(), pending_.data(), pending_.size());
  if (done > 0) {
    pending_.erase(0, static_cast<std::size_t>(done));
  } else if (errno != EINTR && errno != EAGAIN) {
    pipe_.reset();
    pending_.clear();
  }
}

}  // namespace unisono::launcher

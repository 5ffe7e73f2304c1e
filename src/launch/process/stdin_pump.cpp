#include "launch/process/stdin_pump.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>

#include "launch/process/pidfd.h"

namespace unisono::launcher {
namespace {

/// The most bytes by which the fastest rank may be ahead of the slowest.
constexpr std::size_t most_pending = 1u << 20;
constexpr std::size_t bytes_per_read = 64u << 10;
constexpr std::chrono::milliseconds pause_in_background{250};

}  // namespace

std::optional<StdinTarget> StdinTarget::parse(std::string_view text) {
  if (text == "all") return StdinTarget{.kind = Kind::all};
  if (text == "none") return StdinTarget{.kind = Kind::none};
  StdinTarget target;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), target.rank);
  if (error != std::errc() || stop != text.data() + text.size() || target.rank < 0) return std::nullopt;
  return target;
}

StdinPump::StdinPump(StdinTarget target) : target_(target), terminal_(::isatty(STDIN_FILENO) == 1) {}

void StdinPump::begin_attempt() {
  feeds_.clear();
  pending_.clear();
  ended_ = false;
}

base::FileDescriptor StdinPump::open(int rank) {
  if (!target_.includes(rank)) return base::FileDescriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!terminal_ && target_.kind == StdinTarget::Kind::one) return base::FileDescriptor(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3));
  Pipe pipe;
  ::fcntl(pipe.writing.get(), F_SETFL, O_NONBLOCK);
  feeds_.push_back({.pipe = std::move(pipe.writing)});
  return std::move(pipe.reading);
}

void StdinPump::wait_for(PollSet& set) {
  forget_sent();
  if (feeds_.empty()) return;
  for (Feed& feed : feeds_) {
    const bool has_more = feed.sent < pending_.size();
    set.add(feed.pipe.get(), has_more ? POLLOUT : 0, [this, &feed](short events) {
      if ((events & POLLERR) != 0) {
        feed.pipe.reset();  // the rank has closed its standard input
      } else {
        write_to(feed);
      }
    });
  }
  if (pending_.size() >= most_pending || ended_) return;
  if (in_background_ && !in_background_->passed()) {
    set.wake_at(*in_background_);
    return;
  }
  // A read in the background would stop the launcher (SIGTTIN), so it is tried again later.
  if (terminal_ && ::tcgetpgrp(STDIN_FILENO) != ::getpgrp()) {
    in_background_.emplace(pause_in_background);
    set.wake_at(*in_background_);
    return;
  }
  in_background_.reset();
  set.add(STDIN_FILENO, POLLIN, [this](short) { read_input(); });
}

void StdinPump::read_input() {
  std::array<char, bytes_per_read> bytes;
  const auto got = ::read(STDIN_FILENO, bytes.data(), bytes.size());
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (got <= 0) {
    ended_ = true;  // the end of a file, Ctrl-D, or a terminal that is gone
    return;
  }
  typed_ = terminal_;
  pending_.append(bytes.data(), static_cast<std::size_t>(got));
  for (Feed& feed : feeds_) {
    if (feed.pipe) write_to(feed);
  }
}

void StdinPump::write_to(Feed& feed) {
  const auto done = ::write(feed.pipe.get(), pending_.data() + feed.sent, pending_.size() - feed.sent);
  if (done > 0) {
    feed.sent += static_cast<std::size_t>(done);
  } else if (errno != EINTR && errno != EAGAIN) {
    feed.pipe.reset();
  }
}

/// Drops the bytes that all ranks have got, and the ranks that get nothing more.
void StdinPump::forget_sent() {
  std::erase_if(feeds_, [this](const Feed& feed) { return !feed.pipe || (ended_ && feed.sent == pending_.size()); });
  std::size_t sent = pending_.size();
  for (const Feed& feed : feeds_) sent = std::min(sent, feed.sent);
  pending_.erase(0, sent);
  for (Feed& feed : feeds_) feed.sent -= sent;
}

}  // namespace unisono::launcher

#pragma once

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <functional>
#include <vector>

#include "base/deadline.h"
#include "base/file_descriptor.h"
#include "launch/process/program.h"

namespace unisono::launcher {

/// A round of waiting: each participant adds its descriptors and its time limit, then `wait` calls back those concerned. A new object for every
/// round makes deregistration unnecessary.
class PollSet {
 public:
  using Milliseconds = std::chrono::milliseconds;

  void add(int fd, short events, std::function<void(short)> ready) {
    entries_.push_back({fd, events, 0});
    ready_.push_back(std::move(ready));
  }
  /// Ends the round after this time at the latest.
  void wake_within(Milliseconds time) { limit_ = std::min(limit_, std::max(time, Milliseconds(0))); }
  void wake_at(const base::Deadline& deadline) { wake_within(deadline.left()); }

  void wait() {
    constexpr std::int64_t longest = 1 << 30;  // milliseconds, within an int
    const int timeout = limit_ == Milliseconds::max() ? -1 : static_cast<int>(std::min<std::int64_t>(limit_.count(), longest));
    const int count = ::poll(entries_.data(), entries_.size(), timeout);
    if (count <= 0) return;
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      if (entries_[i].revents != 0) ready_[i](entries_[i].revents);
    }
  }

 private:
  std::vector<pollfd> entries_;
  std::vector<std::function<void(short)>> ready_;
  Milliseconds limit_ = Milliseconds::max();
};

/// Ends rounds of waiting from another thread.
class Notifier {
 public:
  /// Throws StartFailed if there is no descriptor to spare.
  Notifier() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!fd_) throw StartFailed("cannot make an event descriptor: " + error_text(errno), 1);
  }
  /// Rounds end, until `clear` is called.
  void notify() const { ::eventfd_write(fd_.get(), 1); }
  void clear() const {
    eventfd_t notified = 0;
    ::eventfd_read(fd_.get(), &notified);
  }
  int fd() const { return fd_.get(); }

 private:
  base::FileDescriptor fd_;
};

}  // namespace unisono::launcher

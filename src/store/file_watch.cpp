#include "store/file_watch.h"

#include <poll.h>
#include <sys/inotify.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>

#include "base/interruption.h"

namespace unisono::store {
namespace {

using namespace std::chrono_literals;

// Returns true for file systems that other hosts can change, which inotify does not see.
bool is_shared(const std::string& path) {
  struct statfs status {};
  if (::statfs(path.c_str(), &status) != 0) return true;
  constexpr std::array<long, 8> local = {0x01021994 /* tmpfs */,
                                         0xEF53 /* ext */,
                                         0x58465342 /* xfs */,
                                         0x9123683E /* btrfs */,
                                         0x794c7630 /* overlay */,
                                         0x2fc12fc1 /* zfs */,
                                         static_cast<long>(0x858458f6) /* ramfs */,
                                         0xF2F52010 /* f2fs */};
  for (const long type : local) {
    if (static_cast<long>(status.f_type) == type) return false;
  }
  return true;
}

}  // namespace

constexpr auto pause_without_watch = 50ms;  // changes are seen only by looking
constexpr auto pause_of_shared = 100ms;     // changes of other hosts are seen only by looking
constexpr auto pause_with_watch = 1000ms;   // the watch reports changes; looking covers a lost event

FileWatch::FileWatch(const std::string& path) : inotify_(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK)) {
  if (inotify_ && ::inotify_add_watch(inotify_.get(), path.c_str(), IN_MODIFY) < 0) inotify_.reset();
  if (!inotify_) {
    longest_ = pause_without_watch;
  } else if (is_shared(path)) {
    longest_ = pause_of_shared;
  } else {
    pause_ = longest_ = pause_with_watch;
  }
}

void FileWatch::wait(const base::Deadline& deadline) {
  base::check_interruption();
  pollfd entry{inotify_.get(), POLLIN, 0};
  // poll ignores a negative descriptor and only waits then.
  if (::poll(&entry, 1, deadline.poll_timeout(static_cast<int>(base::interruptible(pause_).count()))) > 0) {
    std::array<char, 4096> events;
    while (::read(inotify_.get(), events.data(), events.size()) > 0) continue;
  }
  pause_ = std::min(pause_ * 2, longest_);
}

}  // namespace unisono::store

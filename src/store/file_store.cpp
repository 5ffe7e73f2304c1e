#include <poll.h>
#include <sys/inotify.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <string>

#include <fmt/format.h>

#include "base/deadline.h"
#include "base/file_descriptor.h"
#include "base/switches.h"
#include "store/file_log.h"
#include "store/table.h"
#include "unisono/error.h"
#include "unisono/store.h"

namespace unisono {
namespace {

using namespace std::chrono_literals;

// Returns true for file systems that other hosts can change, which inotify does not see.
bool is_shared_between_hosts(const std::string& path) {
  constexpr std::array<long, 8> local = {0x01021994, 0xEF53,     0x58465342, 0x9123683E,   // tmpfs, ext, xfs, btrfs
                                         0x794c7630, 0x2fc12fc1, 0x858458f6, 0xF2F52010};  // overlay, zfs, ramfs, f2fs
  struct statfs status {};
  return ::statfs(path.c_str(), &status) != 0 || std::ranges::find(local, static_cast<long>(status.f_type)) == local.end();
}

constexpr auto pause_without_watch = 50ms;  // changes are seen only by looking
constexpr auto pause_of_shared = 100ms;     // changes of other hosts are seen only by looking
constexpr auto pause_with_watch = 1000ms;   // the watch reports changes; looking covers a lost event

/// Wakes a reader when a file changes. inotify reports changes made on this host. On a shared file system, or where the system has no watches left,
/// the reader looks again after a bounded pause. A watch is made before the first look, so that no change is missed in between.
class FileWatch {
 public:
  explicit FileWatch(const std::string& path);
  /// Returns after a change, after the pause, or at the deadline.
  void wait(const base::Deadline& deadline);

 private:
  base::FileDescriptor inotify_;
  std::chrono::milliseconds pause_{1};
  std::chrono::milliseconds longest_{};
};

FileWatch::FileWatch(const std::string& path) : inotify_(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK)) {
  if (inotify_ && ::inotify_add_watch(inotify_.get(), path.c_str(), IN_MODIFY) < 0) inotify_.reset();
  if (!inotify_) {
    longest_ = pause_without_watch;
  } else if (is_shared_between_hosts(path)) {
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

}  // namespace

using base::Deadline;

struct FileStore::State {
  explicit State(std::string path) : log(std::move(path)), place("the store file " + log.path()) {}

  std::mutex mutex;
  store::FileLog log;
  const std::string place;

  // Runs f(log) with the file locked and read up to its end. The lock is held for microseconds, unless its holder was stopped. The release of a lock
  // wakes nobody up, hence the short pauses, up to the deadline.
  template <class F>
  auto locked(bool exclusive, const Deadline& deadline, F&& f) {
    constexpr int longest_pause_ms = 20;
    for (int pause = 0;; pause = std::min(pause * 2 + 1, longest_pause_ms)) {
      {
        const std::lock_guard lock(mutex);
        if (const auto guard = log.try_lock(exclusive)) {
          log.refresh();
          return f(log);
        }
      }
      if (deadline.passed()) throw Timeout(fmt::format("{} stayed locked by another process for {} ms", place, deadline.timeout().count()));
      ::poll(nullptr, 0, deadline.poll_timeout(pause));
    }
  }

  // Returns f(table) once all keys are set.
  template <class F>
  auto await(std::span<const std::string> keys, Milliseconds timeout, F&& f) {
    const Deadline deadline(timeout);
    std::optional<FileWatch> watch;
    for (;;) {
      std::vector<std::string> missing;
      auto found = locked(false, deadline, [&](const store::FileLog& file) -> std::optional<decltype(f(file.table()))> {
        missing = file.table().missing(keys);
        if (!missing.empty()) return std::nullopt;
        return f(file.table());
      });
      if (found) return std::move(*found);
      if (deadline.passed()) store::throw_missing(place, missing, timeout);
      if (!watch) {
        watch.emplace(log.path());  // looks once more, for changes before the watch
        continue;
      }
      watch->wait(deadline);
    }
  }
};

FileStore::FileStore(std::string path) : state_(std::make_unique<State>(std::move(path))) {
  state_->locked(false, Deadline(timeout()), [](const store::FileLog&) { return true; });
}
FileStore::~FileStore() = default;

void FileStore::set(std::string_view key, std::string_view value) {
  state_->locked(true, Deadline(timeout()), [&](store::FileLog& log) {
    log.set(key, value);
    return true;
  });
}

std::string FileStore::get(std::string_view key, std::optional<Milliseconds> timeout) {
  const std::string name(key);
  return state_->await({&name, 1}, timeout.value_or(this->timeout()), [&](const store::Table& table) { return *table.find(key); });
}

std::optional<std::string> FileStore::try_get(std::string_view key) {
  return state_->locked(false, Deadline(timeout()), [&](const store::FileLog& log) {
    const std::string* value = log.table().find(key);
    return value == nullptr ? std::nullopt : std::optional(*value);
  });
}

std::int64_t FileStore::add(std::string_view key, std::int64_t amount) {
  return state_->locked(true, Deadline(timeout()), [&](store::FileLog& log) {
    const std::int64_t sum = store::Table::sum(key, log.table().find(key), amount);
    log.set(key, std::to_string(sum));
    return sum;
  });
}

void FileStore::wait(std::span<const std::string> keys, std::optional<Milliseconds> timeout) {
  state_->await(keys, timeout.value_or(this->timeout()), [](const store::Table&) { return true; });
}

std::string FileStore::compare_set(std::string_view key, std::string_view expected, std::string_view desired) {
  return state_->locked(true, Deadline(timeout()), [&](store::FileLog& log) {
    const std::string* value = log.table().find(key);
    std::string current = value == nullptr ? std::string() : *value;
    if (current != expected) return current;
    log.set(key, desired);
    return std::string(desired);
  });
}

bool FileStore::erase(std::string_view key) {
  return state_->locked(true, Deadline(timeout()), [&](store::FileLog& log) { return log.erase(key); });
}

std::int64_t FileStore::num_keys() {
  return state_->locked(false, Deadline(timeout()), [](const store::FileLog& log) { return static_cast<std::int64_t>(log.table().size()); });
}

const std::string& FileStore::path() const noexcept { return state_->log.path(); }

}  // namespace unisono

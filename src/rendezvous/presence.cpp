#include "rendezvous/presence.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <random>

#include <fmt/format.h>

#include "base/socket.h"
#include "store/file_log.h"
#include "unisono/error.h"

namespace unisono::rendezvous {
namespace {

constexpr std::int64_t presence_range = std::int64_t{1} << 40;  ///< bytes to draw from
constexpr std::chrono::milliseconds time_to_leave{1000};        ///< for the lock on the file's content
constexpr int longest_pause_ms = 20;

// The byte is drawn at random and not counted, so that the byte of a process that died is not used again.
std::int64_t draw_byte() {
  std::random_device device;
  return store::presence_base + static_cast<std::int64_t>(std::uniform_int_distribution<std::uint64_t>(0, presence_range - 1)(device));
}

bool is_removed(int fd) {
  struct stat status {};
  return ::fstat(fd, &status) == 0 && status.st_nlink == 0;
}

}  // namespace

Presence::Presence(std::string path, const base::Deadline& deadline) : path_(std::move(path)), pid_(::getpid()) {
  for (;;) {
    fd_.reset(::open(path_.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600));  // as the store's file is
    if (!fd_ && errno == ELOOP) throw InvalidArgument(fmt::format("the rendezvous file {} is a symbolic link, which is not followed", path_));
    if (!fd_) throw InvalidArgument(fmt::format("the rendezvous file {} cannot be opened: {}", path_, base::error_text(errno)));
    if (!lock_content(deadline))
      throw Timeout(fmt::format("the rendezvous file {} stayed locked by another process for {} ms", path_, deadline.timeout().count()));
    // The file was removed between the opening and the lock: the next process would not find this one here.
    if (is_removed(fd_.get())) continue;
    do {
      byte_ = draw_byte();
    } while (!store::try_lock_bytes(fd_.get(), byte_, 1, true));
    store::unlock_bytes(fd_.get(), 0, 1);
    return;
  }
}

Presence::~Presence() {
  if (::getpid() != pid_) return;  // a child of fork: the lock is its parent's
  using namespace std::chrono_literals;
  try {
    if (!lock_content(base::Deadline(time_to_leave))) return;
  } catch (const Error&) {
    return;
  }
  struct stat named {};
  struct stat ours {};
  const bool same =
      ::stat(path_.c_str(), &named) == 0 && ::fstat(fd_.get(), &ours) == 0 && named.st_dev == ours.st_dev && named.st_ino == ours.st_ino;
  if (same && !store::bytes_are_locked(fd_.get(), store::presence_base, presence_range)) ::unlink(path_.c_str());
}

bool Presence::is_alive(std::int64_t byte) const { return byte == byte_ || store::bytes_are_locked(fd_.get(), byte, 1); }

// The lock is held for microseconds. Its release wakes nobody up, hence the short pauses.
bool Presence::lock_content(const base::Deadline& deadline) const {
  for (int pause = 0; !store::try_lock_bytes(fd_.get(), 0, 1, true); pause = std::min(pause * 2 + 1, longest_pause_ms)) {
    if (deadline.passed()) return false;
    ::poll(nullptr, 0, deadline.poll_timeout(pause));
  }
  return true;
}

void use_presence(JoinRequest& request, const std::shared_ptr<store::etcd::KeysInEtcd>& store) {
  request.self.presence = store->presence();
  request.is_alive = [store, machine = request.self.member.machine](const Record& record) {
    if (record.member.machine == machine && ::kill(record.member.pid, 0) != 0 && errno == ESRCH) return false;
    return store->is_present(record.presence);
  };
}

}  // namespace unisono::rendezvous

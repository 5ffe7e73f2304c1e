#include "failing_calls.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <iterator>

namespace {

// Nothing here allocates, or runs before it is needed: mmap may be called by anybody at any time.
// NOLINTBEGIN(readability-identifier-naming): without the last character they are the calls
enum Call {
  pthread_create_,
  accept4_,
  recvmsg_,
  recv_,
  send_,
  sendmsg_,
  mmap_,
  memfd_create_,
  ftruncate_,
  eventfd_,
  epoll_create1_,
  epoll_ctl_,
  epoll_wait_,
  poll_,
  socket_,
  socketpair_,
  connect_,
  bind_,
  listen_,
  pidfd_open_,
  setsid_,
  count_of_calls
};
// NOLINTEND(readability-identifier-naming)
constexpr const char* names[] = {"pthread_create", "accept4",    "recvmsg", "recv",          "send",      "sendmsg",    "mmap",
                                 "memfd_create",   "ftruncate",  "eventfd", "epoll_create1", "epoll_ctl", "epoll_wait", "poll",
                                 "socket",         "socketpair", "connect", "bind",          "listen",    "pidfd_open", "setsid"};
static_assert(std::size(names) == count_of_calls);

std::atomic<int> counts[count_of_calls];
std::atomic<int> armed{-1}, armed_nth{0}, armed_more{0}, armed_error{0};
std::atomic<int> waiting{-1};
std::atomic<bool> struck{false};
char mark[256];

int call_named(const char* name) {
  for (int call = 0; call < count_of_calls; ++call) {
    if (std::strcmp(names[call], name) == 0) return call;
  }
  return -1;
}

/// 0, or what this one fails with.
int fails(Call call) {
  const int number = counts[call].fetch_add(1) + 1;
  if (armed.load() != call || armed_nth.load() == 0 || number < armed_nth.load() || number > armed_nth.load() + armed_more.load()) return 0;
  if (!struck.exchange(true) && mark[0] != 0) {
    ::close(static_cast<int>(::syscall(SYS_openat, AT_FDCWD, mark, O_CREAT | O_WRONLY | O_CLOEXEC, 0600)));
  }
  if (armed_error.load() == unisono::testing::killed) ::kill(::getpid(), SIGKILL);
  if (armed_error.load() == unisono::testing::stopped) {
    ::raise(SIGSTOP);
    return 0;
  }
  return armed_error.load();
}

/// The function behind ours.
template <class Function>
Function* real(Call call, Function*) {
  static std::atomic<void*> found[count_of_calls];
  void* function = found[call].load();
  if (function == nullptr) found[call].store(function = ::dlsym(RTLD_NEXT, call == pidfd_open_ ? "syscall" : names[call]));
  return reinterpret_cast<Function*>(function);
}

/// Calls it, unless this is the call to fail.
template <class Result, class... Parameters, class... Arguments>
Result pass(Call call, Result (*self)(Parameters...), Result failed, Arguments... arguments) {
  if (const int error = fails(call); error > 0) {
    errno = error;
    return failed;
  }
  return real(call, self)(arguments...);
}

/// The same, of what moves bytes.
template <class Function>
ssize_t moved(Call call, std::size_t bytes, Function&& move) {
  const int error = fails(call);
  if (error > 0) {
    errno = error;
    return -1;
  }
  return move(error == unisono::testing::cut_short && bytes > 1 ? std::size_t{1} : bytes);
}

__attribute__((constructor)) void read_environment() {
  const char* text = std::getenv("FAILING_CALL");
  const char* rank = std::getenv("FAILING_CALL_RANK");
  const char* own = std::getenv("RANK");
  if (text == nullptr || (rank != nullptr && std::strcmp(rank, own == nullptr ? "-" : own) != 0)) return;
  if (const char* path = std::getenv("FAILING_CALL_MARK")) std::strncpy(mark, path, sizeof mark - 1);
  char name[32] = {};
  const char* colon = std::strchr(text, ':');
  if (colon == nullptr || colon - text >= static_cast<std::ptrdiff_t>(sizeof name)) return;
  std::memcpy(name, text, static_cast<std::size_t>(colon - text));
  char* end = nullptr;
  int numbers[3] = {};  // nth, errno, more
  for (int i = 0; i < 3 && colon != nullptr; ++i) {
    numbers[i] = static_cast<int>(std::strtol(colon + 1, &end, 10));
    colon = *end == ':' ? end : nullptr;
  }
  unisono::testing::arm(name, numbers[0], numbers[1], numbers[2]);
  // Until failing_calls_begin none is counted.
  if (std::getenv("FAILING_CALL_WAITS") != nullptr) waiting.store(armed.exchange(-1));
}

}  // namespace

namespace unisono::testing {

void arm(const char* call, int nth, int error, int more) {
  armed.store(-1);
  for (auto& count : counts) count.store(0);
  struck.store(false);
  armed_nth.store(nth);
  armed_error.store(error);
  armed_more.store(more);
  armed.store(call_named(call));
}

int calls_of(const char* call) {
  const int number = call_named(call);
  return number < 0 ? 0 : counts[number].load();
}

bool has_struck() { return struck.load(); }

}  // namespace unisono::testing

extern "C" {

__attribute__((visibility("default"))) void failing_calls_begin() {
  for (auto& count : counts) count.store(0);
  armed.store(waiting.load());
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*body)(void*), void* argument) noexcept {
  if (const int error = fails(pthread_create_); error > 0) return error;
  return real(pthread_create_, &pthread_create)(thread, attributes, body, argument);
}

int accept4(int fd, sockaddr* address, socklen_t* size, int flags) { return pass(accept4_, &accept4, -1, fd, address, size, flags); }

ssize_t recvmsg(int fd, msghdr* message, int flags) {
  return moved(recvmsg_, message->msg_iovlen > 0 ? message->msg_iov[0].iov_len : 0, [&](std::size_t bytes) {
    if (message->msg_iovlen == 0 || bytes == message->msg_iov[0].iov_len) return real(recvmsg_, &recvmsg)(fd, message, flags);
    iovec first{message->msg_iov[0].iov_base, bytes};
    msghdr little = *message;
    little.msg_iov = &first;
    little.msg_iovlen = 1;
    const ssize_t n = real(recvmsg_, &recvmsg)(fd, &little, flags);
    message->msg_flags = little.msg_flags;
    message->msg_controllen = little.msg_controllen;
    return n;
  });
}

ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  return moved(sendmsg_, message->msg_iovlen > 0 ? message->msg_iov[0].iov_len : 0, [&](std::size_t bytes) {
    if (message->msg_iovlen == 0 || bytes == message->msg_iov[0].iov_len) return real(sendmsg_, &sendmsg)(fd, message, flags);
    iovec first{message->msg_iov[0].iov_base, bytes};
    msghdr little = *message;
    little.msg_iov = &first;
    little.msg_iovlen = 1;
    return real(sendmsg_, &sendmsg)(fd, &little, flags);
  });
}

ssize_t recv(int fd, void* buffer, size_t size, int flags) {
  return moved(recv_, size, [&](std::size_t bytes) { return real(recv_, &recv)(fd, buffer, bytes, flags); });
}

ssize_t send(int fd, const void* buffer, size_t size, int flags) {
  return moved(send_, size, [&](std::size_t bytes) { return real(send_, &send)(fd, buffer, bytes, flags); });
}

void* mmap(void* address, size_t size, int protection, int flags, int fd, off_t offset) noexcept {
  return pass(mmap_, &mmap, MAP_FAILED, address, size, protection, flags, fd, offset);
}

int memfd_create(const char* name, unsigned flags) noexcept { return pass(memfd_create_, &memfd_create, -1, name, flags); }
int ftruncate(int fd, off_t size) noexcept { return pass(ftruncate_, &ftruncate, -1, fd, size); }
int eventfd(unsigned value, int flags) noexcept { return pass(eventfd_, &eventfd, -1, value, flags); }
int epoll_create1(int flags) noexcept { return pass(epoll_create1_, &epoll_create1, -1, flags); }
int epoll_ctl(int epoll, int operation, int fd, epoll_event* event) noexcept { return pass(epoll_ctl_, &epoll_ctl, -1, epoll, operation, fd, event); }
int epoll_wait(int epoll, epoll_event* events, int most, int timeout) { return pass(epoll_wait_, &epoll_wait, -1, epoll, events, most, timeout); }
int poll(pollfd* entries, nfds_t count, int timeout) { return pass(poll_, &poll, -1, entries, count, timeout); }
int socket(int family, int type, int protocol) noexcept { return pass(socket_, &socket, -1, family, type, protocol); }
int socketpair(int family, int type, int protocol, int* both) noexcept { return pass(socketpair_, &socketpair, -1, family, type, protocol, both); }
int connect(int fd, const sockaddr* address, socklen_t size) { return pass(connect_, &connect, -1, fd, address, size); }
int bind(int fd, const sockaddr* address, socklen_t size) noexcept { return pass(bind_, &bind, -1, fd, address, size); }
int listen(int fd, int backlog) noexcept { return pass(listen_, &listen, -1, fd, backlog); }
pid_t setsid() noexcept { return pass(setsid_, &setsid, -1); }

// pidfd_open has no function of its own everywhere.
long syscall(long number, ...) noexcept {
  va_list list;
  va_start(list, number);
  long a[6];
  for (long& each : a) each = va_arg(list, long);
  va_end(list);
  if (number == SYS_pidfd_open) {
    if (const int error = fails(pidfd_open_); error > 0) {
      errno = error;
      return -1;
    }
  }
  return real(pidfd_open_, &syscall)(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

}  // extern "C"

// libunisono-counts.so: the drivers of `unisono bench --explain` load it before all other libraries (LD_PRELOAD). It has the functions of the C
// library by which a program makes system calls and copies memory, counts and times those calls while it is told to, and hands each on to the C
// library.
//
// It does not count what it cannot see: system calls that the C library makes for itself (a mutex, a condition variable), copies that a compiler or a
// library carries out with instructions of its own, and waiting by reading memory.
#include <dlfcn.h>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>

#include "harness/counted.h"

namespace {

using unisono::bench::CountedFunction;
using unisono::bench::CountedThreads;
using Kind = CountedFunction::Kind;

enum Function : std::size_t {
  f_sendmsg,
  f_sendto,
  f_send,
  f_writev,
  f_write,
  f_recvmsg,
  f_recvfrom,
  f_recv,
  f_readv,
  f_read,
  f_readv_of_process,
  f_writev_of_process,
  f_epoll_wait,
  f_poll,
  f_futex_wait,
  f_nanosleep,
  f_sched_yield,
  f_futex_wake,
  f_epoll_ctl,
  f_eventfd_write,
  f_eventfd_read,
  f_membarrier,
  f_other,
  f_memcpy,
  count,
};
static_assert(count == CountedThreads::functions);

struct Row {
  const char* name;
  Kind kind;
};
constexpr Row rows[] = {
    {"sendmsg", Kind::moves_bytes},
    {"sendto", Kind::moves_bytes},
    {"send", Kind::moves_bytes},
    {"writev", Kind::moves_bytes},
    {"write", Kind::moves_bytes},
    {"recvmsg", Kind::moves_bytes},
    {"recvfrom", Kind::moves_bytes},
    {"recv", Kind::moves_bytes},
    {"readv", Kind::moves_bytes},
    {"read", Kind::moves_bytes},
    {"process_vm_readv", Kind::moves_bytes},
    {"process_vm_writev", Kind::moves_bytes},
    {"epoll_wait", Kind::waits},
    {"poll", Kind::waits},
    {"futex wait", Kind::waits},
    {"clock_nanosleep", Kind::plain},
    {"sched_yield", Kind::plain},
    {"futex wake", Kind::plain},
    {"epoll_ctl", Kind::plain},
    {"eventfd_write", Kind::plain},
    {"eventfd_read", Kind::plain},
    {"membarrier", Kind::plain},
    {"other syscall()", Kind::plain},
    {"memcpy, memmove", Kind::copies},
};
static_assert(std::size(rows) == count);

CountedThreads threads;
__attribute__((tls_model("initial-exec"))) thread_local bool is_first_thread = false;

__attribute__((constructor)) void name_functions() {
  is_first_thread = true;
  for (std::size_t f = 0; f < count; ++f) {
    for (CountedFunction* each : {&threads.own[f], &threads.others[f]}) {
      each->name = rows[f].name;
      each->kind = rows[f].kind;
    }
  }
}

std::uint64_t now_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U + static_cast<std::uint64_t>(now.tv_nsec);
}

void add(std::atomic<std::uint64_t>& to, std::uint64_t value) { to.fetch_add(value, std::memory_order_relaxed); }

CountedFunction& row_of(Function function) { return is_first_thread ? threads.own[function] : threads.others[function]; }
bool is_counting() { return threads.is_counting.load(std::memory_order_relaxed); }

/// Returns the function of that name behind this library.
template <class F>
F* next(F*& known, const char* name) {
  if (known == nullptr) known = reinterpret_cast<F*>(::dlsym(RTLD_NEXT, name));
  return known;
}

template <class Real, class... Arguments>
auto counted(Function function, Real* real, Arguments... arguments) {
  if (!is_counting()) return real(arguments...);
  const std::uint64_t begin = now_ns();
  const auto result = real(arguments...);
  const int error = errno;
  CountedFunction& row = row_of(function);
  add(row.ns, now_ns() - begin);
  add(row.calls, 1);
  // A futex that changed before the thread slept has an event as well.
  const bool had_event = function == f_futex_wait ? result == 0 || error == EAGAIN : result > 0;
  if (row.kind != Kind::plain && !had_event) add(row.in_vain, 1);
  if (row.kind == Kind::moves_bytes && result > 0) add(row.bytes, static_cast<std::uint64_t>(result));
  errno = error;
  return result;
}

/// Copies forwards or backwards; only for the time before the C library's own functions are known.
void* copy_slowly(void* to, const void* from, std::size_t bytes) {
  auto* const out = static_cast<volatile char*>(to);
  const auto* const in = static_cast<const volatile char*>(from);
  if (out <= in) {
    for (std::size_t i = 0; i < bytes; ++i) out[i] = in[i];
  } else {
    for (std::size_t i = bytes; i > 0; --i) out[i - 1] = in[i - 1];
  }
  return to;
}

using Copy = void*(void*, const void*, std::size_t);

void* counted_copy(Copy*& known, const char* name, void* to, const void* from, std::size_t bytes) {
  static __attribute__((tls_model("initial-exec"))) thread_local bool is_looking = false;
  if (known == nullptr) {
    if (is_looking) return copy_slowly(to, from, bytes);
    is_looking = true;
    next(known, name);
    is_looking = false;
  }
  if (!is_counting()) return known(to, from, bytes);
  constexpr std::size_t timed_bytes = 4096;  // reading the clock takes as long as a smaller copy
  CountedFunction& row = row_of(f_memcpy);
  add(row.calls, 1);
  add(row.bytes, bytes);
  if (bytes < timed_bytes) return known(to, from, bytes);
  const std::uint64_t begin = now_ns();
  known(to, from, bytes);
  add(row.ns, now_ns() - begin);
  return to;
}

}  // namespace

#define COUNTED(function, ...)                                         \
  do {                                                                 \
    static decltype(function)* known = nullptr;                        \
    return counted(f_##function, next(known, #function), __VA_ARGS__); \
  } while (false)

#pragma GCC visibility push(default)
extern "C" {

unisono::bench::CountedThreads* unisono_counts() { return &threads; }

ssize_t sendmsg(int fd, const msghdr* message, int flags) { COUNTED(sendmsg, fd, message, flags); }
ssize_t send(int fd, const void* data, size_t bytes, int flags) { COUNTED(send, fd, data, bytes, flags); }
ssize_t writev(int fd, const iovec* parts, int n) { COUNTED(writev, fd, parts, n); }
ssize_t write(int fd, const void* data, size_t bytes) { COUNTED(write, fd, data, bytes); }
ssize_t recvmsg(int fd, msghdr* message, int flags) { COUNTED(recvmsg, fd, message, flags); }
ssize_t recv(int fd, void* data, size_t bytes, int flags) { COUNTED(recv, fd, data, bytes, flags); }
ssize_t readv(int fd, const iovec* parts, int n) { COUNTED(readv, fd, parts, n); }
ssize_t read(int fd, void* data, size_t bytes) { COUNTED(read, fd, data, bytes); }
int epoll_wait(int epoll, epoll_event* events, int n, int timeout) { COUNTED(epoll_wait, epoll, events, n, timeout); }
int poll(pollfd* entries, nfds_t n, int timeout) { COUNTED(poll, entries, n, timeout); }
int sched_yield() noexcept {
  static decltype(sched_yield)* known = nullptr;
  return counted(f_sched_yield, next(known, "sched_yield"));
}
int epoll_ctl(int epoll, int what, int fd, epoll_event* event) noexcept { COUNTED(epoll_ctl, epoll, what, fd, event); }
int eventfd_write(int fd, eventfd_t value) { COUNTED(eventfd_write, fd, value); }
int eventfd_read(int fd, eventfd_t* value) { COUNTED(eventfd_read, fd, value); }

ssize_t sendto(int fd, const void* data, size_t bytes, int flags, const sockaddr* to, socklen_t length) {
  COUNTED(sendto, fd, data, bytes, flags, to, length);
}
ssize_t recvfrom(int fd, void* data, size_t bytes, int flags, sockaddr* from, socklen_t* length) {
  COUNTED(recvfrom, fd, data, bytes, flags, from, length);
}
ssize_t process_vm_readv(pid_t pid, const iovec* to, unsigned long n, const iovec* from, unsigned long m, unsigned long flags) noexcept {
  static decltype(process_vm_readv)* known = nullptr;
  return counted(f_readv_of_process, next(known, "process_vm_readv"), pid, to, n, from, m, flags);
}
ssize_t process_vm_writev(pid_t pid, const iovec* from, unsigned long n, const iovec* to, unsigned long m, unsigned long flags) noexcept {
  static decltype(process_vm_writev)* known = nullptr;
  return counted(f_writev_of_process, next(known, "process_vm_writev"), pid, from, n, to, m, flags);
}
int clock_nanosleep(clockid_t clock, int flags, const timespec* time, timespec* rest) {
  static decltype(clock_nanosleep)* known = nullptr;
  return counted(f_nanosleep, next(known, "clock_nanosleep"), clock, flags, time, rest);
}

/// The kernel takes six words at most, and the C library hands on as many.
long syscall(long number, ...) noexcept {
  va_list words;
  va_start(words, number);
  long word[6];
  for (long& each : word) each = va_arg(words, long);
  va_end(words);
  constexpr long futex_commands = 0x7f;
  Function function = number == SYS_membarrier ? f_membarrier : f_other;
  if (number == SYS_futex && (word[1] & futex_commands) == FUTEX_WAIT) function = f_futex_wait;
  if (number == SYS_futex && (word[1] & futex_commands) == FUTEX_WAKE) function = f_futex_wake;
  static decltype(syscall)* known = nullptr;
  return counted(function, next(known, "syscall"), number, word[0], word[1], word[2], word[3], word[4], word[5]);
}

void* memcpy(void* __restrict to, const void* __restrict from, size_t bytes) noexcept {
  static Copy* known = nullptr;
  return counted_copy(known, "memcpy", to, from, bytes);
}
void* memmove(void* to, const void* from, size_t bytes) noexcept {
  static Copy* known = nullptr;
  return counted_copy(known, "memmove", to, from, bytes);
}

}  // extern "C"
#pragma GCC visibility pop

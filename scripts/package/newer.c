// What this machine's headers and libstdc++ call and glibc 2.28 does not have. It is linked into each library and program of a wheel, and hidden there.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

// libstdc++ counts without atomic operations where this is true.
char __libc_single_threaded = 0;

int close_range(unsigned first, unsigned last, int flags) { return (int)syscall(SYS_close_range, first, last, flags); }

uint32_t arc4random(void) {
  uint32_t value;
  while (getentropy(&value, sizeof value) != 0) {
    if (errno != EINTR) __builtin_trap();
  }
  return value;
}

const char* sigabbrev_np(int signal) {
  static const char* const names[] = {
      [SIGHUP] = "HUP",   [SIGINT] = "INT",   [SIGQUIT] = "QUIT", [SIGILL] = "ILL",       [SIGTRAP] = "TRAP", [SIGABRT] = "ABRT", [SIGBUS] = "BUS",
      [SIGFPE] = "FPE",   [SIGKILL] = "KILL", [SIGUSR1] = "USR1", [SIGSEGV] = "SEGV",     [SIGUSR2] = "USR2", [SIGPIPE] = "PIPE", [SIGALRM] = "ALRM",
      [SIGTERM] = "TERM", [SIGCHLD] = "CHLD", [SIGCONT] = "CONT", [SIGSTOP] = "STOP",     [SIGTSTP] = "TSTP", [SIGTTIN] = "TTIN", [SIGTTOU] = "TTOU",
      [SIGURG] = "URG",   [SIGXCPU] = "XCPU", [SIGXFSZ] = "XFSZ", [SIGVTALRM] = "VTALRM", [SIGPROF] = "PROF", [SIGWINCH] = "WINCH", [SIGPOLL] = "POLL",
      [SIGPWR] = "PWR",   [SIGSYS] = "SYS",   [SIGSTKFLT] = "STKFLT"};
  return signal > 0 && signal < (int)(sizeof names / sizeof *names) ? names[signal] : NULL;
}

static int64_t nanoseconds(const struct timespec* time) { return (int64_t)time->tv_sec * 1000000000 + time->tv_nsec; }

static int64_t now(clockid_t clock) {
  struct timespec time;
  clock_gettime(clock, &time);
  return nanoseconds(&time);
}

// From glibc 2.30 on this is the system's own function. Before, a condition waits on the clock of the day alone, as it did for libstdc++ then: whoever sets that
// clock moves the moment at which the wait ends. It is late by the change at most, and early not at all.
int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock, const struct timespec* deadline) {
  typedef int Wait(pthread_cond_t*, pthread_mutex_t*, clockid_t, const struct timespec*);
  static Wait* own;
  static int looked;
  if (!__atomic_load_n(&looked, __ATOMIC_ACQUIRE)) {
    __atomic_store_n(&own, (Wait*)dlsym(RTLD_DEFAULT, "pthread_cond_clockwait"), __ATOMIC_RELAXED);
    __atomic_store_n(&looked, 1, __ATOMIC_RELEASE);
  }
  Wait* const of_system = __atomic_load_n(&own, __ATOMIC_RELAXED);
  if (of_system != NULL) return of_system(condition, mutex, clock, deadline);
  int64_t left = nanoseconds(deadline) - now(clock);
  if (left <= 0) return ETIMEDOUT;
  if (left > INT64_MAX / 2) left = INT64_MAX / 2;
  const int64_t until = now(CLOCK_REALTIME) + left;
  const struct timespec time = {.tv_sec = until / 1000000000, .tv_nsec = until % 1000000000};
  const int code = pthread_cond_timedwait(condition, mutex, &time);
  return code == ETIMEDOUT && now(clock) < nanoseconds(deadline) ? 0 : code;  // a wait may end early for no reason
}

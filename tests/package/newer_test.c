// What scripts/package/newer.c puts in the place of newer functions of glibc does what those do. No function of this system's is found here, as on glibc 2.28.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int close_range(unsigned first, unsigned last, int flags);
uint32_t arc4random(void);
const char* sigabbrev_np(int signal);
int pthread_cond_clockwait(pthread_cond_t*, pthread_mutex_t*, clockid_t, const struct timespec*);

void* dlsym(void* handle, const char* name) {
  (void)handle;
  (void)name;
  return NULL;
}

#define CHECK(holds) \
  do { \
    if (!(holds)) { \
      printf("line %d: not so: %s\n", __LINE__, #holds); \
      exit(1); \
    } \
  } while (0)

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static int notified;

static struct timespec in_milliseconds(long milliseconds) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  time.tv_sec += milliseconds / 1000;
  time.tv_nsec += milliseconds % 1000 * 1000000;
  if (time.tv_nsec >= 1000000000) {
    ++time.tv_sec;
    time.tv_nsec -= 1000000000;
  }
  return time;
}

static int is_before_now(struct timespec time) {
  const struct timespec now = in_milliseconds(0);
  return now.tv_sec > time.tv_sec || (now.tv_sec == time.tv_sec && now.tv_nsec >= time.tv_nsec);
}

static void* notify(void* unused) {
  pthread_mutex_lock(&mutex);
  notified = 1;
  pthread_cond_signal(&condition);
  pthread_mutex_unlock(&mutex);
  return unused;
}

static void waits_end_at_their_deadline_or_before(void) {
  pthread_mutex_lock(&mutex);
  const struct timespec passed = in_milliseconds(-1000), soon = in_milliseconds(50), never = {.tv_sec = INT64_MAX / 1000000000};
  CHECK(pthread_cond_clockwait(&condition, &mutex, CLOCK_MONOTONIC, &passed) == ETIMEDOUT);
  int code = 0;
  while (code == 0) code = pthread_cond_clockwait(&condition, &mutex, CLOCK_MONOTONIC, &soon);
  CHECK(code == ETIMEDOUT && is_before_now(soon));
  pthread_t other;
  CHECK(pthread_create(&other, NULL, notify, NULL) == 0);
  while (!notified) CHECK(pthread_cond_clockwait(&condition, &mutex, CLOCK_MONOTONIC, &never) == 0);
  pthread_mutex_unlock(&mutex);
  pthread_join(other, NULL);
}

int main(void) {
  waits_end_at_their_deadline_or_before();
  typedef const char* Name(int);
  Name* const of_system = (Name*)dlvsym(RTLD_NEXT, "sigabbrev_np", "GLIBC_2.32");
  for (int signal = -1; of_system != NULL && signal < 70; ++signal) {
    const char *ours = sigabbrev_np(signal), *theirs = of_system(signal);
    CHECK((ours == NULL) == (theirs == NULL) && (ours == NULL || strcmp(ours, theirs) == 0));
  }
  CHECK(sigabbrev_np(9) != NULL && strcmp(sigabbrev_np(9), "KILL") == 0);
  const uint32_t first = arc4random(), second = arc4random(), third = arc4random();
  CHECK(first != second || second != third);
  const int file = open("/dev/null", O_RDONLY);
  CHECK(file >= 0);
  CHECK(close_range(file, file, 0) != 0 ? errno == ENOSYS : fcntl(file, F_GETFD) == -1);  // Linux has it from 5.9 on
}

// Loaded into a process, it changes what that process sends, as somebody between the hosts would: CHANGE_FROM becomes CHANGE_TO, of the same length, wherever
// it lies in one piece. With CHANGE_REPEATS=1 what begins with CHANGE_TO is replaced to its end by what began with CHANGE_FROM before.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum { most_pieces = 1024 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static char* kept = NULL;
static size_t kept_size = 0;

// Returns a changed copy, which the caller frees; NULL: there is nothing to change.
static char* changed(const void* data, size_t size) {
  const char* const from = getenv("CHANGE_FROM");
  const char* const to = getenv("CHANGE_TO");
  if (from == NULL || to == NULL) return NULL;
  const int repeats = getenv("CHANGE_REPEATS") != NULL;
  const char* const first = memmem(data, size, from, strlen(from));
  const char* const second = repeats ? memmem(data, size, to, strlen(to)) : NULL;
  char* copy = NULL;
  pthread_mutex_lock(&mutex);
  if (repeats && first != NULL && kept == NULL) {
    kept_size = size - (size_t)(first - (const char*)data);
    kept = malloc(kept_size);
    memcpy(kept, first, kept_size);
  } else if (repeats && second != NULL && kept_size == size - (size_t)(second - (const char*)data)) {
    copy = malloc(size);
    memcpy(copy, data, size);
    memcpy(copy + (second - (const char*)data), kept, kept_size);
  } else if (!repeats && first != NULL) {
    copy = malloc(size);
    memcpy(copy, data, size);
    memcpy(copy + (first - (const char*)data), to, strlen(to));
  }
  pthread_mutex_unlock(&mutex);
  return copy;
}

// Replaces the pieces that are changed; returns how many copies there are in `copies`.
static int change_all(struct iovec* pieces, int count, char** copies) {
  int used = 0;
  for (int i = 0; i < count; ++i) {
    char* const copy = changed(pieces[i].iov_base, pieces[i].iov_len);
    if (copy == NULL) continue;
    pieces[i].iov_base = copy;
    copies[used++] = copy;
  }
  return used;
}

ssize_t sendmsg(int fd, const struct msghdr* message, int flags) {
  static ssize_t (*next)(int, const struct msghdr*, int) = NULL;
  if (next == NULL) *(void**)&next = dlsym(RTLD_NEXT, "sendmsg");
  struct iovec pieces[most_pieces];
  char* copies[most_pieces];
  if (message->msg_iovlen > most_pieces) return next(fd, message, flags);
  memcpy(pieces, message->msg_iov, message->msg_iovlen * sizeof *pieces);
  const int used = change_all(pieces, (int)message->msg_iovlen, copies);
  struct msghdr other = *message;
  other.msg_iov = pieces;
  const ssize_t sent = next(fd, &other, flags);
  for (int i = 0; i < used; ++i) free(copies[i]);
  return sent;
}

ssize_t writev(int fd, const struct iovec* given, int count) {
  static ssize_t (*next)(int, const struct iovec*, int) = NULL;
  if (next == NULL) *(void**)&next = dlsym(RTLD_NEXT, "writev");
  struct iovec pieces[most_pieces];
  char* copies[most_pieces];
  if (count > most_pieces) return next(fd, given, count);
  memcpy(pieces, given, (size_t)count * sizeof *pieces);
  const int used = change_all(pieces, count, copies);
  const ssize_t sent = next(fd, pieces, count);
  for (int i = 0; i < used; ++i) free(copies[i]);
  return sent;
}

ssize_t send(int fd, const void* data, size_t size, int flags) {
  static ssize_t (*next)(int, const void*, size_t, int) = NULL;
  if (next == NULL) *(void**)&next = dlsym(RTLD_NEXT, "send");
  char* const copy = changed(data, size);
  const ssize_t sent = next(fd, copy == NULL ? data : copy, size, flags);
  free(copy);
  return sent;
}

ssize_t write(int fd, const void* data, size_t size) {
  static ssize_t (*next)(int, const void*, size_t) = NULL;
  if (next == NULL) *(void**)&next = dlsym(RTLD_NEXT, "write");
  char* const copy = fd > STDERR_FILENO ? changed(data, size) : NULL;  // what the rank prints stays as it is
  const ssize_t written = next(fd, copy == NULL ? data : copy, size);
  free(copy);
  return written;
}

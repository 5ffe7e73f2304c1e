// What is wrong in one call: a code and a sentence, and the group is as it was.
#include <pthread.h>
#include <stdint.h>
#include <string.h>

#include "check.h"

#define WRONG(word, call) REFUSED(UNISONO_INVALID_ARGUMENT, word, call)

void refused_buffers(void) {
  unisono_group* const world = unisono_world();
  int32_t x[4] = {1, 2, 3, 4}, y[8];
  size_t counts[64];
  int32_t r;
  for (r = 0; r < size; ++r) counts[r] = SIZE_MAX / 2;
  WRONG("data is NULL, and has 3 elements", unisono_all_reduce(NULL, 3, UNISONO_INT32, UNISONO_SUM, world, NULL));
  CHECK(strcmp(unisono_error_operation(), "all_reduce") == 0);
  WRONG("in is NULL", unisono_all_gather(NULL, y, 1, UNISONO_INT32, world, NULL));
  WRONG("out is NULL", unisono_all_gather(x, NULL, 1, UNISONO_INT32, world, NULL));
  WRONG("99 is no unisono_dtype", unisono_all_reduce(x, 1, (unisono_dtype)99, UNISONO_SUM, world, NULL));
  WRONG("-1 is no unisono_dtype", unisono_broadcast(x, 1, (unisono_dtype)-1, 0, world, NULL));
  WRONG("42 is no unisono_reduce_op", unisono_all_reduce(x, 1, UNISONO_INT32, (unisono_reduce_op)42, world, NULL));
  WRONG("beyond any memory", unisono_all_reduce(x, SIZE_MAX, UNISONO_INT32, UNISONO_SUM, world, NULL));
  WRONG("beyond any memory", unisono_all_to_all(x, y, SIZE_MAX / 2, UNISONO_INT32, world, NULL));
  WRONG("counts is NULL", unisono_all_gather_v(x, y, NULL, UNISONO_INT32, world, NULL));
  WRONG("send_counts is NULL", unisono_all_to_all_v(x, NULL, y, counts, UNISONO_INT32, world, NULL));
  WRONG("recv_counts is NULL", unisono_all_to_all_v(x, counts, y, NULL, UNISONO_INT32, world, NULL));
  WRONG("beyond any memory", unisono_reduce_scatter_v(x, y, counts, UNISONO_INT32, UNISONO_SUM, world, NULL));
  WRONG("is not in the group", unisono_broadcast(x, 1, UNISONO_INT32, size, world, NULL));
  WRONG("is not in the group", unisono_gather(x, y, 1, UNISONO_INT32, -3, world, NULL));
  WRONG("is not defined", unisono_all_reduce(x, 1, UNISONO_FLOAT32, UNISONO_BAND, world, NULL));
  WRONG("avg is not defined", unisono_scan(x, 1, UNISONO_INT32, UNISONO_AVG, world, NULL));
  WRONG("overlap", unisono_all_reduce_into(x, x + 1, 2, UNISONO_INT32, UNISONO_SUM, world, NULL));
  WRONG("is the caller", unisono_send(x, 1, UNISONO_INT32, rank, world, NULL));
  WRONG("is not in the group", unisono_recv(x, 1, UNISONO_INT32, -2, world, NULL, NULL));
  WRONG("data is NULL", unisono_send(NULL, 1, UNISONO_INT32, 0, world, NULL));
  CHECK(x[0] == 1 && x[1] == 2 && x[2] == 3 && x[3] == 4);
}

static void refused_works(void) {
  int32_t x = 1, flag = 77;
  size_t index = 77;
  unisono_work *work = NULL, *kept = (unisono_work*)&x;
  WRONG("work is NULL", unisono_all_reduce_async(&x, 1, UNISONO_INT32, UNISONO_SUM, unisono_world(), NULL, NULL));
  WRONG("data is NULL", unisono_all_reduce_async(NULL, 1, UNISONO_INT32, UNISONO_SUM, unisono_world(), NULL, &kept));
  CHECK(kept == NULL);
  OK(unisono_barrier_async(unisono_world(), NULL, &work));
  WRONG("is_done is NULL", unisono_work_test(work, NULL));
  WRONG("is_cancelled is NULL", unisono_work_cancel(work, NULL));
  WRONG("negative", unisono_work_wait_for(work, -1, &flag));
  WRONG("index is NULL", unisono_wait_any(&work, 1, NULL));
  WRONG("group is not a handle of", unisono_barrier((unisono_group*)work, NULL));
  OK(unisono_work_wait(work));
  OK(unisono_work_free(work));
  WRONG("work was freed", unisono_work_wait(work));
  WRONG("work was freed", unisono_work_test(work, &flag));
  WRONG("work was freed", unisono_work_cancel(work, &flag));
  WRONG("work was freed", unisono_work_source(work, &flag, NULL));
  WRONG("work was freed", unisono_wait_all(&work, 1));
  WRONG("work was freed", unisono_work_free(work));
  WRONG("work is NULL", unisono_work_wait(NULL));
  WRONG("work is NULL", unisono_work_free(NULL));
  WRONG("work is not a handle of", unisono_work_wait((unisono_work*)&x));
  WRONG("works is NULL", unisono_wait_all(NULL, 2));
  WRONG("nothing to wait for", unisono_wait_any(NULL, 0, &index));
  CHECK(index == 77);
}

void refused_handles(void) {
  unisono_group *group = NULL, *other = NULL;
  int32_t x = 1, flag = 77;
  char text[64] = "as it was";
  size_t length = 0;
  WRONG("group is NULL", unisono_barrier(NULL, NULL));
  WRONG("group is NULL", unisono_new_group(&rank, 1, NULL, NULL));
  WRONG("global_ranks is NULL", unisono_new_group(NULL, 2, NULL, &group));
  WRONG("", unisono_new_group(&rank, 0, NULL, &group));
  WRONG("world cannot be freed", unisono_group_free(unisono_world()));
  WRONG("group is NULL", unisono_group_free(NULL));
  WRONG("not a handle of this library", unisono_barrier((unisono_group*)&x, NULL));
  OK(unisono_new_group(&rank, 1, NULL, &group));
  WRONG("rank is NULL", unisono_group_rank(group, NULL));
  WRONG("capacity is 0", unisono_group_global_ranks(group, &flag, 0));
  WRONG("global_ranks is NULL", unisono_group_global_ranks(group, NULL, 1));
  WRONG("", unisono_group_global_rank(group, 1, &flag));
  WRONG("sound", unisono_shrink_group(group, &other));
  WRONG("reason is NULL", unisono_group_abort(group, NULL));
  WRONG("capacity is 3", unisono_group_name(unisono_world(), text, 3, &length));
  CHECK(length == 5 && strcmp(text, "as it was") == 0);
  WRONG("text is NULL", unisono_group_backend(group, NULL, 5, NULL));
  OK(unisono_group_free(group));
  WRONG("group was freed", unisono_group_size(group, &flag));
  WRONG("group was freed", unisono_barrier(group, NULL));
  WRONG("group was freed", unisono_group_free(group));
  WRONG("rank is NULL", unisono_rank(NULL));
  WRONG("name is NULL", unisono_is_backend_available(NULL, &flag));
  WRONG("capacity is 0", unisono_hostname(NULL, 0, &length));
  CHECK(length > 0 && flag == 77);
  refused_works();
}

// A structure of headers that are newer than the library.
struct newer {
  unisono_call_options known;
  int64_t added;
};

void refused_structures(void) {
  unisono_call_options options;
  unisono_message_info info;
  struct newer newer;
  int32_t flag = 77;
  memset(&options, 0, sizeof options);
  memset(&info, 0, sizeof info);
  memset(&newer, 0, sizeof newer);
  WRONG("set it to sizeof(unisono_call_options)", unisono_barrier(unisono_world(), &options));
  options.size = SIZE_MAX;
  WRONG("the member size", unisono_barrier(unisono_world(), &options));
  WRONG("set it to sizeof(unisono_message_info)", unisono_try_probe(0, unisono_world(), NULL, &flag, &info));
  CHECK(flag == 77);
  options.size = sizeof options;
  options.file = "programs/train.c";
  options.line = 42;
  options.timeout_ms = -5;
  WRONG("at train.c:42", unisono_barrier(unisono_world(), &options));
  WRONG("negative", unisono_barrier(unisono_world(), &options));
  WRONG("at train.c:42", unisono_broadcast(NULL, 1, UNISONO_INT8, 0, unisono_world(), &options));
  options.timeout_ms = 0;
  options.tag = UNISONO_ANY_TAG;
  WRONG("any_tag", unisono_barrier(unisono_world(), &options));
  newer.known.size = sizeof newer;
  OK(unisono_barrier(unisono_world(), &newer.known));
  newer.added = 1;
  REFUSED(UNISONO_WRONG_VERSION, unisono_version_text(), unisono_barrier(unisono_world(), &newer.known));
  REFUSED(UNISONO_WRONG_VERSION, "headers of unisono 0.0.9", unisono_initialize(9, NULL));
  REFUSED(UNISONO_WRONG_VERSION, "headers of unisono 7.0.0", unisono_initialize(7000000, NULL));
  REFUSED(UNISONO_ALREADY_INITIALIZED, "", unisono_initialize(UNISONO_HEADER_VERSION + 1, NULL));
}

static void* fails(void* nothing) {
  CHECK(unisono_error_status() == UNISONO_OK && unisono_error_message()[0] == 0);
  WRONG("rank is NULL", unisono_rank(NULL));
  WRONG("size is NULL", unisono_world_size(NULL));
  return nothing;
}

// Each thread has its own last error, and a call that goes well leaves it.
void threads(void) {
  pthread_t thread;
  int32_t value = 0;
  WRONG("work is NULL", unisono_work_free(NULL));
  CHECK(pthread_create(&thread, NULL, fails, NULL) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
  OK(unisono_rank(&value));
  CHECK(unisono_error_status() == UNISONO_INVALID_ARGUMENT && strstr(unisono_error_message(), "work is NULL") != NULL);
  CHECK(unisono_error_culprit() == -1 && unisono_error_missing(NULL, 0) == 0 && unisono_error_cause() == UNISONO_CAUSE_NONE);
}

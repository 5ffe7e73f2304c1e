// Errors between ranks: each says which ranks it is of.
#include <signal.h>
#include <string.h>

#include "check.h"

void mismatch(void) {
  int32_t x[4] = {rank, rank + 1, rank + 2, rank + 3};
  unisono_work* work = NULL;
  size_t index = 77;
  const size_t count = rank == 1 ? 4 : 3;
  REFUSED(UNISONO_MISMATCH, "all_reduce(int32", unisono_all_reduce(x, count, UNISONO_INT32, UNISONO_SUM, unisono_world(), NULL));
  CHECK(strcmp(unisono_error_operation(), "all_reduce") == 0 && strcmp(unisono_error_group(), "world") == 0);
  CHECK(unisono_error_rank() == rank && unisono_error_sequence() > 0 && unisono_error_hint()[0] != 0);
  CHECK(unisono_error_culprit() == (size > 2 ? 1 : -1));
  CHECK(x[0] == rank && x[3] == rank + 3);
  // The error of an asynchronous call comes with its end.
  OK(unisono_all_reduce_async(x, 3, rank == 1 ? UNISONO_FLOAT32 : UNISONO_INT32, UNISONO_SUM, unisono_world(), NULL, &work));
  REFUSED(UNISONO_MISMATCH, "float32", unisono_wait_any(&work, 1, &index));
  CHECK(index == 0);
  REFUSED(UNISONO_MISMATCH, "float32", unisono_work_wait(work));
  REFUSED(UNISONO_MISMATCH, "float32", unisono_wait_all(&work, 1));
  OK(unisono_work_free(work));
}

// Rank 0 does not come to the world's barrier. It waits in another group until the others have learnt it.
void missing(void) {
  int32_t ranks[3] = {-1, -1, -1};
  unisono_group* sound = NULL;
  unisono_call_options soon = {0};
  soon.size = sizeof soon;
  soon.timeout_ms = 1500;  // ranks 1 and 2 have to come within it
  OK(unisono_split_group(unisono_world(), 0, 0, NULL, &sound));
  if (rank != 0) {
    REFUSED(UNISONO_TIMEOUT, "barrier", unisono_barrier(unisono_world(), &soon));
    CHECK(unisono_error_missing(NULL, 0) == 1 && unisono_error_missing(ranks, 3) == 1);
    CHECK(ranks[0] == 0 && ranks[1] == -1);
    REFUSED(UNISONO_TIMEOUT, "", unisono_barrier(unisono_world(), NULL));
  }
  OK(unisono_barrier(sound, NULL));
  if (rank == 0) REFUSED(UNISONO_TIMEOUT, "", unisono_barrier(unisono_world(), NULL));
  OK(unisono_group_free(sound));
}

// The others go on without it.
static void survive(int32_t lost) {
  int64_t x = rank;
  int32_t left = 0;
  unisono_group* survivors = NULL;
  OK(unisono_shrink_group(unisono_world(), &survivors));
  OK(unisono_group_size(survivors, &left));
  CHECK(left == size - 1);
  OK(unisono_all_reduce(&x, 1, UNISONO_INT64, UNISONO_SUM, survivors, NULL));
  CHECK(x == (int64_t)size * (size - 1) / 2 - lost);
  OK(unisono_group_free(survivors));
}

void killed(void) {
  int64_t x = rank;
  char host[256];
  OK(unisono_barrier(unisono_world(), NULL));
  if (rank == 1) raise(SIGKILL);
  REFUSED(UNISONO_PEER_FAILED, "SIGKILL", unisono_all_reduce(&x, 1, UNISONO_INT64, UNISONO_SUM, unisono_world(), NULL));
  CHECK(unisono_error_culprit() == 1 && unisono_error_world_culprit() == 1 && unisono_error_cause() == UNISONO_CAUSE_KILLED);
  OK(unisono_hostname(host, sizeof host, NULL));
  CHECK(strcmp(unisono_error_host(), host) == 0);
  CHECK(x == rank);
  REFUSED(UNISONO_PEER_FAILED, "SIGKILL", unisono_barrier(unisono_world(), NULL));
  survive(1);
}

void aborted(void) {
  unisono_group* group = NULL;
  OK(unisono_split_group(unisono_world(), 0, 0, NULL, &group));
  if (rank == 0) OK(unisono_group_abort(group, "the input is used up"));
  REFUSED(UNISONO_PEER_FAILED, "the input is used up", unisono_barrier(group, NULL));
  CHECK(unisono_error_cause() == UNISONO_CAUSE_ABORTED);
  OK(unisono_group_free(group));
  OK(unisono_barrier(unisono_world(), NULL));
}

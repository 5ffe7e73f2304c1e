// Asynchronous collectives, and the functions of works.
#include <string.h>

#include "check.h"

enum { most = 8 };

static void finish(unisono_work* work) {
  OK(unisono_work_wait(work));
  OK(unisono_work_free(work));
}

static void one_after_another(void) {
  int64_t x = rank + 1, y = 0, sum = (int64_t)size * (size + 1) / 2, all[most], each[most];
  int32_t r;
  unisono_work* work = NULL;
  OK(unisono_barrier_async(unisono_world(), NULL, &work));
  finish(work);
  OK(unisono_all_reduce_async(&x, 1, UNISONO_INT64, UNISONO_SUM, unisono_world(), NULL, &work));
  finish(work);
  CHECK(x == sum);
  x = rank + 1;
  OK(unisono_all_reduce_into_async(&x, &y, 1, UNISONO_INT64, UNISONO_SUM, unisono_world(), NULL, &work));
  finish(work);
  CHECK(x == rank + 1 && y == sum);
  OK(unisono_reduce_async(&x, 1, UNISONO_INT64, UNISONO_SUM, 0, unisono_world(), NULL, &work));
  finish(work);
  CHECK(x == (rank == 0 ? sum : rank + 1));
  x = rank + 1;
  OK(unisono_broadcast_async(&x, 1, UNISONO_INT64, size - 1, unisono_world(), NULL, &work));
  finish(work);
  CHECK(x == size);
  x = 10 * (rank + 1);
  OK(unisono_all_gather_async(&x, all, 1, UNISONO_INT64, unisono_world(), NULL, &work));
  finish(work);
  for (r = 0; r < size; ++r) CHECK(all[r] == 10 * (r + 1));
  OK(unisono_gather_async(&x, rank == 0 ? each : NULL, 1, UNISONO_INT64, 0, unisono_world(), NULL, &work));
  finish(work);
  CHECK(rank != 0 || memcmp(all, each, (size_t)size * sizeof *all) == 0);
}

static void one_after_another_too(void) {
  int64_t x = 0, sum = (int64_t)size * (size + 1) / 2, all[most], each[most];
  int32_t r;
  unisono_work* work = NULL;
  for (r = 0; r < size; ++r) all[r] = 100 * (r + 1);
  OK(unisono_scatter_async(rank == 0 ? all : NULL, &x, 1, UNISONO_INT64, 0, unisono_world(), NULL, &work));
  finish(work);
  CHECK(x == 100 * (rank + 1));
  OK(unisono_reduce_scatter_async(all, &x, 1, UNISONO_INT64, UNISONO_SUM, unisono_world(), NULL, &work));
  finish(work);
  CHECK(x == (int64_t)100 * (rank + 1) * size);
  for (r = 0; r < size; ++r) all[r] = 100 * rank + r;
  OK(unisono_all_to_all_async(all, each, 1, UNISONO_INT64, unisono_world(), NULL, &work));
  finish(work);
  for (r = 0; r < size; ++r) CHECK(each[r] == 100 * r + rank);
  x = rank + 1;
  OK(unisono_scan_async(&x, 1, UNISONO_INT64, UNISONO_SUM, unisono_world(), NULL, &work));
  finish(work);
  CHECK(x == (int64_t)(rank + 1) * (rank + 2) / 2);
  x = rank + 1;
  OK(unisono_exscan_async(&x, 1, UNISONO_INT64, UNISONO_MAX, unisono_world(), NULL, &work));
  finish(work);
  CHECK(x == (rank == 0 ? 1 : rank));
  x = 1;
  OK(unisono_all_reduce(&x, 1, UNISONO_INT64, UNISONO_SUM, unisono_world(), NULL));
  CHECK(x == size && sum >= x);
}

// Rank r has r + 1 elements. The counts are the program's again when the call has returned.
static void blocks_later(void) {
  int64_t mine[most], all[most * (most + 1) / 2], out[most];
  size_t counts[most], ones[most], copy[most], sum = 0, before = 0, i;
  int32_t r;
  unisono_work* work = NULL;
  for (r = 0; r < size; ++r) {
    counts[r] = (size_t)r + 1;
    ones[r] = 1;
    if (r < rank) before += counts[r];
    sum += counts[r];
  }
  for (i = 0; i < most; ++i) mine[i] = 100 * rank + (int64_t)i;
  memcpy(copy, counts, sizeof copy);
  OK(unisono_all_gather_v_async(mine, all, copy, UNISONO_INT64, unisono_world(), NULL, &work));
  memset(copy, 0, sizeof copy);
  finish(work);
  CHECK(all[0] == 0 && all[before] == 100 * rank && all[sum - 1] == 101 * (int64_t)(size - 1));
  OK(unisono_gather_v_async(mine, rank == 0 ? all : NULL, counts, UNISONO_INT64, 0, unisono_world(), NULL, &work));
  finish(work);
  CHECK(rank != 0 || all[sum - 1] == 101 * (int64_t)(size - 1));
  for (i = 0; i < sum; ++i) all[i] = (int64_t)i + 1;
  OK(unisono_scatter_v_async(rank == 0 ? all : NULL, out, counts, UNISONO_INT64, 0, unisono_world(), NULL, &work));
  finish(work);
  for (i = 0; i < counts[rank]; ++i) CHECK(out[i] == (int64_t)(before + i) + 1);
  OK(unisono_reduce_scatter_v_async(all, out, counts, UNISONO_INT64, UNISONO_SUM, unisono_world(), NULL, &work));
  finish(work);
  for (i = 0; i < counts[rank]; ++i) CHECK(out[i] == size * ((int64_t)(before + i) + 1));
  OK(unisono_all_to_all_v_async(mine, ones, out, ones, UNISONO_INT64, unisono_world(), NULL, &work));
  finish(work);
  for (r = 0; r < size; ++r) CHECK(out[r] == 100 * r + rank);
}

static void works(void) {
  int64_t x = rank + 1, y = rank + 2;
  int32_t is_done = -1, is_cancelled = -1, source = 7, tag = 7;
  size_t index = 99;
  unisono_work* two[2] = {NULL, NULL};
  OK(unisono_all_reduce_async(&x, 1, UNISONO_INT64, UNISONO_SUM, unisono_world(), NULL, &two[0]));
  OK(unisono_all_reduce_async(&y, 1, UNISONO_INT64, UNISONO_SUM, unisono_world(), NULL, &two[1]));
  CHECK(two[0] != NULL && two[1] != NULL && two[0] != two[1]);
  OK(unisono_wait_any(two, 2, &index));
  CHECK(index < 2);
  OK(unisono_work_wait_for(two[1], 60000, &is_done));
  CHECK(is_done == 1);
  OK(unisono_work_test(two[0], &is_done));
  CHECK(is_done == 1);  // it is before the other in the group's order
  OK(unisono_wait_all(two, 2));
  OK(unisono_wait_all(NULL, 0));
  CHECK(y - x == size);
  OK(unisono_work_source(two[0], &source, &tag));
  CHECK(source == -1 && tag == 0);
  OK(unisono_work_source(two[0], NULL, NULL));
  OK(unisono_work_cancel(two[0], &is_cancelled));
  CHECK(is_cancelled == 0);
  OK(unisono_work_free(two[0]));
  OK(unisono_work_free(two[1]));
}

void later(void) {
  one_after_another();
  one_after_another_too();
  blocks_later();
  works();
}

// Collectives and blocks of different length, of up to 8 ranks. Every element is another one, on every rank.
#include <string.h>

#include "check.h"

enum { n = 3, most = 8 };

// Element i of this rank, and of any rank.
static int64_t of(int32_t r, size_t i) { return 1000 * (r + 1) + 7 * (int64_t)i + 1; }
static int64_t sum_of(int32_t ranks, size_t i) {
  int64_t sum = 0;
  int32_t r;
  for (r = 0; r < ranks; ++r) sum += of(r, i);
  return sum;
}
static void fill(int64_t* x, size_t count) {
  size_t i;
  for (i = 0; i < count; ++i) x[i] = of(rank, i);
}

static void reductions(void) {
  int64_t x[n], y[n];
  double mean[n];
  size_t i;
  fill(x, n);
  OK(unisono_all_reduce(x, n, UNISONO_INT64, UNISONO_SUM, unisono_world(), NULL));
  for (i = 0; i < n; ++i) CHECK(x[i] == sum_of(size, i));
  for (i = 0; i < n; ++i) mean[i] = (double)of(rank, i);
  OK(unisono_all_reduce(mean, n, UNISONO_FLOAT64, UNISONO_AVG, unisono_world(), NULL));
  for (i = 0; i < n; ++i) CHECK(mean[i] == (double)sum_of(size, i) / size);
  fill(x, n);
  OK(unisono_all_reduce_into(x, y, n, UNISONO_INT64, UNISONO_MAX, unisono_world(), NULL));
  for (i = 0; i < n; ++i) CHECK(x[i] == of(rank, i) && y[i] == of(size - 1, i));
  OK(unisono_reduce(x, n, UNISONO_INT64, UNISONO_SUM, size - 1, unisono_world(), NULL));
  for (i = 0; i < n; ++i) CHECK(x[i] == (rank == size - 1 ? sum_of(size, i) : of(rank, i)));
  fill(x, n);
  OK(unisono_scan(x, n, UNISONO_INT64, UNISONO_SUM, unisono_world(), NULL));
  for (i = 0; i < n; ++i) CHECK(x[i] == sum_of(rank + 1, i));
  fill(x, n);
  OK(unisono_exscan(x, n, UNISONO_INT64, UNISONO_SUM, unisono_world(), NULL));
  for (i = 0; i < n; ++i) CHECK(x[i] == (rank == 0 ? of(0, i) : sum_of(rank, i)));
}

static void movements(void) {
  int64_t x[n], all[most * n], mine[n];
  int32_t r;
  size_t i;
  const int is_root = rank == size - 1;
  fill(x, n);
  OK(unisono_broadcast(x, n, UNISONO_INT64, size - 1, unisono_world(), NULL));
  for (i = 0; i < n; ++i) CHECK(x[i] == of(size - 1, i));
  fill(x, n);
  OK(unisono_all_gather(x, all, n, UNISONO_INT64, unisono_world(), NULL));
  for (r = 0; r < size; ++r) {
    for (i = 0; i < n; ++i) CHECK(all[r * n + (int32_t)i] == of(r, i));
  }
  memset(all, 0, sizeof all);
  OK(unisono_gather(x, is_root ? all : NULL, n, UNISONO_INT64, size - 1, unisono_world(), NULL));
  for (r = 0; r < size && is_root; ++r) {
    for (i = 0; i < n; ++i) CHECK(all[r * n + (int32_t)i] == of(r, i));
  }
  fill(all, (size_t)size * n);
  OK(unisono_scatter(is_root ? all : NULL, mine, n, UNISONO_INT64, size - 1, unisono_world(), NULL));
  for (i = 0; i < n; ++i) CHECK(mine[i] == of(size - 1, (size_t)rank * n + i));
  fill(all, (size_t)size * n);
  OK(unisono_reduce_scatter(all, mine, n, UNISONO_INT64, UNISONO_SUM, unisono_world(), NULL));
  for (i = 0; i < n; ++i) CHECK(mine[i] == sum_of(size, (size_t)rank * n + i));
}

static void exchange(void) {
  int64_t to_each[most * n], from_each[most * n];
  int32_t r;
  size_t i;
  fill(to_each, (size_t)size * n);
  OK(unisono_all_to_all(to_each, from_each, n, UNISONO_INT64, unisono_world(), NULL));
  for (r = 0; r < size; ++r) {
    for (i = 0; i < n; ++i) CHECK(from_each[r * n + (int32_t)i] == of(r, (size_t)rank * n + i));
  }
}

void collectives(void) {
  // The place is named by errors alone.
  unisono_call_options options = {0};
  options.size = sizeof options;
  options.timeout_ms = 60000;
  options.tag = 5;
  options.deterministic = 1;
  options.file = __FILE__;
  options.line = __LINE__;
  CHECK(size <= most);
  OK(unisono_barrier(unisono_world(), &options));
  OK(unisono_barrier(unisono_world(), NULL));
  reductions();
  movements();
  exchange();
  OK(unisono_all_reduce(NULL, 0, UNISONO_FLOAT32, UNISONO_SUM, unisono_world(), &options));
}

// Rank r has r + 1 elements.
void blocks(void) {
  int64_t all[most * (most + 1) / 2], mine[most], out[most], got[most * most];
  size_t counts[most], receives[most], i, before = 0, sum = 0;
  int32_t r;
  for (r = 0; r < size; ++r) {
    counts[r] = (size_t)r + 1;
    if (r < rank) before += counts[r];
    sum += counts[r];
  }
  fill(mine, counts[rank]);
  OK(unisono_all_gather_v(mine, all, counts, UNISONO_INT64, unisono_world(), NULL));
  for (i = 0; i < counts[rank]; ++i) CHECK(all[before + i] == of(rank, i));
  CHECK(all[sum - 1] == of(size - 1, (size_t)size - 1));
  memset(all, 0, sizeof all);
  OK(unisono_gather_v(mine, rank == 0 ? all : NULL, counts, UNISONO_INT64, 0, unisono_world(), NULL));
  CHECK(rank != 0 || (all[0] == of(0, 0) && all[sum - 1] == of(size - 1, (size_t)size - 1)));
  fill(all, sum);
  OK(unisono_scatter_v(rank == 0 ? all : NULL, out, counts, UNISONO_INT64, 0, unisono_world(), NULL));
  for (i = 0; i < counts[rank]; ++i) CHECK(out[i] == of(0, before + i));
  fill(all, sum);
  OK(unisono_reduce_scatter_v(all, out, counts, UNISONO_INT64, UNISONO_SUM, unisono_world(), NULL));
  for (i = 0; i < counts[rank]; ++i) CHECK(out[i] == sum_of(size, before + i));
  // Rank r sends s + 1 elements to each rank s, and takes r + 1 of each.
  for (r = 0; r < size; ++r) receives[r] = (size_t)rank + 1;
  fill(all, sum);
  OK(unisono_all_to_all_v(all, counts, got, receives, UNISONO_INT64, unisono_world(), NULL));
  for (r = 0; r < size; ++r) {
    for (i = 0; i < receives[r]; ++i) CHECK(got[(size_t)r * receives[r] + i] == of(r, before + i));
  }
}

// Groups of processes.
#include <string.h>

#include "check.h"

enum { most = 8 };

// The order of the list is the order of the group: the world backwards.
static void backwards(void) {
  int32_t list[most], got[most], r, value = -1;
  int64_t x[2];
  char text[64];
  size_t length = 0;
  unisono_group* group = NULL;
  unisono_group_options options = {0};
  options.size = sizeof options;
  options.backend = "auto";
  options.timeout_ms = 60000;
  options.file = __FILE__;
  options.line = __LINE__;
  for (r = 0; r < size; ++r) list[r] = size - 1 - r;
  OK(unisono_new_group(list, (size_t)size, &options, &group));
  CHECK(group != NULL && group != unisono_world());
  OK(unisono_group_rank(group, &value));
  CHECK(value == size - 1 - rank);
  OK(unisono_group_size(group, &value));
  CHECK(value == size);
  OK(unisono_group_global_rank(group, 0, &value));
  CHECK(value == size - 1);
  OK(unisono_group_rank_of(group, 0, &value));
  CHECK(value == size - 1);
  OK(unisono_group_rank_of(group, size, &value));
  CHECK(value == -1);
  OK(unisono_group_global_ranks(group, got, most));
  CHECK(memcmp(got, list, (size_t)size * sizeof *list) == 0);
  OK(unisono_group_name(group, text, sizeof text, &length));
  CHECK(text[0] == '{' && strlen(text) == length);
  OK(unisono_group_backend(group, text, sizeof text, NULL));
  CHECK(text[0] != 0);
  x[0] = rank;
  x[1] = 10 * rank;
  OK(unisono_broadcast(x, 2, UNISONO_INT64, 0, group, NULL));
  CHECK(x[0] == size - 1 && x[1] == 10 * (size - 1));
  OK(unisono_group_free(group));
}

// Even and odd ranks; then only rank 0, and all others are members of nothing.
static void parts(void) {
  int64_t x = rank + 1, sum = 0;
  int32_t r, value = -1;
  const int32_t first = 0;
  unisono_group *part = NULL, *lone = (unisono_group*)&x;
  OK(unisono_split_group(unisono_world(), rank % 2, -rank, NULL, &part));
  for (r = rank % 2; r < size; r += 2) sum += r + 1;
  OK(unisono_all_reduce(&x, 1, UNISONO_INT64, UNISONO_SUM, part, NULL));
  CHECK(x == sum);
  OK(unisono_group_global_rank(part, 0, &value));
  CHECK(value == (size - 1 - rank) / 2 * 2 + rank);  // the highest rank of a color has the lowest key
  OK(unisono_group_free(part));
  OK(unisono_split_group(unisono_world(), rank == 0 ? 4 : -1, 0, NULL, &lone));
  CHECK((lone == NULL) == (rank != 0));
  if (lone != NULL) OK(unisono_group_free(lone));
  lone = (unisono_group*)&x;
  OK(unisono_new_group(&first, 1, NULL, &lone));
  CHECK((lone == NULL) == (rank != 0));
  if (lone == NULL) REFUSED(UNISONO_INVALID_ARGUMENT, "not a member", unisono_barrier(lone, NULL));
  if (lone != NULL) OK(unisono_barrier(lone, NULL));
  if (lone != NULL) OK(unisono_group_free(lone));
}

void groups(void) {
  int32_t value = -1, of_host = 0;
  char text[64];
  unisono_group *local = NULL, *again = NULL;
  OK(unisono_group_rank(unisono_world(), &value));
  CHECK(value == rank);
  OK(unisono_group_name(unisono_world(), text, sizeof text, NULL));
  CHECK(strcmp(text, "world") == 0);
  backwards();
  parts();
  OK(unisono_local_group(&local));
  OK(unisono_local_group(&again));
  OK(unisono_group_size(local, &value));
  OK(unisono_nproc_per_node(&of_host));
  CHECK(value == of_host && local != again);
  OK(unisono_group_free(local));
  OK(unisono_barrier(again, NULL));
  OK(unisono_group_free(again));
}

// Messages between ranks.
#include <string.h>

#include "check.h"

static unisono_message_info no_info(void) {
  unisono_message_info info;
  memset(&info, 0xff, sizeof info);
  info.size = sizeof info;
  return info;
}
static unisono_call_options tagged(int32_t tag) {
  unisono_call_options options = {0};
  options.size = sizeof options;
  options.tag = tag;
  return options;
}

// Each rank sends to the next one, and learns from a probe what comes.
static void around(void) {
  const int32_t next = (rank + 1) % size, before = (rank + size - 1) % size;
  const unisono_call_options seven = tagged(7), any = tagged(UNISONO_ANY_TAG);
  float x[3], y[3] = {0, 0, 0};
  int32_t is_there = 0;
  unisono_message_info info = no_info();
  x[0] = (float)rank;
  x[1] = (float)rank + 0.25F;
  x[2] = (float)rank + 0.5F;
  OK(unisono_send(x, 3, UNISONO_FLOAT32, next, unisono_world(), &seven));
  OK(unisono_probe(UNISONO_ANY_SOURCE, unisono_world(), &any, &info));
  CHECK(info.source == before && info.tag == 7 && info.dtype == UNISONO_FLOAT32 && info.count == 3 && info.is_object == 0);
  info = no_info();
  OK(unisono_try_probe(before, unisono_world(), &seven, &is_there, &info));
  CHECK(is_there == 1 && info.count == 3);
  info = no_info();
  OK(unisono_recv(y, 3, UNISONO_FLOAT32, UNISONO_ANY_SOURCE, unisono_world(), &any, &info));
  CHECK(info.source == before && info.tag == 7 && info.size == sizeof info);
  CHECK(y[0] == (float)before && y[1] == (float)before + 0.25F && y[2] == (float)before + 0.5F);
  OK(unisono_try_probe(before, unisono_world(), &seven, &is_there, &info));
  CHECK(is_there == 0 && info.count == 3);
}

static void under_way(void) {
  const int32_t next = (rank + 1) % size, before = (rank + size - 1) % size;
  const unisono_call_options nine = tagged(9);
  int32_t x = 50 + rank, y = -1, source = -7, tag = -7, is_cancelled = -1;
  unisono_work* two[2] = {NULL, NULL};
  OK(unisono_irecv(&y, 1, UNISONO_INT32, before, unisono_world(), &nine, &two[0]));
  OK(unisono_isend(&x, 1, UNISONO_INT32, next, unisono_world(), &nine, &two[1]));
  OK(unisono_wait_all(two, 2));
  CHECK(y == 50 + before);
  OK(unisono_work_source(two[0], &source, &tag));
  CHECK(source == before && tag == 9);
  OK(unisono_work_free(two[0]));
  OK(unisono_work_free(two[1]));
  OK(unisono_irecv(&y, 1, UNISONO_INT32, UNISONO_ANY_SOURCE, unisono_world(), &nine, &two[0]));
  OK(unisono_work_cancel(two[0], &is_cancelled));
  CHECK(is_cancelled == 1 && y == 50 + before);
  OK(unisono_work_free(two[0]));
}

static void both_ways(void) {
  const int32_t next = (rank + 1) % size, before = (rank + size - 1) % size;
  const double x[2] = {rank, -rank};
  double y[2] = {0, 0};
  OK(unisono_send_recv(x, 2, UNISONO_FLOAT64, next, y, 2, UNISONO_FLOAT64, before, unisono_world(), NULL));
  CHECK(y[0] == before && y[1] == -before);
}

void messages(void) {
  int32_t x = 0;
  if (size == 1) {
    REFUSED(UNISONO_INVALID_ARGUMENT, "nobody", unisono_recv(&x, 1, UNISONO_INT32, UNISONO_ANY_SOURCE, unisono_world(), NULL, NULL));
    return;
  }
  around();
  under_way();
  both_ways();
  // Another length than the receive's is the receiver's error alone.
  if (rank == 0) OK(unisono_send(&size, 1, UNISONO_INT32, 1, unisono_world(), NULL));
  if (rank == 1) REFUSED(UNISONO_MISMATCH, "recv", unisono_recv(NULL, 0, UNISONO_INT32, 0, unisono_world(), NULL, NULL));
  OK(unisono_barrier(unisono_world(), NULL));
}

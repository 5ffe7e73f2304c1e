// unisono/c.h: a program in C. A sum, a message, an asynchronous call and an error. Runs alone, and under `unisono run -n 4 -- 20_c`.
#include <unisono/c.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Ends the program if a call has failed. The other ranks are told by the library.
static void must(unisono_status status) {
  if (status == UNISONO_OK) return;
  fprintf(stderr, "%s: %s\n", unisono_status_name(status), unisono_error_message());
  exit(1);
}

// Returns the code with which the program ends at once; -1 where it goes on.
static int ended_by_arguments(int argc, char** argv) {
  if (argc < 2) return -1;
  if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
    printf("usage: 20_c\nThe C interface: a sum, a message, an asynchronous call and an error.\n");
    return 0;
  }
  fprintf(stderr, "20_c: unknown argument %s\nusage: 20_c   (--help says more)\n", argv[1]);
  return 2;
}

int main(int argc, char** argv) {
  const int code = ended_by_arguments(argc, argv);
  if (code >= 0) return code;
  must(unisono_initialize(UNISONO_HEADER_VERSION, NULL));
  unisono_group* const world = unisono_world();
  int32_t rank, size;
  must(unisono_rank(&rank));
  must(unisono_world_size(&size));

  // A buffer is an address, a number of elements and their type.
  float squares[2] = {(float)rank, (float)(rank * rank)};
  must(unisono_all_reduce(squares, 2, UNISONO_FLOAT32, UNISONO_SUM, world, NULL));
  if (rank == 0) printf("sum of ranks %g, of their squares %g\n", squares[0], squares[1]);

  // A message to the next rank, around a ring.
  int32_t from = rank;
  if (size > 1) {
    must(unisono_send_recv(&rank, 1, UNISONO_INT32, (rank + 1) % size, &from, 1, UNISONO_INT32, (rank + size - 1) % size, world, NULL));
  }
  printf("rank %d has a message of rank %d\n", (int)rank, (int)from);

  // An asynchronous call has a handle, which is freed; its buffer belongs to the library until it is done.
  int64_t largest = 10 * rank;
  unisono_work* work;
  must(unisono_all_reduce_async(&largest, 1, UNISONO_INT64, UNISONO_MAX, world, NULL, &work));
  must(unisono_work_wait(work));
  must(unisono_work_free(work));
  if (rank == 0) printf("largest value %d\n", (int)largest);

  // A call that is wrong has a code and a sentence. Nothing was sent, and the group stays usable.
  const unisono_call_options options = {.size = sizeof options, .timeout_ms = 5000, .file = __FILE__, .line = __LINE__};
  const unisono_status status = unisono_broadcast(&largest, 1, UNISONO_INT64, size, world, &options);
  if (rank == 0) printf("%s: %s\n", unisono_status_name(status), unisono_error_message());

  must(unisono_finalize());
  return 0;
}

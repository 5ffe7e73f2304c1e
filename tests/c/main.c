// Every function of the C interface: `c_calls calls` and the other words below. The program ends with 1 and says where something does not hold.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

int32_t rank = -1, size = 0;

void check(int holds, const char* text, const char* file, int line) {
  if (holds) return;
  fprintf(stderr, "%s:%d: rank %d: %s does not hold; last error: %s\n", file, line, (int)rank, text, unisono_error_message());
  exit(1);
}

void check_status(unisono_status got, unisono_status expected, const char* word, const char* text, const char* file, int line) {
  if (got == expected && (got == UNISONO_OK || (strstr(unisono_error_message(), word) != NULL && unisono_error_status() == got))) return;
  fprintf(stderr, "%s:%d: rank %d: %s is %s and not %s with \"%s\"; last error: %s\n", file, line, (int)rank, text, unisono_status_name(got),
          unisono_status_name(expected), word, unisono_error_message());
  exit(1);
}

// Whether this is one of several processes.
static int is_launched(void) {
  const char* const processes = getenv("WORLD_SIZE");
  return processes != NULL && strcmp(processes, "1") != 0;
}

// After calls that were refused the group is as it was.
static void still_usable(void) {
  int64_t sum = rank + 1;
  OK(unisono_all_reduce(&sum, 1, UNISONO_INT64, UNISONO_SUM, unisono_world(), NULL));
  CHECK(sum == (int64_t)size * (size + 1) / 2);
}

static void calls(void) {
  context();
  names();
  collectives();
  blocks();
  later();
  groups();
  messages();
}

static void refusals(void) {
  refused_buffers();
  still_usable();
  refused_handles();
  still_usable();
  refused_structures();
  still_usable();
  threads();
  still_usable();
}

static void differing(void) {
  mismatch();
  still_usable();
}

int main(int argc, char** argv) {
  static const struct {
    const char* name;
    void (*body)(void);
  } words[] = {{"calls", calls}, {"refusals", refusals}, {"mismatch", differing}, {"missing", missing}, {"killed", killed}, {"aborted", aborted}};
  const size_t number = sizeof words / sizeof *words;
  size_t i = 0;
  while (argc == 2 && i < number && strcmp(words[i].name, argv[1]) != 0) ++i;
  if (argc != 2 || i == number) {
    fprintf(stderr, "usage: c_calls calls | refusals | mismatch | missing | killed | aborted\n");
    return 2;
  }
  CHECK(unisono_is_initialized() == 0);
  if (is_launched()) REFUSED(UNISONO_NOT_INITIALIZED, "initialize", unisono_barrier(unisono_world(), NULL));
  OK(unisono_initialize(UNISONO_HEADER_VERSION, NULL));
  CHECK(unisono_is_initialized() == 1);
  OK(unisono_rank(&rank));
  OK(unisono_world_size(&size));
  words[i].body();
  OK(unisono_finalize());
  OK(unisono_finalize());
  CHECK(unisono_is_initialized() == 0);
  printf("rank %d of %d: %s went well\n", (int)rank, (int)size, argv[1]);
  return 0;
}

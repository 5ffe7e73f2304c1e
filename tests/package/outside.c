// outside.cpp in C99: knows the public headers and the library, nothing more.
#include <unisono/c.h>

#include <stdio.h>

int main(void) {
  int32_t rank, size;
  float values[2], sum_of_ranks;
  if (unisono_initialize(UNISONO_HEADER_VERSION, NULL) != UNISONO_OK || unisono_rank(&rank) != UNISONO_OK ||
      unisono_world_size(&size) != UNISONO_OK) {
    fprintf(stderr, "%s\n", unisono_error_message());
    return 1;
  }
  values[0] = 1.0F + (float)rank;
  values[1] = 10.0F * (float)rank;
  if (unisono_all_reduce(values, 2, UNISONO_FLOAT32, UNISONO_SUM, unisono_world(), NULL) != UNISONO_OK || unisono_finalize() != UNISONO_OK) {
    fprintf(stderr, "%s\n", unisono_error_message());
    return 1;
  }
  sum_of_ranks = (float)(size * (size - 1) / 2);
  printf("rank %d of %d: %s\n", (int)rank, (int)size,
         values[0] == (float)size + sum_of_ranks && values[1] == 10.0F * sum_of_ranks ? "sum is right" : "sum is WRONG");
  return 0;
}

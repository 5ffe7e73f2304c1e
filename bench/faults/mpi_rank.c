/* What scripts/bench/compare-faults starts as ranks of an MPI: `mpi_rank MODE`. It tells what happens in lines "EVENT RANK SECONDS TEXT". */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int rank;

static void tell(const char* event, const char* text) {
  struct timespec now;
  char line[512];
  clock_gettime(CLOCK_MONOTONIC, &now);
  const int length = snprintf(line, sizeof line, "%s %d %ld.%06ld %s\n", event, rank, (long)now.tv_sec, now.tv_nsec / 1000, text);
  if (write(STDOUT_FILENO, line, (size_t)length) < 0) _exit(90);
}

static void loop(long count) {
  float* values = calloc((size_t)count, sizeof *values);
  for (long i = 0;; ++i) {
    MPI_Allreduce(MPI_IN_PLACE, values, (int)count, MPI_FLOAT, MPI_MAX, MPI_COMM_WORLD);
    if (i == 20 || i % 200 == 0) tell("runs", "");
  }
}

/* The calls of the two ranks differ as `mode` says. */
static void differ(const char* mode) {
  static float f[4000];
  static double d[4000];
  static int n[4000];
  char text[200];
  for (int i = 0; i < 4000; ++i) {
    f[i] = (float)(rank + 2);
    d[i] = rank + 2;
    n[i] = rank + 2;
  }
  void* data = f;
  if (strcmp(mode, "count") == 0) {
    MPI_Allreduce(MPI_IN_PLACE, f, rank == 0 ? 1000 : 2000, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  } else if (strcmp(mode, "width") == 0) {
    if (rank == 1) data = d;
    MPI_Allreduce(MPI_IN_PLACE, data, 1000, rank == 0 ? MPI_FLOAT : MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  } else if (strcmp(mode, "dtype") == 0) {
    if (rank == 1) data = n;
    MPI_Allreduce(MPI_IN_PLACE, data, 1000, rank == 0 ? MPI_FLOAT : MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  } else if (strcmp(mode, "op") == 0) {
    MPI_Allreduce(MPI_IN_PLACE, f, 1000, MPI_FLOAT, rank == 0 ? MPI_SUM : MPI_PROD, MPI_COMM_WORLD);
  } else if (rank == 0) {
    MPI_Allreduce(MPI_IN_PLACE, f, 1000, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  } else {
    MPI_Bcast(f, 1000, MPI_FLOAT, 0, MPI_COMM_WORLD);
  }
  if (data == d) snprintf(text, sizeof text, "%g", d[0]);
  else if (data == n) snprintf(text, sizeof text, "%d", n[0]);
  else snprintf(text, sizeof text, "%g", f[0]);
  tell("result", text);
  MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char** argv) {
  const char* mode = argc > 1 ? argv[1] : "loop";
  char text[32];
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  snprintf(text, sizeof text, "%d", (int)getpid());
  tell("ready", text);
  if (strcmp(mode, "loop") == 0) loop(1L << 18);
  if (strcmp(mode, "exit") == 0 || strcmp(mode, "seven") == 0) {
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1) {
      tell("fault", "");
      exit(strcmp(mode, "exit") == 0 ? 3 : 7);
    }
    MPI_Barrier(MPI_COMM_WORLD);
  } else if (strcmp(mode, "large") == 0) {
    float* values = calloc(1 << 20, sizeof *values);
    for (int i = 0; i < 1 << 20; ++i) values[i] = 1;
    for (int i = 0; i < 5; ++i) MPI_Allreduce(MPI_IN_PLACE, values, 1 << 20, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    snprintf(text, sizeof text, "%g", values[0]);
    tell("result", text);
  } else {
    differ(mode);
  }
  tell("done", "");
  MPI_Finalize();
  return 0;
}

// What a process knows of its job, and names.
#include <stdio.h>
#include <string.h>

#include "check.h"

void context(void) {
  int32_t local = -1, of_host = 0, hosts = 0, host = -1, is_available = -1;
  char text[256], version[32];
  size_t length = 0;
  OK(unisono_local_rank(&local));
  OK(unisono_nproc_per_node(&of_host));
  OK(unisono_nnodes(&hosts));
  OK(unisono_node_rank(&host));
  CHECK(local >= 0 && local < of_host && of_host <= size);
  CHECK(host >= 0 && host < hosts && hosts <= size);

  OK(unisono_hostname(text, sizeof text, &length));
  CHECK(length > 0 && strlen(text) == length);
  OK(unisono_hostname(text, length + 1, NULL));
  OK(unisono_backend(text, sizeof text, &length));
  CHECK((length == 0) == (size == 1));
  OK(unisono_is_backend_available("serial", &is_available));
  CHECK(is_available == 1);
  OK(unisono_is_backend_available("bogus", &is_available));
  CHECK(is_available == 0);

  CHECK(unisono_version() == UNISONO_HEADER_VERSION);
  snprintf(version, sizeof version, "%d.%d.%d", UNISONO_VERSION_MAJOR, UNISONO_VERSION_MINOR, UNISONO_VERSION_PATCH);
  CHECK(strcmp(unisono_version_text(), version) == 0);
}

static void status_names(void) {
  CHECK(strcmp(unisono_status_name(UNISONO_OK), "UNISONO_OK") == 0);
  CHECK(strcmp(unisono_status_name(UNISONO_ERROR), "UNISONO_ERROR") == 0);
  CHECK(strcmp(unisono_status_name(UNISONO_INVALID_ARGUMENT), "UNISONO_INVALID_ARGUMENT") == 0);
  CHECK(strcmp(unisono_status_name(UNISONO_NOT_INITIALIZED), "UNISONO_NOT_INITIALIZED") == 0);
  CHECK(strcmp(unisono_status_name(UNISONO_ALREADY_INITIALIZED), "UNISONO_ALREADY_INITIALIZED") == 0);
  CHECK(strcmp(unisono_status_name(UNISONO_NOT_MEMBER), "UNISONO_NOT_MEMBER") == 0);
  CHECK(strcmp(unisono_status_name(UNISONO_UNSUPPORTED), "UNISONO_UNSUPPORTED") == 0);
  CHECK(strcmp(unisono_status_name(UNISONO_BACKEND_UNAVAILABLE), "UNISONO_BACKEND_UNAVAILABLE") == 0);
  CHECK(strcmp(unisono_status_name(UNISONO_MISMATCH), "UNISONO_MISMATCH") == 0);
  CHECK(strcmp(unisono_status_name(UNISONO_TIMEOUT), "UNISONO_TIMEOUT") == 0);
  CHECK(strcmp(unisono_status_name(UNISONO_PEER_FAILED), "UNISONO_PEER_FAILED") == 0);
  CHECK(strcmp(unisono_status_name(UNISONO_PROTOCOL_ERROR), "UNISONO_PROTOCOL_ERROR") == 0);
  CHECK(strcmp(unisono_status_name(UNISONO_OUT_OF_MEMORY), "UNISONO_OUT_OF_MEMORY") == 0);
  CHECK(strcmp(unisono_status_name(UNISONO_WRONG_VERSION), "UNISONO_WRONG_VERSION") == 0);
  CHECK(strcmp(unisono_status_name((unisono_status)99), "unknown") == 0);
  CHECK(strcmp(unisono_status_name((unisono_status)-1), "unknown") == 0);
}

static void dtype_names(void) {
  static const struct {
    unisono_dtype dtype;
    const char* name;
    size_t bytes;
  } dtypes[] = {{UNISONO_BOOLEAN, "boolean", 1},   {UNISONO_INT8, "int8", 1},           {UNISONO_INT16, "int16", 2},
                {UNISONO_INT32, "int32", 4},       {UNISONO_INT64, "int64", 8},         {UNISONO_UINT8, "uint8", 1},
                {UNISONO_UINT16, "uint16", 2},     {UNISONO_UINT32, "uint32", 4},       {UNISONO_UINT64, "uint64", 8},
                {UNISONO_FLOAT16, "float16", 2},   {UNISONO_BFLOAT16, "bfloat16", 2},   {UNISONO_FLOAT32, "float32", 4},
                {UNISONO_FLOAT64, "float64", 8},   {UNISONO_COMPLEX64, "complex64", 8}, {UNISONO_COMPLEX128, "complex128", 16},
                {(unisono_dtype)15, "unknown", 0}, {(unisono_dtype)-1, "unknown", 0}};
  size_t i;
  for (i = 0; i < sizeof dtypes / sizeof *dtypes; ++i) {
    CHECK(strcmp(unisono_dtype_name(dtypes[i].dtype), dtypes[i].name) == 0);
    CHECK(unisono_dtype_size(dtypes[i].dtype) == dtypes[i].bytes);
  }
}

void names(void) {
  static const char* const ops[] = {"sum", "product", "min", "max", "avg", "band", "bor", "bxor", "land", "lor", "unknown"};
  int i;
  status_names();
  dtype_names();
  for (i = UNISONO_SUM; i <= UNISONO_LOR + 1; ++i) CHECK(strcmp(unisono_reduce_op_name((unisono_reduce_op)i), ops[i]) == 0);
  CHECK(strcmp(unisono_cause_name(UNISONO_CAUSE_NONE), "unknown") == 0);
  CHECK(strcmp(unisono_cause_name(UNISONO_CAUSE_EXITED), "exited") == 0);
  CHECK(strcmp(unisono_cause_name(UNISONO_CAUSE_KILLED), "killed") == 0);
  CHECK(strcmp(unisono_cause_name(UNISONO_CAUSE_SILENT), "silent") == 0);
  CHECK(strcmp(unisono_cause_name(UNISONO_CAUSE_ABORTED), "aborted") == 0);
  CHECK(strcmp(unisono_cause_name(UNISONO_CAUSE_DISCONNECTED), "disconnected") == 0);
  CHECK(strcmp(unisono_cause_name((unisono_cause)6), "unknown") == 0);
}

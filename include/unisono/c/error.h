#pragma once

#include "unisono/c/types.h"

// Why a call failed: the functions of this header speak of the last call of this thread that failed.
// A call that goes well changes nothing of it, nor does any function here. Each text lasts until the
// next call of this thread that fails, and is "" where there is nothing to say.

#ifdef __cplusplus
extern "C" {
#endif

/// The end of a peer, as the others have seen it. The values never change.
typedef enum unisono_cause UNISONO_C_INT {
  /// The last error is not of a peer.
  UNISONO_CAUSE_NONE = 0,
  /// Its process ended by itself before unisono_finalize.
  UNISONO_CAUSE_EXITED = 1,
  /// Its process was ended by a signal.
  UNISONO_CAUSE_KILLED = 2,
  /// It is alive for the system, but stopped for longer than the limit.
  UNISONO_CAUSE_SILENT = 3,
  /// It called unisono_group_abort, or an exception left its scope.
  UNISONO_CAUSE_ABORTED = 4,
  /// It has left the group (unisono_finalize), or its connection broke.
  UNISONO_CAUSE_DISCONNECTED = 5
} unisono_cause;

/// Returns the whole sentence: the operation, its number within the group, the group, the own rank,
/// what is wrong, the culprit, and what to do.
UNISONO_C_API const char* unisono_error_message(void);
/// Returns the code that the call returned; UNISONO_OK if none has failed.
UNISONO_C_API unisono_status unisono_error_status(void);
/// Returns the call: "all_reduce".
UNISONO_C_API const char* unisono_error_operation(void);
/// Returns the name of the group: "world".
UNISONO_C_API const char* unisono_error_group(void);
/// Returns the remedy, which the sentence has in parentheses.
UNISONO_C_API const char* unisono_error_hint(void);
/// Returns the host of the rank that caused the error.
UNISONO_C_API const char* unisono_error_host(void);
/// Returns the number of the operation within its group, from 1; 0 if it is not within one.
UNISONO_C_API uint64_t unisono_error_sequence(void);
/// Returns the caller's rank in the group; -1 if it has none yet.
UNISONO_C_API int32_t unisono_error_rank(void);
/// Returns the rank in the group that caused the error, such as the one that has died; -1 if there is
/// none.
UNISONO_C_API int32_t unisono_error_culprit(void);
/// Returns that rank's rank in the world; -1 if it is not known.
UNISONO_C_API int32_t unisono_error_world_culprit(void);
/// Returns the end of the peer of a UNISONO_PEER_FAILED.
UNISONO_C_API unisono_cause unisono_error_cause(void);
/// Returns how many ranks did not arrive before the deadline of a UNISONO_TIMEOUT, as far as they are
/// known, and writes the first `capacity` of them to `ranks`, in ascending order. `ranks` may be NULL
/// if `capacity` is 0.
UNISONO_C_API size_t unisono_error_missing(int32_t* ranks, size_t capacity);
/// Returns the name of a cause: "killed"; "unknown" for UNISONO_CAUSE_NONE and any other number.
UNISONO_C_API const char* unisono_cause_name(unisono_cause cause);

#ifdef __cplusplus
}
#endif

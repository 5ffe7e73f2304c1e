#pragma once

#include "unisono/c/types.h"

// Operations that are under way: what each NAME_async, unisono_isend and unisono_irecv gives.
//
// The operation's buffers belong to the library until it is done. The handle is freed by
// unisono_work_free, before or after that. An operation whose handle is freed before still completes;
// if it fails, the group's next call returns the error.

#ifdef __cplusplus
extern "C" {
#endif

/// Returns when the operation is done, and returns its error. The calling thread drives the operation
/// while it waits. An operation on device memory is ordered before what the caller's stream does next,
/// and does not hold up the host.
UNISONO_C_API unisono_status unisono_work_wait(unisono_work* work);

/// Waits for at most `timeout_ms` milliseconds. Writes 1 to `is_done` if the operation is done, and
/// returns its error; writes 0 if it goes on.
UNISONO_C_API unisono_status unisono_work_wait_for(unisono_work* work, int64_t timeout_ms, int32_t* is_done);

/// Writes 1 to `is_done` if the operation is done, and returns its error; writes 0 if it goes on. Never
/// blocks.
UNISONO_C_API unisono_status unisono_work_test(unisono_work* work, int32_t* is_done);

/// Takes a receive back that nobody wants any more. Writes 1 to `is_cancelled` if it is done now without
/// a message, its buffer as it was; 0 if a message has come, and for every operation except a receive.
UNISONO_C_API unisono_status unisono_work_cancel(unisono_work* work, int32_t* is_cancelled);

/// Writes the sender's rank in the group and the tag of the message that a receive has taken; -1 and 0
/// for anything else, and while it is under way. Either may be NULL.
UNISONO_C_API unisono_status unisono_work_source(unisono_work* work, int32_t* source, int32_t* tag);

/// Frees the handle.
UNISONO_C_API unisono_status unisono_work_free(unisono_work* work);

/// Waits for `count` operations, then returns the first error in the order of the list, if there is any.
UNISONO_C_API unisono_status unisono_wait_all(unisono_work* const* works, size_t count);

/// Waits until one of `count` operations is done, writes its index, and returns its error. An operation
/// that was done before counts. UNISONO_INVALID_ARGUMENT: the list is empty.
UNISONO_C_API unisono_status unisono_wait_any(unisono_work* const* works, size_t count, size_t* index);

#ifdef __cplusplus
}
#endif

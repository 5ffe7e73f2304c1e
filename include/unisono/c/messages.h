#pragma once

#include "unisono/c/types.h"

// Messages between two ranks of a group.
//
// A receive takes a message whose sender, group and tag are those that it names (the tag of its
// options, 0 unless said); messages that fit the same receive are taken in the order in which they were
// sent. Length and dtype of message and receive are the same, else the receiver gets UNISONO_MISMATCH,
// and the message is gone. A receiver that does not know the length asks unisono_probe first.
//
// A message of up to 64 KiB in host memory leaves its sender without a matching receive, so that all
// ranks may send first and receive afterwards (point_to_point.h has the limits). A larger message waits
// for its receive.
//
// UNISONO_INVALID_ARGUMENT: a message to or from the caller itself, a rank outside the group, and any
// call in a group of one.

#ifdef __cplusplus
extern "C" {
#endif

/// Sends `count` elements to rank `dst`, and returns when `data` may be changed again.
UNISONO_C_API unisono_status unisono_send(const void* data, size_t count, unisono_dtype dtype, int32_t dst, unisono_group* group,
                                          const unisono_call_options* options);

/// Starts to send. `data` belongs to the library until the work is done.
UNISONO_C_API unisono_status unisono_isend(const void* data, size_t count, unisono_dtype dtype, int32_t dst, unisono_group* group,
                                           const unisono_call_options* options, unisono_work** work);

/// Receives a message of `count` elements from rank `src`, or from UNISONO_ANY_SOURCE.
///
/// @param info is filled in with what has come; its `size` is set before. May be NULL.
UNISONO_C_API unisono_status unisono_recv(void* data, size_t count, unisono_dtype dtype, int32_t src, unisono_group* group,
                                          const unisono_call_options* options, unisono_message_info* info);

/// Starts to receive. `data` belongs to the library until the work is done; unisono_work_source then
/// tells whose message it was.
UNISONO_C_API unisono_status unisono_irecv(void* data, size_t count, unisono_dtype dtype, int32_t src, unisono_group* group,
                                           const unisono_call_options* options, unisono_work** work);

/// Sends `out` to rank `dst` and receives `in` from rank `src` at the same time, so that ranks can
/// exchange messages of any size without waiting for each other in a circle. The buffers do not overlap.
UNISONO_C_API unisono_status unisono_send_recv(const void* out, size_t out_count, unisono_dtype out_dtype, int32_t dst, void* in, size_t in_count,
                                               unisono_dtype in_dtype, int32_t src, unisono_group* group, const unisono_call_options* options);

/// Waits for a message from rank `src`, or from UNISONO_ANY_SOURCE, and tells what it is, without
/// receiving it. A receive from that source with that tag takes it.
UNISONO_C_API unisono_status unisono_probe(int32_t src, unisono_group* group, const unisono_call_options* options, unisono_message_info* info);

/// Tells which message has come, without waiting: writes 1 to `is_there` and fills in `info`, or
/// writes 0.
UNISONO_C_API unisono_status unisono_try_probe(int32_t src, unisono_group* group, const unisono_call_options* options, int32_t* is_there,
                                               unisono_message_info* info);

#ifdef __cplusplus
}
#endif

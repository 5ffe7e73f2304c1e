#pragma once

#include "unisono/c/types.h"

// Collectives. Every rank of the group calls the function with the same count, dtype, operation and
// root; anything else is UNISONO_MISMATCH on all ranks.
//
// A *block* is the part of a long buffer that belongs to one rank; the blocks of all ranks lie one
// behind the other in group order. `count` is the number of elements of one block where there are
// blocks, and of the whole buffer elsewhere.
//
// NAME_async has the arguments of NAME, writes a handle, and does not wait. The buffers belong to the
// library until the work is done (work.h). Operations of one group are carried out in the order of the
// calls.
//
// `options` may be NULL.

#ifdef __cplusplus
extern "C" {
#endif

/// Returns once every rank of the group has called it. UNISONO_TIMEOUT: unisono_error_missing names the
/// ranks that did not come.
UNISONO_C_API unisono_status unisono_barrier(unisono_group* group, const unisono_call_options* options);
/// Starts `barrier` and returns at once.
UNISONO_C_API unisono_status unisono_barrier_async(unisono_group* group, const unisono_call_options* options, unisono_work** work);

/// Replaces the `count` elements of `data` on every rank by the combination of all ranks' elements. The
/// result has the same bits on every rank.
UNISONO_C_API unisono_status unisono_all_reduce(void* data, size_t count, unisono_dtype dtype, unisono_reduce_op op, unisono_group* group,
                                                const unisono_call_options* options);
/// Starts `all_reduce` and returns at once.
UNISONO_C_API unisono_status unisono_all_reduce_async(void* data, size_t count, unisono_dtype dtype, unisono_reduce_op op, unisono_group* group,
                                                      const unisono_call_options* options, unisono_work** work);

/// Writes the combination of all ranks' `in` to `out`; `in` keeps its elements. Both have `count`
/// elements, and are either the same memory or do not overlap.
UNISONO_C_API unisono_status unisono_all_reduce_into(const void* in, void* out, size_t count, unisono_dtype dtype, unisono_reduce_op op,
                                                     unisono_group* group, const unisono_call_options* options);
/// Starts `all_reduce_into` and returns at once.
UNISONO_C_API unisono_status unisono_all_reduce_into_async(const void* in, void* out, size_t count, unisono_dtype dtype, unisono_reduce_op op,
                                                           unisono_group* group, const unisono_call_options* options, unisono_work** work);

/// Replaces the `count` elements of `data` on rank `dst` by the combination of all ranks' elements. On
/// every other rank `data` keeps its elements.
UNISONO_C_API unisono_status unisono_reduce(void* data, size_t count, unisono_dtype dtype, unisono_reduce_op op, int32_t dst, unisono_group* group,
                                            const unisono_call_options* options);
/// Starts `reduce` and returns at once.
UNISONO_C_API unisono_status unisono_reduce_async(void* data, size_t count, unisono_dtype dtype, unisono_reduce_op op, int32_t dst,
                                                  unisono_group* group, const unisono_call_options* options, unisono_work** work);

/// Replaces the `count` elements of `data` on every rank by those of rank `src`.
UNISONO_C_API unisono_status unisono_broadcast(void* data, size_t count, unisono_dtype dtype, int32_t src, unisono_group* group,
                                               const unisono_call_options* options);
/// Starts `broadcast` and returns at once.
UNISONO_C_API unisono_status unisono_broadcast_async(void* data, size_t count, unisono_dtype dtype, int32_t src, unisono_group* group,
                                                     const unisono_call_options* options, unisono_work** work);

/// Collects the blocks of all ranks on every rank: block r of `out` becomes the `in` of rank r.
///
/// `in` has `count` elements, `out` the group's size times as many. `in` may be this rank's own block of
/// `out`.
UNISONO_C_API unisono_status unisono_all_gather(const void* in, void* out, size_t count, unisono_dtype dtype, unisono_group* group,
                                                const unisono_call_options* options);
/// Starts `all_gather` and returns at once.
UNISONO_C_API unisono_status unisono_all_gather_async(const void* in, void* out, size_t count, unisono_dtype dtype, unisono_group* group,
                                                      const unisono_call_options* options, unisono_work** work);

/// Collects the blocks of all ranks on rank `dst`: block r of its `out` becomes the `in` of rank r.
///
/// `in` has `count` elements, `out` of rank `dst` the group's size times as many; on every other rank
/// `out` is ignored and may be NULL.
UNISONO_C_API unisono_status unisono_gather(const void* in, void* out, size_t count, unisono_dtype dtype, int32_t dst, unisono_group* group,
                                            const unisono_call_options* options);
/// Starts `gather` and returns at once.
UNISONO_C_API unisono_status unisono_gather_async(const void* in, void* out, size_t count, unisono_dtype dtype, int32_t dst, unisono_group* group,
                                                  const unisono_call_options* options, unisono_work** work);

/// Shares out the blocks of rank `src`: `out` of rank r becomes block r of that rank's `in`.
///
/// `out` has `count` elements, `in` of rank `src` the group's size times as many; on every other rank
/// `in` is ignored and may be NULL.
UNISONO_C_API unisono_status unisono_scatter(const void* in, void* out, size_t count, unisono_dtype dtype, int32_t src, unisono_group* group,
                                             const unisono_call_options* options);
/// Starts `scatter` and returns at once.
UNISONO_C_API unisono_status unisono_scatter_async(const void* in, void* out, size_t count, unisono_dtype dtype, int32_t src, unisono_group* group,
                                                   const unisono_call_options* options, unisono_work** work);

/// Combines the ranks' inputs block by block: `out` of rank r becomes the combination of block r of all
/// ranks' `in`.
///
/// `out` has `count` elements, `in` the group's size times as many. `out` may be this rank's own block of
/// `in`.
UNISONO_C_API unisono_status unisono_reduce_scatter(const void* in, void* out, size_t count, unisono_dtype dtype, unisono_reduce_op op,
                                                    unisono_group* group, const unisono_call_options* options);
/// Starts `reduce_scatter` and returns at once.
UNISONO_C_API unisono_status unisono_reduce_scatter_async(const void* in, void* out, size_t count, unisono_dtype dtype, unisono_reduce_op op,
                                                          unisono_group* group, const unisono_call_options* options, unisono_work** work);

/// Exchanges a block between every pair of ranks: block r of `out` becomes the block of this rank in the
/// `in` of rank r.
///
/// Both have the group's size times `count` elements, and do not overlap in a group of several ranks.
UNISONO_C_API unisono_status unisono_all_to_all(const void* in, void* out, size_t count, unisono_dtype dtype, unisono_group* group,
                                                const unisono_call_options* options);
/// Starts `all_to_all` and returns at once.
UNISONO_C_API unisono_status unisono_all_to_all_async(const void* in, void* out, size_t count, unisono_dtype dtype, unisono_group* group,
                                                      const unisono_call_options* options, unisono_work** work);

/// Replaces the `count` elements of `data` by the combination of those of the ranks from 0 to this one
/// (an inclusive prefix). UNISONO_AVG is UNISONO_INVALID_ARGUMENT.
UNISONO_C_API unisono_status unisono_scan(void* data, size_t count, unisono_dtype dtype, unisono_reduce_op op, unisono_group* group,
                                          const unisono_call_options* options);
/// Starts `scan` and returns at once.
UNISONO_C_API unisono_status unisono_scan_async(void* data, size_t count, unisono_dtype dtype, unisono_reduce_op op, unisono_group* group,
                                                const unisono_call_options* options, unisono_work** work);

/// Replaces the `count` elements of `data` by the combination of those of the ranks below this one (an
/// exclusive prefix). On rank 0 `data` keeps its elements. UNISONO_AVG is UNISONO_INVALID_ARGUMENT.
UNISONO_C_API unisono_status unisono_exscan(void* data, size_t count, unisono_dtype dtype, unisono_reduce_op op, unisono_group* group,
                                            const unisono_call_options* options);
/// Starts `exscan` and returns at once.
UNISONO_C_API unisono_status unisono_exscan_async(void* data, size_t count, unisono_dtype dtype, unisono_reduce_op op, unisono_group* group,
                                                  const unisono_call_options* options, unisono_work** work);

#ifdef __cplusplus
}
#endif

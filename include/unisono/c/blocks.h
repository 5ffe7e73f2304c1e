#pragma once

#include "unisono/c/types.h"

// Collectives on blocks whose length differs from rank to rank (MPI_Allgatherv and its like).
//
// `counts` has a number of elements for each rank of the group, in group order, and the blocks lie one
// behind the other without gaps. Every rank gives the same counts, else all get UNISONO_MISMATCH. The
// counts are copied. Ranks that know their own length only gather the lengths first, by
// unisono_all_gather.
//
// Roots, asynchronous forms and options are as in collectives.h.

#ifdef __cplusplus
extern "C" {
#endif

/// Collects the blocks of all ranks on every rank: `in` has counts[r] elements on rank r, `out` the sum
/// of all counts. `in` may be this rank's own block of `out`.
UNISONO_C_API unisono_status unisono_all_gather_v(const void* in, void* out, const size_t* counts, unisono_dtype dtype, unisono_group* group,
                                                  const unisono_call_options* options);
/// Starts `all_gather_v` and returns at once.
UNISONO_C_API unisono_status unisono_all_gather_v_async(const void* in, void* out, const size_t* counts, unisono_dtype dtype, unisono_group* group,
                                                        const unisono_call_options* options, unisono_work** work);

/// Collects the blocks of all ranks on rank `dst`. On every other rank `out` is ignored and may be NULL.
UNISONO_C_API unisono_status unisono_gather_v(const void* in, void* out, const size_t* counts, unisono_dtype dtype, int32_t dst, unisono_group* group,
                                              const unisono_call_options* options);
/// Starts `gather_v` and returns at once.
UNISONO_C_API unisono_status unisono_gather_v_async(const void* in, void* out, const size_t* counts, unisono_dtype dtype, int32_t dst,
                                                    unisono_group* group, const unisono_call_options* options, unisono_work** work);

/// Shares out the blocks of rank `src`: `in` has the sum of all counts there, `out` of rank r counts[r]
/// elements. On every other rank `in` is ignored and may be NULL.
UNISONO_C_API unisono_status unisono_scatter_v(const void* in, void* out, const size_t* counts, unisono_dtype dtype, int32_t src,
                                               unisono_group* group, const unisono_call_options* options);
/// Starts `scatter_v` and returns at once.
UNISONO_C_API unisono_status unisono_scatter_v_async(const void* in, void* out, const size_t* counts, unisono_dtype dtype, int32_t src,
                                                     unisono_group* group, const unisono_call_options* options, unisono_work** work);

/// Combines the ranks' inputs block by block: `in` has the sum of all counts, `out` of rank r counts[r]
/// elements, which become the combination of block r of all ranks' `in`.
UNISONO_C_API unisono_status unisono_reduce_scatter_v(const void* in, void* out, const size_t* counts, unisono_dtype dtype, unisono_reduce_op op,
                                                      unisono_group* group, const unisono_call_options* options);
/// Starts `reduce_scatter_v` and returns at once.
UNISONO_C_API unisono_status unisono_reduce_scatter_v_async(const void* in, void* out, const size_t* counts, unisono_dtype dtype,
                                                            unisono_reduce_op op, unisono_group* group, const unisono_call_options* options,
                                                            unisono_work** work);

/// Sends a block to each rank and receives one from each: `in` has send_counts[r] elements for each rank
/// r, `out` recv_counts[r] elements from it. The buffers do not overlap. Each rank has counts of its own;
/// it is UNISONO_MISMATCH on all ranks if a rank sends another number than its receiver expects.
UNISONO_C_API unisono_status unisono_all_to_all_v(const void* in, const size_t* send_counts, void* out, const size_t* recv_counts,
                                                  unisono_dtype dtype, unisono_group* group, const unisono_call_options* options);
/// Starts `all_to_all_v` and returns at once.
UNISONO_C_API unisono_status unisono_all_to_all_v_async(const void* in, const size_t* send_counts, void* out, const size_t* recv_counts,
                                                        unisono_dtype dtype, unisono_group* group, const unisono_call_options* options,
                                                        unisono_work** work);

#ifdef __cplusplus
}
#endif
